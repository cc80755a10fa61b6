"""`spark.readStream.format("barnabas")`: micro-batches over ranges of offsets.

Spark keeps one reader per query in a Python process on the driver, and calls everything but `read` there, from one
thread; `read` runs in the executors' workers on a copy. No lock.
"""
# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from barnabas_spark.batch_reader import RangePartition
from barnabas_spark.client_cache import connections
from barnabas_spark.columns import checked_columns
from barnabas_spark.data_loss import report_data_loss
from barnabas_spark.offset_ranges import limit_offsets, ranges_between, split_ranges
from barnabas_spark.partition_reader import read_range
from barnabas_spark.source_options import SourceOptions
from barnabas_spark.starting_offsets import first_offsets, partitions_to_read
from barnabas_spark.topic_offsets import Offsets, offsets_from_parsed, offsets_to_json

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that follows topics. Offsets in Spark's log have the JSON form of Spark's own Kafka source.

    Partitions that are added later are read from their earliest record on.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        # Parsed when the query starts, on the driver, so that a wrong option does not fail in the first task.
        self._options = SourceOptions.parse(given, streaming=True)
        self._columns = checked_columns(schema)
        self._first: Offsets | None = None
        self._target: Offsets | None = None
        """The ends at which an available-now query stops, or None for other queries."""
        self._latest: Offsets | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """Return the start of a query without a checkpoint. Spark asks twice, and gets the same answer."""
        if self._first is None:
            self._first = first_offsets(self._options, connections.offsets(self._options))
        return offsets_to_json(self._first)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the present ends of the topics, at which an available-now query stops."""
        self._target = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of `maxOffsetsPerTrigger`, if given."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        """Return the end of the next micro-batch."""
        # An available-now query stops at the ends that it noted at its start, however many records come meanwhile.
        end = self._target or self._ends()
        self._latest = end
        if isinstance(limit, ReadMaxRows):
            end = limit_offsets(self._with_new_partitions(offsets_from_parsed(start), end), end, limit.max_rows)
        return offsets_to_json(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """Return the last known ends of the topics, from which Spark shows the query's lag."""
        return None if self._latest is None else offsets_to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch. Raises DataLoss for partitions that are gone, or end too early."""
        # The checkpoint's start, not the broker, says what this query has read. A topic that was deleted and created
        # again has fewer partitions or lower offsets than that.
        stops = offsets_from_parsed(end)
        starts = offsets_from_parsed(start)
        for partition in sorted(starts.keys() - stops.keys()):
            report_data_loss(
                self._options, f"partition {partition} is gone; it was read up to offset {starts[partition]}"
            )
        starts = self._with_new_partitions(starts, stops)
        for partition, stop in sorted(stops.items()):
            if stop < starts[partition]:
                report_data_loss(
                    self._options,
                    f"partition {partition} was read up to offset {starts[partition]}, but now ends at {stop}",
                )
        ranges = ranges_between(starts, stops)
        pieces = split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, as Arrow batches. Raises ReadTimeout, DataLoss."""
        return read_range(cast("RangePartition", partition).value, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, because Spark's checkpoint has the offsets."""

    def stop(self) -> None:
        """Close this process's connections."""
        connections.close()

    def _ends(self) -> Offsets:
        broker = connections.offsets(self._options)
        return broker.latest(partitions_to_read(self._options, broker))

    def _with_new_partitions(self, start: Offsets, end: Offsets) -> Offsets:
        added = sorted(end.keys() - start.keys())
        if not added:
            return start
        # From the earliest record on, whatever startingOffsets says: the query runs already, so a new partition's first
        # records belong to it.
        logger.info("new partitions: %s", ", ".join(map(str, added)))
        return start | connections.offsets(self._options).earliest(added)
