"""The fetch path below the handlers: read local logs, then answer at once or wait for enough bytes.

`ReplicaReader` is a part of ReplicaManager, called by the fetch handler on handler and processor threads. It also runs
on the thread that completes a DelayedFetch, which is tried whenever an append, a watermark or a leadership touches one
of its partitions, and expired by the timer after the client's max wait. It owns no lock. A follower's fetch moves its
state, the in-sync replicas and the watermarks before it is answered, as in Kafka; the operations that wait for a
watermark are retried through the action queue.

Kafka: ReplicaManager.fetchMessages, readFromLog, Partition.fetchRecords.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.broker_topic_stats import BrokerTopicStats
from barnabas.replica.isr.follower_progress import follower_or_error, update_follower
from barnabas.replica.isr.isr_updates import IsrUpdates
from barnabas.replica.partitions.follower_state import Follower, FollowerState, LeftOut
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.leader_state import LeaderState
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.partitions.partition_fetch import FetchTerms, PartitionFetch, SessionReads
from barnabas.replica.requests.replication_throttle import ReplicationThrottle
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)

FetchCallback = Callable[[list[PartitionFetch]], None]

_NONE: Final = ErrorCode.NONE
_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_LOG_END: Final = FetchIsolation.LOG_END


class ReplicaReader:
    """The read of the partitions of a request, and the decision whether the request waits.

    hosted: the partitions of this broker. throttle: of what followers out of sync get.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        waiting: WaitingRequests,
        isr_updates: IsrUpdates,
        stats: BrokerTopicStats,
        throttle: ReplicationThrottle,
    ) -> None:
        self.hosted = hosted
        self.waiting = waiting
        self._isr_updates = isr_updates
        self._stats = stats
        self._throttle = throttle

    def fetch_records(
        self,
        terms: FetchTerms,
        fetches: list[PartitionFetch],
        on_complete: FetchCallback,
        session: SessionReads | None = None,
    ) -> DelayedFetch | None:
        """Read, and call `on_complete(fetches)` once: now, or when `min_bytes` are there or `max_wait_ms` is over.

        session: of a fetch that reads a part of its session's partitions, `fetches`. Those that move while the fetch
        waits are read as well, and given to `on_complete`. Returns the wait, or None if there is nothing to wait for.

        The answer comes at once when the client does not wait, asks for no partition, enough bytes are there, a
        partition has an error, or the reader's log diverges. Kafka: fetchMessages.
        """
        size = self._read_from_logs(terms, fetches, session, update_followers=True)
        is_empty = not fetches and session is None
        if size >= terms.min_bytes or terms.max_wait_ms <= 0 or is_empty or self._is_decided(fetches):
            if size:
                self._count_bytes_out(terms, fetches)
            on_complete(fetches)
            return None
        if size:
            # Too little to answer with. The bytes found are released and read again later: kept, they would hold file
            # descriptors for as long as the fetch waits.
            for fetch in fetches:
                fetch.release_records()

        operation = DelayedFetch(self, terms, fetches, session, on_complete)
        keys: list[Hashable] = []
        if session is None:
            for fetch in fetches:
                keys.append(TopicPartition(fetch.topic, fetch.partition))  # noqa: PERF401 - a list of another type
        else:
            keys.append(session.watch)
        # Tried by the read above, which has found too little.
        return None if self.waiting.fetches.try_complete_else_watch(operation, keys, was_tried=True) else operation

    def read_again(
        self, terms: FetchTerms, fetches: list[PartitionFetch], session: SessionReads | None, on_complete: FetchCallback
    ) -> None:
        """Read at the end of a wait, and call `on_complete`; the arguments are those of `fetch_records`."""
        found = fetches if session is None else session.read_again()
        if self._read_from_logs(terms, found, session, update_followers=False):
            self._count_bytes_out(terms, found)
        on_complete(found)

    def holds_back(self, replica_id: int, partition: Partition) -> bool:
        """Return whether a follower gets no records now: it is throttled, and out of sync."""
        state = partition.state
        return state is not None and replica_id not in state.isr and self._throttle.holds_back(partition)

    def _is_decided(self, fetches: list[PartitionFetch]) -> bool:
        """Return whether a partition has an answer that no waiting would change."""
        # A loop: a generator in `any` costs each fetch that waits twice as much.
        for fetch in fetches:  # noqa: SIM110
            if fetch.error is not _NONE or fetch.diverging_epoch is not None:
                return True
        return False

    def _count_requests(self, fetches: list[PartitionFetch]) -> None:
        """Count a request for every partition.

        The partitions of a topic usually follow each other: one look-up serves them.
        """
        topic, count = "", 0
        for fetch in fetches:
            # By identity, which is cheaper: partitions of one topic share the string, and a miss only costs a look-up.
            if fetch.topic is not topic:
                if count:
                    self._stats.topic(topic).total_fetch_requests += count
                topic, count = fetch.topic, 0
            count += 1
        if count:
            self._stats.topic(topic).total_fetch_requests += count

    def _count_bytes_out(self, terms: FetchTerms, fetches: list[PartitionFetch]) -> None:
        """Count the bytes read. Called before the answer, since sending may release the records."""
        for fetch in fetches:
            size, partition = fetch.size, fetch.hosted
            if not size or partition is None:
                continue
            stats = self._stats.topic(fetch.topic)
            if terms.replica_id < 0:
                stats.bytes_out += size
                continue
            stats.replication_bytes_out += size
            self._throttle.count(partition, size)
            if partition.is_adding(terms.replica_id):
                stats.reassignment_bytes_out += size

    def _read_from_logs(
        self,
        terms: FetchTerms,
        fetches: list[PartitionFetch],
        session: SessionReads | None,
        *,
        update_followers: bool,
    ) -> i64:
        """Fill every entry, and return the number of bytes read.

        The first batch found is returned whole, whatever the limits. update_followers: whether this reading tells where
        a follower is. The second one, after a wait, does not.
        """
        left: i64 = terms.max_bytes
        min_one_message = not terms.hard_max_bytes
        is_from_follower = terms.is_from_follower
        total: i64 = 0
        if update_followers:
            self._count_requests(fetches)
        for fetch in fetches:
            size = self._read_partition(terms, fetch, min(fetch.max_bytes, left), min_one_message=min_one_message)
            if is_from_follower:
                size = self._note_follower(terms, fetch, session, size, is_progress=update_followers)
            if size:
                min_one_message = False
                total += size
                left = max(0, left - size)
        if update_followers and session is not None:
            # Behind the reads: until then the time of the request before counts for the partitions that have moved.
            session.note_polled()
        return total

    def _read_partition(
        self, terms: FetchTerms, fetch: PartitionFetch, max_bytes: i64, *, min_one_message: bool
    ) -> i64:
        """Fill one entry; return the number of bytes read."""
        try:
            partition = fetch.hosted
            if partition is None or not fetch.is_still_led(terms.replica_id):
                partition = self._check_leadership(terms, fetch)
            log, isolation, offset = partition.log, terms.isolation, fetch.fetch_offset
            # The end *before* the read: a batch that is appended meanwhile must not make a follower look late.
            if isolation is _LOG_END:
                bounds = log.bounds
                end = log.local.end
            else:
                bounds = log.placed_bounds()
                end = bounds.limit(isolation)
            start = bounds.start
            fetch.log_start_offset = start
            fetch.high_watermark = bounds.high_watermark.message_offset
            fetch.last_stable_offset = bounds.last_stable.message_offset
            fetch.read_to = end
            if fetch.last_fetched_epoch >= 0:
                fetch.diverging_epoch = partition.diverging_epoch(fetch.last_fetched_epoch, offset)
                if fetch.diverging_epoch is not None:
                    fetch.error = _NONE
                    fetch.read_from = LogOffsetMetadata(offset)
                    return 0
            if offset == end.message_offset and offset >= start:
                # What the log would answer; most fetches of followers begin here.
                fetch.error = _NONE
                fetch.read_from = end
                fetch.aborted_transactions = [] if isolation is _COMMITTED else None
                return 0
            data = log.read(offset, max_bytes, isolation, min_one_message)
        except ApiError as error:
            fetch.fail(error)
            return 0
        except Exception:
            logger.exception("reading %s-%d at %d failed", fetch.topic, fetch.partition, fetch.fetch_offset)
            self._stats.topic(fetch.topic).failed_fetch_requests += 1
            fetch.fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return 0
        fetch.error = _NONE
        fetch.read_from = data.fetch_offset
        fetch.aborted_transactions = data.aborted_transactions
        if data.first_entry_incomplete and not terms.hard_max_bytes:
            # Only readers of Fetch v0-2 want a part of a batch: it tells them that the batch is larger than their
            # limit.
            data.release()
            return 0
        fetch.records = data.records
        size: i64 = len(data.records)
        fetch.size = size
        return size

    def _check_leadership(self, terms: FetchTerms, fetch: PartitionFetch) -> Partition:
        """Return the partition, and note it with the leadership that the reader may read under.

        Raises ApiError: the errors of `partition_or_error`, `check_leader_epoch` and `follower_or_error`,
        INCONSISTENT_TOPIC_ID.
        """
        partition = self.hosted.partition_or_error(fetch.topic, fetch.partition)
        # Fetch v13 (KIP-516): a topic that was deleted and made again under its old name has another id.
        if fetch.topic_id and partition.topic_id != fetch.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        state = partition.check_leader_epoch(fetch.current_leader_epoch, leader_only=terms.leader_only)
        if terms.is_from_follower:
            fetch.follower = follower_or_error(partition, state, terms.replica_id, fetch.current_leader_epoch)
        fetch.hosted = partition
        fetch.read_under = state
        return partition

    def _note_follower(
        self, terms: FetchTerms, fetch: PartitionFetch, session: SessionReads | None, size: i64, *, is_progress: bool
    ) -> i64:
        """Note a follower's progress, unless this is its second reading; hold records back from one that is throttled.

        size: of the records read. Returns the number of bytes left to send.
        """
        partition, state, follower = fetch.hosted, fetch.read_under, fetch.follower
        if partition is None or state is None or follower is None or fetch.diverging_epoch is not None:
            return 0
        known = self._note_progress(partition, state, follower, terms, fetch) if is_progress else None
        if terms.replica_id not in state.isr:
            # A session leaves out what is at its end, and this fetch may be the one that lets the follower join.
            fetch.read_to = None
        elif session is not None and known is not None and fetch.is_at_end:
            # The state of this fetch, not the one by now: that may be of another leadership already.
            follower.left_out = LeftOut(known, session.watch)
        if size and self.holds_back(terms.replica_id, partition):
            fetch.release_records()
            return 0
        return size

    def _note_progress(
        self, partition: Partition, state: LeaderState, follower: Follower, terms: FetchTerms, fetch: PartitionFetch
    ) -> FollowerState | None:
        """Note that a follower has everything below the offset it fetches from: the ISR or a watermark may move.

        Returns the follower's state since this fetch; None if the fetch does not count.
        """
        read_from, read_to = fetch.read_from, fetch.read_to
        if read_from is None or read_to is None:
            return None
        progress = update_follower(
            partition,
            follower,
            state,
            read_from,
            fetch.log_start_offset_of_follower,
            read_to.message_offset,
            terms.replica_epoch,
        )
        if progress.proposal is not None:
            self._isr_updates.submit(partition, progress.proposal)
        if progress.log_start_offset_moved:
            self.waiting.later(partition.topic_partition)
        elif progress.high_watermark_moved:
            self.waiting.high_watermark_moved(partition.topic_partition)
        return progress.state


class DelayedFetch(DelayedOperation):
    """A wait for enough bytes that completes, by reading again and answering, when one of these cases holds.

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
    before. reader: reads them again and calls `answer`. Kafka: DelayedFetch.
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
        available: i64 = 0
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
