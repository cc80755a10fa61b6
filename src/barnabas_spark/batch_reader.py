"""`spark.read.format("barnabas")`: a batch query over ranges of offsets.

Spark makes a reader on the driver when it plans a query, calls `partitions` there and `read` in the executors' Python
workers, with a copy of the reader. No lock: each process uses its own copy on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from barnabas_spark.client_cache import connections
from barnabas_spark.columns import checked_columns
from barnabas_spark.data_loss import report_data_loss
from barnabas_spark.offset_ranges import OffsetRange, ranges_between, split_ranges
from barnabas_spark.option_values import OptionError
from barnabas_spark.partition_reader import read_range
from barnabas_spark.source_options import SourceOptions
from barnabas_spark.starting_offsets import BrokerOffsets, partitions_to_read, resolve
from barnabas_spark.topic_offsets import Offsets

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """One task's range of offsets."""

    value: OffsetRange


class BarnabasReader(DataSourceReader):
    """A reader of the offsets between the starting and the ending position, which are fixed in the query's plan."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = SourceOptions.parse(given, streaming=False)
        self._columns = checked_columns(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one range for each partition, or more for `minPartitions` or `maxRecordsPerPartition`.

        Raises OptionError, DataLoss for an end that a partition does not have yet or any more, TopicMissing.
        """
        options = self._options
        broker = connections.offsets(options)
        partitions = partitions_to_read(options, broker)
        start = resolve("startingOffsets", options.starting, partitions, broker)
        end = resolve("endingOffsets", options.ending, partitions, broker)
        for partition in sorted(partitions):
            if start[partition] > end[partition]:
                raise OptionError(
                    f"{partition} would be read from offset {start[partition]} to {end[partition]}: the start is beyond"
                    " the end; change the options of one of them"
                )
        end = self._existing(end, broker)
        limits = options.limits
        ranges = split_ranges(ranges_between(start, end), limits.min_partitions, limits.max_records_per_partition)
        return [RangePartition(each) for each in ranges]

    def _existing(self, end: Offsets, broker: BrokerOffsets) -> Offsets:
        """Return ends that are not beyond the partitions' own. Raises DataLoss for one that is.

        Tasks would wait for records that no producer may ever send.
        """
        if not isinstance(self._options.ending, dict):
            return end
        latest = broker.latest(list(end))
        for partition, offset in sorted(end.items()):
            if offset > latest[partition]:
                given = f"option 'endingOffsets' gives {offset} for {partition}"
                if not self._options.connection.reads_committed:
                    report_data_loss(self._options, f"{given}, which ends at offset {latest[partition]}")
                    continue
                report_data_loss(
                    self._options,
                    f"{given}, whose last stable offset is {latest[partition]}",
                    "What is behind it belongs to an open transaction, or does not exist",
                )
        return {partition: min(offset, latest[partition]) for partition, offset in end.items()}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, as Arrow batches. Raises ReadTimeout, DataLoss."""
        # Where `partitions` returns no range, Spark calls this method once with a partition of its own.
        if partition.value is None:
            return iter(())
        return read_range(cast("RangePartition", partition).value, self._options, self._columns)
