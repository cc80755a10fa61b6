"""A fetch that waits for enough bytes.

Made by ReplicaReader, tried whenever an append, a watermark or a leadership touches one of its partitions, expired by
the timer after the client's max wait. Kafka: DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partition import Partition
from barnabas.replica.partition_fetch import FetchTerms, PartitionFetch
from barnabas.storage.log_offset_metadata import LogOffsetMetadata


class DelayedFetch(DelayedOperation):
    """Completes, by reading again and answering with what there is, when one of these holds:

    Case A: this broker does not lead a partition any more.
    Case B: the replica is not on this broker any more.
    Case C: this broker does not know the partition.
    Case D: the partition's log directory is offline.
    Case E: the epoch the reader knows is fenced.
    Case F: the fetch offset lies in an older segment than the end, or behind it after a truncation.
    Case G: the bytes between fetch offsets and ends add up to `min_bytes`.
    Case H: the reader's log diverges from this one by now: it has to truncate.
    In A to E the second reading turns what is wrong into the partition's error. A time-out answers with whatever is
    there, without an error; `expirations` counts it.
    """

    __slots__ = ("_expirations", "_fetches", "_partition_or_error", "_read_and_answer", "_starts", "_terms")

    def __init__(
        self,
        terms: FetchTerms,
        fetches: Sequence[PartitionFetch],
        starts: Sequence[LogOffsetMetadata],
        partition_or_error: Callable[[str, int], Partition],
        read_and_answer: Callable[[], None],
        expirations: Meter,
    ) -> None:
        super().__init__(terms.max_wait_ms)
        self._terms = terms
        self._fetches = fetches
        self._starts = starts
        self._partition_or_error = partition_or_error
        self._read_and_answer = read_and_answer
        self._expirations = expirations

    def try_complete(self) -> bool:
        """Check cases A to H of the class."""
        available = 0
        for fetch, start in zip(self._fetches, self._starts, strict=True):
            try:
                partition = self._partition_or_error(fetch.topic, fetch.partition)
                partition.check_leader_epoch(fetch.current_leader_epoch, leader_only=self._terms.leader_only)
                diverges = (
                    fetch.last_fetched_epoch >= 0
                    and partition.diverging_epoch(fetch.last_fetched_epoch, fetch.fetch_offset) is not None
                )
            except ApiError:  # cases A to E; of H, where the epoch is not known any more
                return self.force_complete()
            if diverges:  # case H
                return self.force_complete()
            end = partition.end_offset_metadata(self._terms.isolation)
            if end.message_offset == start.message_offset:
                continue  # whatever the segments are: the log may have just rolled
            if end.message_offset < start.message_offset or start.on_older_segment(end):  # case F
                return self.force_complete()
            if end.segment_base_offset == start.segment_base_offset:
                available += min(end.position_in_segment - start.position_in_segment, fetch.max_bytes)
        return available >= self._terms.min_bytes and self.force_complete()  # case G

    def on_complete(self) -> None:
        """Read again and answer."""
        self._read_and_answer()

    def on_expiration(self) -> None:
        """Count it; only the expiration executor's thread does, so no lock."""
        self._expirations.count += 1
