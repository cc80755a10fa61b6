"""The offsets that each task reads, and the end of a micro-batch: pure arithmetic on offsets.

Used by the batch reader and the stream reader on the driver; no state, no lock. Spark: KafkaOffsetRangeCalculator and
KafkaMicroBatchStream.rateLimit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.options.source_options import ReadLimits
from barnabas_spark.topic_offsets import Offsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. Compaction may have left fewer records."""
        return self.end - self.start


class RangePartition(InputPartition):
    """One task's ranges of offsets, each of one partition."""

    value: tuple[OffsetRange, ...]


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Return the ranges between two sets of offsets, without empty ones, in order of topic and partition."""
    return [
        OffsetRange(*partition, start[partition], stop)
        for partition, stop in sorted(end.items())
        if stop > start[partition]
    ]


def split_ranges(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut ranges into more tasks: none longer than `max_records`, and about `min_partitions` of about equal size."""
    pieces = list(ranges)
    if max_records is not None:
        pieces = [piece for each in pieces for piece in _split(each, math.ceil(each.size / max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        total = sum(each.size for each in pieces)
        pieces = [piece for each in pieces for piece in _split(each, max(1, round(each.size / total * min_partitions)))]
    return pieces


def tasks_of(ranges: Sequence[OffsetRange], limits: ReadLimits) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task, in order: pieces of long ranges, or several short ones together."""
    pieces = split_ranges(ranges, limits.min_partitions, limits.max_records_per_partition)
    return _shared(pieces, limits) if limits.min_records_per_partition is not None else [(piece,) for piece in pieces]


def _shared(pieces: Sequence[OffsetRange], limits: ReadLimits) -> list[tuple[OffsetRange, ...]]:
    """Put pieces together until a task has `min_records_per_partition` offsets, within the other two limits."""
    wanted, most = limits.min_records_per_partition or 0, limits.max_records_per_partition
    tasks: list[list[OffsetRange]] = []
    size = 0
    for index, piece in enumerate(pieces):
        # Without this piece: the tasks so far, and one for each piece behind it at most.
        enough_tasks = len(tasks) + len(pieces) - index - 1 >= (limits.min_partitions or 0)
        if tasks and size < wanted and enough_tasks and (most is None or size + piece.size <= most):
            tasks[-1].append(piece)
            size += piece.size
        else:
            tasks.append([piece])
            size = piece.size
    return [tuple(task) for task in tasks]


def limit_offsets(start: Mapping[TopicPartition, int], end: Offsets, limit: int) -> Offsets:
    """Return the end of a micro-batch of about `limit` offsets. Each partition gets its share of the offsets that wait.

    A share below one offset is rounded up, so that every partition moves on.
    """
    waiting = {partition: stop - start[partition] for partition, stop in end.items() if stop > start[partition]}
    total = sum(waiting.values())
    # Fewer offsets than the limit go as they are: rounding could only cut them.
    if total <= limit:
        return dict(end)
    limited = dict(end)
    for partition, size in waiting.items():
        share = limit * (size / total)
        limited[partition] = min(end[partition], start[partition] + (math.ceil(share) if share < 1 else int(share)))
    return limited


def _split(each: OffsetRange, count: int) -> list[OffsetRange]:
    pieces = []
    start = each.start
    for left in range(min(max(count, 1), each.size), 0, -1):
        # What is left is divided among the pieces that are left, so that sizes differ by one at most.
        stop = start + (each.end - start) // left
        pieces.append(OffsetRange(each.topic, each.partition, start, stop))
        start = stop
    return pieces
