"""A fetch that waits for enough bytes.

Made by ReplicaReader, tried whenever an append, a watermark or a leadership touches one of its partitions, expired by
the timer after the client's max wait. Kafka: DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ApiError
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch, SessionReads

if TYPE_CHECKING:
    from barnabas.replica.requests.replica_reader import ReplicaReader


class DelayedFetch(DelayedOperation):
    """A wait that completes, by reading again and answering, when one of these cases holds.

    Case A: this broker does not lead a partition any more.
    Case B: the replica is not on this broker any more.
    Case C: this broker does not know the partition.
    Case D: the partition's log directory is offline.
    Case E: the leader epoch that the reader knows is fenced.
    Case F: the fetch offset lies in an older segment than the end of the log, or behind the end after a truncation.
    Case G: the bytes between fetch offsets and ends add up to `min_bytes`.
    Case H: the reader's log diverges from this one by now, so the reader has to truncate.
    In cases A to E the second reading finds the error and gives it to the partition. A time-out answers with the
    records there are, without an error, and is counted. The bytes of a partition end no wait of a follower that is
    throttled. session: adds the partitions of a session that move while the fetch waits to `fetches`, which were read
    before. reader: reads them again and calls `answer`.
    """

    __slots__ = ("_answer", "_fetches", "_reader", "_session", "_terms")

    def __init__(
        self,
        reader: ReplicaReader,
        terms: FetchTerms,
        fetches: list[PartitionFetch],
        session: SessionReads | None,
        answer: Callable[[list[PartitionFetch]], None],
    ) -> None:
        super().__init__(terms.max_wait_ms)
        self._reader = reader
        self._terms = terms
        self._fetches = fetches
        self._session = session
        self._answer = answer

    def try_complete(self) -> bool:
        """Check cases A to H of the class."""
        available = 0
        isolation = self._terms.isolation
        for fetch in self._fetches if self._session is None else self._session.waited_for():
            hosted, end = fetch.hosted, fetch.read_to
            if (
                hosted is not None
                and end is not None
                and end.message_offset == fetch.fetch_offset
                and hosted.state is fetch.read_under
                and hosted.end_offset_metadata(isolation) is end
            ):
                # Neither leadership nor end has changed since the read found nothing: no case has begun to hold.
                # (A partition that leaves the broker loses its state.)
                continue
            found = self._available(fetch)
            if found is None:
                return self.force_complete()
            available += found
        # Case G.
        return available >= self._terms.min_bytes and self.force_complete()

    def _available(self, fetch: PartitionFetch) -> int | None:
        """Return the bytes of a partition that are there to read; None if one of the cases A to F or H holds."""
        start = fetch.read_from
        if start is None:
            # It moved before it was ever read.
            return None
        terms, partition = self._terms, fetch.hosted
        try:
            if partition is None or not fetch.is_still_led(terms.replica_id):
                partition = self._reader.hosted.partition_or_error(fetch.topic, fetch.partition)
                partition.check_leader_epoch(fetch.current_leader_epoch, leader_only=terms.leader_only)
            diverges = (
                fetch.last_fetched_epoch >= 0
                and partition.diverging_epoch(fetch.last_fetched_epoch, fetch.fetch_offset) is not None
            )
            end = partition.end_place(terms.isolation)
        except ApiError:
            # Cases A to E, and case H where the log does not know the epoch any more.
            return None
        # Case H.
        if diverges:
            return None
        # There is nothing to read, even if the segments differ: the log may have rolled just now.
        if end.message_offset == start.message_offset:
            return 0
        # Case F.
        if end.message_offset < start.message_offset:
            return None
        if terms.is_from_follower and self._reader.holds_back(terms.replica_id, partition):
            return 0
        if start.on_older_segment(end):
            return None
        if end.segment_base_offset != start.segment_base_offset:
            return 0
        # Bounded by the partition's own limit, as in Kafka: bytes that the answer cannot carry must not end the wait.
        return min(end.position_in_segment - start.position_in_segment, fetch.max_bytes)

    def on_complete(self) -> None:
        """Read again and answer."""
        self._reader.read_again(self._terms, self._fetches, self._session, self._answer)

    def on_expiration(self) -> None:
        """Count the time-out. Only the expiration executor's thread counts, so no lock."""
        waiting = self._reader.waiting
        if self._terms.is_from_follower:
            waiting.follower_fetch_expirations.count += 1
        else:
            waiting.consumer_fetch_expirations.count += 1
