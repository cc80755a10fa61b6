"""A fetch that waits for enough bytes.

Made by ReplicaReader, tried whenever an append or a leadership change touches one of its partitions, expired by the
timer after the client's max wait. Kafka: DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.protocol.errors import ApiError
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partition import Partition
from barnabas.replica.partition_fetch import FetchTerms, PartitionFetch
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class DelayedFetch(DelayedOperation):
    """Completes, by reading again and answering with what there is, when one of these holds:

    Case A: a partition is not led here any more, its epoch is fenced, or this broker does not know it (Kafka's cases
            A-D and G: the re-read turns each into its error).
    Case B: the fetch offset lies in an older segment than the end offset, or behind it after a truncation (Kafka's E).
    Case C: the bytes between fetch offsets and end offsets add up to `min_bytes` (Kafka's F).
    A time-out answers with whatever is there, without an error.
    """

    __slots__ = ("_fetches", "_partition_or_error", "_read_and_answer", "_starts", "_terms")

    def __init__(
        self,
        terms: FetchTerms,
        fetches: Sequence[PartitionFetch],
        starts: Sequence[LogOffsetMetadata],
        partition_or_error: Callable[[str, int], Partition],
        read_and_answer: Callable[[], None],
    ) -> None:
        super().__init__(terms.max_wait_ms)
        self._terms = terms
        self._fetches = fetches
        self._starts = starts
        self._partition_or_error = partition_or_error
        self._read_and_answer = read_and_answer

    def try_complete(self) -> bool:
        """Check cases A to C of the class."""
        available = 0
        for fetch, start in zip(self._fetches, self._starts, strict=True):
            try:
                partition = self._partition_or_error(fetch.topic, fetch.partition)
                partition.check_leader_epoch(fetch.current_leader_epoch)
            except ApiError:
                return self.force_complete()
            end = partition.end_offset_metadata(self._terms.isolation)
            if end.message_offset == start.message_offset:
                continue
            if end.message_offset < start.message_offset or end.segment_base_offset != start.segment_base_offset:
                return self.force_complete()
            available += min(end.position_in_segment - start.position_in_segment, fetch.max_bytes)
        return available >= self._terms.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        """Read again and answer."""
        self._read_and_answer()
