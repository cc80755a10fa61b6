"""`spark.read.format("barnabas")`: a batch query over ranges of offsets, cut to what its filters leave.

Spark makes a reader on the driver when it plans a query, calls `partitions` there and `read` in the executors' Python
workers, with a copy of the reader. No lock: each process uses its own copy on one thread.
"""

# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.columns import checked_columns
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.source_options import SourceOptions, report_data_loss
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.reading.offset_ranges import OffsetRange, RangePartition, ranges_between, tasks_of
from barnabas_spark.reading.row_bounds import ALL_ROWS, RowBounds, bounds_of
from barnabas_spark.reading.starting_offsets import BrokerOffsets, partitions_to_read, resolve
from barnabas_spark.topic_offsets import Offsets
from barnabas_spark.worker_heap import worker_heap

if TYPE_CHECKING:
    import pyarrow as pa


def within_bounds(
    ranges: Sequence[OffsetRange],
    bounds: RowBounds,
    at_timestamps: Callable[[Mapping[TopicPartition, int]], Offsets],
) -> list[OffsetRange]:
    """Return the parts of the ranges that may hold rows inside the bounds, without empty ones.

    Called on the driver, after the ends of the ranges are known. at_timestamps: `BrokerOffsets.at_timestamps`. Raises
    what the look-up raises, if the bounds have a timestamp.
    """
    offsets = bounds.offsets
    cut = [
        replace(each, start=max(each.start, offsets.first), end=min(each.end, offsets.last + 1))
        for each in ranges
        if bounds.may_hold_partition(TopicPartition(each.topic, each.partition))
    ]
    left = [each for each in cut if each.start < each.end]
    timestamp_ms = bounds.first_timestamp_ms
    # Negative timestamps have meanings of their own in a look-up; and records without a time have -1.
    if timestamp_ms is None or timestamp_ms < 0 or not left:
        return left
    found = at_timestamps({TopicPartition(each.topic, each.partition): timestamp_ms for each in left})
    # Records in front of the first one that is new enough are all too old. Those that came after the ends were asked
    # for do not matter: they lie behind them.
    starts = [(each, found[TopicPartition(each.topic, each.partition)]) for each in left]
    return [replace(each, start=max(each.start, start)) for each, start in starts if 0 <= start < each.end]


class BarnabasReader(DataSourceReader):
    """A reader of the offsets between the starting and the ending position, which are fixed in the query's plan."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = checked_columns(schema)
        self._bounds = ALL_ROWS

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task for each partition, or more or fewer as `minPartitions` and its kin say.

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
        wanted = within_bounds(ranges_between(start, end), self._bounds, broker.at_timestamps)
        return [RangePartition(ranges) for ranges in tasks_of(wanted, options.limits)]

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
        """Yield the records of a task's ranges, as Arrow batches. Raises ReadTimeout, DataLoss."""
        # Where `partitions` returns no range, Spark calls this method once with a partition of its own.
        if partition.value is None:
            return iter(())
        from barnabas_spark.reading.partition_reader import read_ranges  # noqa: PLC0415 the driver needs no Arrow

        worker_heap.begin_task()
        return read_ranges(cast("RangePartition", partition).value, self._options, self._columns)


class FilteringReader(BarnabasReader):
    """A reader that leaves out offsets at which the query's filters find nothing (option `pushFilters`).

    Spark keeps a reader's plan with the DataFrame: a second query of the same DataFrame would get the ranges of the
    first one's filters. Therefore this reader is made only if the user asks for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters' bounds, and return all filters: Spark applies them to the rows that are left."""
        self._bounds = bounds_of(filters)
        return filters


def batch_reader(given: Mapping[str, str], schema: StructType) -> BarnabasReader:
    """Return the reader for the options. Raises OptionError."""
    options = SourceOptions.parse(given, streaming=False)
    return FilteringReader(options, schema) if options.push_filters else BarnabasReader(options, schema)
