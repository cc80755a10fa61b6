"""A fetch below its handler: its terms, the place and the records of each partition, and the reads of a session.

Made by the fetch handler and by the FetchSession (`api`), filled in by ReplicaReader, used by DelayedFetch. Owned by
one thread at a time: the one that has the request; while the request waits, whichever thread tries it, under the
operation's lock.

Kafka: FetchParams, FetchRequest.PartitionData, LogReadResult.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.file_records import FileRecords
from barnabas.replica.partitions.session_watches import SessionWatch
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.storage.log_offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from mypy_extensions import i64

    from barnabas.replica.partitions.follower_state import Follower
    from barnabas.replica.partitions.leader_state import LeaderState
    from barnabas.replica.partitions.partition import Partition


_NONE: Final = ErrorCode.NONE


class ConsumerPlace(NamedTuple):
    """The place of a consumer: its rack, and the name of the listener by which it reaches brokers."""

    rack_id: str
    listener_name: str


class FetchTerms:
    """The terms that hold for all partitions of one fetch.

    max_bytes: limit of the whole answer; the first batch is returned even when it is larger, unless
    `hard_max_bytes` (Fetch v0-2). replica_id: -1 for consumers, a broker's id for followers; then replica_epoch is its
    broker epoch, -1 where the version has none. leader_only: False for consumers that may read from a follower
    (Fetch v11+, KIP-392). place: that of such a consumer, if it has a rack. is_from_follower: whether the reader is a
    follower, whose progress is noted.
    """

    __slots__ = (
        "hard_max_bytes",
        "is_from_follower",
        "isolation",
        "leader_only",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "place",
        "replica_epoch",
        "replica_id",
    )

    def __init__(
        self,
        max_wait_ms: int,
        min_bytes: i64,
        max_bytes: i64,
        isolation: FetchIsolation,
        hard_max_bytes: bool = False,
        replica_id: int = -1,
        replica_epoch: int = -1,
        leader_only: bool = True,
        place: ConsumerPlace | None = None,
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes: i64 = min_bytes
        self.max_bytes: i64 = max_bytes
        self.isolation = isolation
        self.hard_max_bytes = hard_max_bytes
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.leader_only = leader_only
        self.place = place
        self.is_from_follower = replica_id >= 0


class PartitionFetch:
    """One partition's part of a fetch: the place to read from, then the records read.

    One object for both, unlike Kafka: a fetch in a session reads hundreds of partitions, each of which would cost a
    second object.

    last_fetched_epoch: epoch of the last record the reader has (v12+), -1 when it does not say.
    log_start_offset_of_follower: a follower's own log start offset, -1 from consumers.
    diverging_epoch: (epoch, end offset) up to which the reader agrees with this log, when it has to truncate; nothing
    was read then. preferred_read_replica: -1, or the broker to ask instead.
    records: `b""`, bytes, or a FileRecords, which must be released once by the code that sends or drops the answer.
    size: of the records. read_from: log position of the fetch offset, for the comparison that ends a long poll; None
    after an error.
    hosted, read_under, follower, read_to: the partition, the leadership under which it was read, the follower that
    reads, and the end of what the reader may read, as they were before the read. While leadership and end stay the same
    objects another read would find the same.
    """

    __slots__ = (
        "aborted_transactions",
        "current_leader_epoch",
        "diverging_epoch",
        "error",
        "fetch_offset",
        "follower",
        "high_watermark",
        "hosted",
        "last_fetched_epoch",
        "last_stable_offset",
        "log_start_offset",
        "log_start_offset_of_follower",
        "max_bytes",
        "partition",
        "preferred_read_replica",
        "read_from",
        "read_to",
        "read_under",
        "records",
        "size",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        fetch_offset: i64,
        max_bytes: i64,
        topic_id: bytes = b"",
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset_of_follower: i64 = -1,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset: i64 = fetch_offset
        self.max_bytes: i64 = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset_of_follower: i64 = log_start_offset_of_follower
        # As `forget` does, without its call: the compiler then knows that each attribute has a value.
        self.error = _NONE
        self.records: Any = b""
        self.size: i64 = 0
        self.read_from: LogOffsetMetadata | None = None
        self.hosted: Partition | None = None
        self.read_under: LeaderState | None = None
        self.follower: Follower | None = None
        self.read_to: LogOffsetMetadata | None = None
        self.high_watermark: i64 = -1
        self.last_stable_offset: i64 = -1
        self.log_start_offset: i64 = -1
        self.aborted_transactions: list[Any] | None = None
        self.diverging_epoch: tuple[int, int] | None = None
        self.preferred_read_replica = -1

    def forget(self) -> None:
        """Return to the state before the read."""
        self.hosted = self.read_under = self.follower = None
        self.forget_records()

    def forget_records(self) -> None:
        """Do the same, and keep the leadership that was checked for this reader."""
        self.error = _NONE
        self.records = b""
        self.size = 0
        self.read_from = self.read_to = None
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.aborted_transactions = None
        self.diverging_epoch = None
        self.preferred_read_replica = -1

    def is_still_led(self, replica_id: int) -> bool:
        """Return whether the partition is led here as it was when its last read checked it, for the same reader."""
        partition, state, follower = self.hosted, self.read_under, self.follower
        return (
            partition is not None
            and state is not None
            and partition.state is state
            and state.is_leader
            and (replica_id < 0 or (follower is not None and follower.broker_id == replica_id))
        )

    @property
    def is_at_end(self) -> bool:
        """Whether the last read found nothing to read, for no other reason than that the reader has everything."""
        end = self.read_to
        return (
            end is not None
            and end.message_offset == self.fetch_offset
            and self.error is _NONE
            and self.diverging_epoch is None
            and not self.size
        )

    def release(self) -> None:
        """Drop the records and all else that was read: the answer will not be sent."""
        self.release_records()
        self.forget()

    def release_records(self) -> None:
        """Drop the records, and keep where they were read: they will be read again."""
        if isinstance(self.records, FileRecords):
            self.records.release()
        self.records = b""
        self.size = 0

    def fail(self, error: ApiError) -> None:
        """Note that the partition could not be read."""
        self.forget()
        self.error = error.code


class SessionReads:
    """The partitions of a session that one fetch reads: those it begins with, and those that move while it waits.

    fetches: the ones read so far; owned by the request. begun_ms: the monotonic time at which the request began.

    Arguments, by name: `named`, all partitions of the session, and `begun_with`, those that the request begins with.
    """

    __slots__ = ("_named", "_read", "begun_ms", "fetches", "watch")

    def __init__(
        self,
        watch: SessionWatch,
        named: Mapping[TopicPartition, PartitionFetch],
        begun_with: Mapping[TopicPartition, PartitionFetch],
        begun_ms: i64,
    ) -> None:
        self.watch = watch
        self.begun_ms: i64 = begun_ms
        self.fetches: list[PartitionFetch] = list(begun_with.values())
        self._named = named
        self._read = set(begun_with)

    def note_polled(self) -> None:
        """Note that the session has everything of the partitions left out, since none had moved when it began."""
        self.watch.polled_ms = self.begun_ms

    def waited_for(self) -> list[PartitionFetch]:
        """Return the partitions whose records may end the wait."""
        moved = self.watch.moved
        # A copy, which is one operation: other threads add.
        new = moved.copy() - self._read if moved else None
        return self.fetches + self._found(new) if new else self.fetches

    def read_again(self) -> list[PartitionFetch]:
        """Return the partitions to read at the end of the wait. The marks stay, for the next request to take."""
        new = self.watch.moved.copy() - self._read
        if new:
            self._read |= new
            self.fetches += self._found(new)
        return self.fetches

    def _found(self, names: Iterable[TopicPartition]) -> list[PartitionFetch]:
        # One that is not found has left the session since.
        return [fetch for name in names if (fetch := self._named.get(name)) is not None]
