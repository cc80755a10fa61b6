"""`spark.readStream.format("barnabas")`: micro-batches over ranges of offsets.

A query begins at one place, which is found once. Spark notes the end of the first micro-batch in its log, but not the
start: if that micro-batch fails, it asks for the start anew, when partitions may have been added and "latest" has moved
on. So the end of the first micro-batch has the start with it (`topic_offsets.with_start`), and is planned again with
that one.

Spark keeps one reader per query in a Python process on the driver, and calls everything but `read` there, from one
thread; `read` runs in the executors' workers on a copy. No lock.
"""

# ruff: noqa: N802 the names are Spark's

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.protocol.errors import ApiError
from barnabas_spark.columns import checked_columns
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.source_options import DataLoss, ReadLimits, SourceOptions, report_data_loss
from barnabas_spark.reading.client_cache import connections
from barnabas_spark.reading.offset_ranges import RangePartition, limit_offsets, ranges_between, tasks_of
from barnabas_spark.reading.starting_offsets import TopicMissing, first_offsets, partitions_to_read
from barnabas_spark.topic_offsets import LATEST, Offsets, offsets_to_json, planned_offsets, start_in, with_start
from barnabas_spark.worker_heap import worker_heap

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


class TriggerLimits:
    """The limits of a query's micro-batches: the next one reads nothing yet, a share of what waits, or all of it.

    `now_ms` is a monotonic clock. Spark: KafkaMicroBatchStream.latestOffset.
    """

    def __init__(self, limits: ReadLimits, now_ms: Callable[[], int]) -> None:
        self._limits = limits
        self._now_ms = now_ms
        self._last_batch_ms: int | None = None

    def end_of_batch(self, start: Offsets, latest: Offsets) -> Offsets:
        """Return the end of the next micro-batch: `start` itself while too few offsets wait.

        `start` has every partition of `latest`.
        """
        if self._has_to_wait(start, latest):
            return dict(start)
        largest = self._limits.max_offsets_per_trigger
        return dict(latest) if largest is None else limit_offsets(start, latest, largest)

    def _has_to_wait(self, start: Offsets, latest: Offsets) -> bool:
        smallest = self._limits.min_offsets_per_trigger
        if smallest is None:
            return False
        now_ms = self._now_ms()
        # The first micro-batch never waits: a query that starts again may have been away for longer than the delay.
        is_due = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._limits.max_trigger_delay_ms
        if not is_due and sum(stop - start[partition] for partition, stop in latest.items()) < smallest:
            return True
        self._last_batch_ms = now_ms
        return False


class OffsetCommitter(Protocol):
    """The part of a broker that keeps the offsets of groups."""

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Commit the offsets of a group. Raises ApiError, ClientTimeout, Disconnected."""


class GroupProgress:
    """What the group of `commitGroupId` was told last, by which lag tools see the query.

    Spark's checkpoint alone decides where the query goes on.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._committed: Offsets = {}

    def note(self, read: Offsets, offsets: OffsetCommitter) -> None:
        """Commit the ends of what was read, if they have changed.

        A commit that fails is a warning, because no record depends on it: the next micro-batch commits again.
        """
        changed = {partition: offset for partition, offset in read.items() if self._committed.get(partition) != offset}
        if not changed:
            return
        try:
            offsets.commit(self._group_id, changed)
        except (ApiError, ClientTimeout, Disconnected) as error:
            logger.warning("offsets were not committed to group %s: %s", self._group_id, error)
            return
        self._committed.update(changed)


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that follows topics. Offsets in Spark's log have the JSON form of Spark's own Kafka source.

    The end of the first micro-batch alone has also the query's start, in keys that no topic has.

    Partitions that are added later are read from their earliest record on.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        # Parsed when the query starts, on the driver, so that a wrong option does not fail in the first task.
        self._options = SourceOptions.parse(given, streaming=True)
        self._columns = checked_columns(schema)
        self._first: Offsets | None = None
        self._unfound: OptionError | DataLoss | TopicMissing | None = None
        """Why the options give no start, as long as no start has turned up in Spark's log."""
        self._has_begun = False
        """Whether the first micro-batch is planned."""
        self._target: Offsets | None = None
        """The ends at which an available-now query stops, or None for other queries."""
        self._latest: Offsets | None = None
        group_id = self._options.commit_group_id
        self._group = None if group_id is None else GroupProgress(group_id)
        self._trigger = TriggerLimits(self._options.limits, _now_ms)

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """Return the start of a query without a checkpoint. Spark asks twice, and gets the same answer."""
        # Spark asks also before it plans the first micro-batch again, whose end has the start. The options may not fit
        # the topics of today then, so their errors are for the micro-batch that needs them.
        if self._first is None and self._unfound is None:
            try:
                self._first = first_offsets(self._options, connections.offsets(self._options))
            except (OptionError, DataLoss, TopicMissing) as error:
                self._unfound = error
        return offsets_to_json(self._first or {})

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the present ends of the topics, at which an available-now query stops."""
        self._target = self._ends({})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of `maxOffsetsPerTrigger` or `minOffsetsPerTrigger`, if given."""
        # Spark's Python sources have no limit with both. The value only tells `latestOffset` that there is one.
        limits = self._options.limits
        if limits.max_offsets_per_trigger is not None:
            return ReadMaxRows(limits.max_offsets_per_trigger)
        if limits.min_offsets_per_trigger is not None:
            return ReadMinRows(limits.min_offsets_per_trigger, limits.max_trigger_delay_ms)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:
        """Return the end of the next micro-batch."""
        # An available-now query stops at the ends that it noted at its start, however many records come meanwhile.
        known = planned_offsets(start)
        is_first = self._is_first(start)
        if is_first and self._unfound is not None:
            raise self._unfound
        # Spark asks for the next end when all before `start` is finished, and also when there is nothing new. It never
        # calls `commit` for the last micro-batch.
        self._commit_to_group(known)
        if self._target is None:
            end = self._ends(known)
        else:
            if is_first:
                self._target = self._not_before(known, self._target)
            end = connections.offsets(self._options).at_least_read(known, self._target)
        self._latest = end
        if not isinstance(limit, ReadAllAvailable):
            # A partition that is gone is still in `known`. It must not come back, so that `partitions` reports the
            # loss.
            starts = self._with_new_partitions(known, end)
            end = self._trigger.end_of_batch({partition: starts[partition] for partition in end}, end)
        if is_first:
            return with_start(end, {partition: known[partition] for partition in end if partition in known})
        # Spark compares the texts: nothing new has to look like before, also after the first micro-batch.
        return start if end == known else offsets_to_json(end)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """Return the last known ends of the topics, from which Spark shows the query's lag."""
        return None if self._latest is None else offsets_to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch. Raises DataLoss for partitions that are gone, or end too early."""
        # The checkpoint's start, not the broker, says what this query has read. A topic that was deleted and created
        # again has fewer partitions or lower offsets than that.
        stops = planned_offsets(end)
        starts = self._starts(start, end, stops)
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
        return [RangePartition(ranges) for ranges in tasks_of(ranges_between(starts, stops), self._options.limits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges, as Arrow batches. Raises ReadTimeout, DataLoss."""
        from barnabas_spark.reading.partition_reader import read_ranges  # noqa: PLC0415 the driver needs no Arrow

        worker_heap.begin_task()
        return read_ranges(cast("RangePartition", partition).value, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the offsets to the group of `commitGroupId`. Spark's checkpoint has them in any case."""
        self._commit_to_group(planned_offsets(end))

    def stop(self) -> None:
        """Close this process's connections."""
        connections.close()

    def _commit_to_group(self, read: Offsets) -> None:
        if self._group is not None:
            self._group.note(read, connections.offsets(self._options))

    def _is_first(self, start: Mapping[str, Any]) -> bool:
        """Return whether the micro-batch that begins at this offset is the query's first one, not planned yet."""
        if self._has_begun or start_in(start) is not None:
            return False
        return self._unfound is not None or planned_offsets(start) == self._first

    def _not_before(self, start: Offsets, end: Offsets) -> Offsets:
        """Return the ends of an available-now query, which were noted before its start was found."""
        given = self._options.starting
        # Offsets of a user may be beyond the end where that is no error; those that stand for latest may not.
        found = {each for each in end if not isinstance(given, dict) or given.get(each) == LATEST}
        return {each: max(stop, start.get(each, stop)) if each in found else stop for each, stop in end.items()}

    def _starts(self, start: Mapping[str, Any], end: Mapping[str, Any], stops: Offsets) -> Offsets:
        """Return where a micro-batch begins, which for the first one is noted at its end. Raises OptionError."""
        is_first = self._is_first(start)
        self._has_begun = True
        noted = start_in(end)
        if noted is not None and start_in(start) is None:
            return noted
        starts = planned_offsets(start)
        if not is_first:
            return starts
        # An earlier version has planned it, and has noted no start.
        if self._unfound is not None:
            raise self._unfound
        return {partition: offset for partition, offset in starts.items() if partition in stops}

    def _ends(self, known: Offsets) -> Offsets:
        """Return the ends of all partitions. `known`: offsets that the ends cannot be before."""
        broker = connections.offsets(self._options)
        return broker.latest_from(known, partitions_to_read(self._options, broker))

    def _with_new_partitions(self, start: Offsets, end: Offsets) -> Offsets:
        added = sorted(end.keys() - start.keys())
        if not added:
            return start
        # From the earliest record on, whatever startingOffsets says: the query runs already, so a new partition's first
        # records belong to it.
        logger.info("new partitions: %s", ", ".join(map(str, added)))
        return start | connections.offsets(self._options).earliest(added)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
