"""An incremental fetch session (KIP-227): its epoch, its partitions, and the last answer of each.

Made and kept by `api.fetch.fetch_session_cache`, used by the two contexts of `api.fetch.fetch_sessions` on whichever
thread begins or answers a fetch. `lock` guards everything except the fields that the class docstring gives to the
cache; no other lock is taken and no callback is called while it is held.

A client has one request of a session on its way. If it sends more, all but the last are answered
INVALID_FETCH_SESSION_EPOCH, and the later ones get copies of the partitions, because the first may still be reading
them. For example, a session of topic "a", partition 0:

    client sends               session                 answer
    epoch 0, [a-0 from 5]      made, id 17, epoch 1    a-0 with records 5 to 9
    epoch 1, [a-0 from 10]     epoch 2                 waits: there is nothing new
    epoch 2, []                epoch 3                 reads a copy of a-0 from 10; the one before gets the error

Kafka: FetchSession and CachedPartition, which compare every partition at every fetch. Here a partition whose reader has
everything, and knows its offsets, is left out until it moves (`SessionPartitions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition_fetch import PartitionFetch, SessionReads
from barnabas.replica.partitions.session_watches import SessionWatch, SessionWatches
from barnabas.runtime.locks import Lock

if TYPE_CHECKING:
    from mypy_extensions import i64

_NONE: Final = ErrorCode.NONE
NOT_ANSWERED: Final = -1
READ_ALL_MS: Final = 5_000
"""How often a session reads all its partitions: what nothing marks, as a log start that retention has moved, is
answered then."""

Key: TypeAlias = tuple[str | bytes, int]
"""Topic id (from v13 on) or name, and partition."""


class RefusedPartition(NamedTuple):
    """A partition of a fetch that is not read. topic: "" if unknown. topic_id: b"" where topics are named."""

    topic: str
    topic_id: bytes
    partition: int
    error: ErrorCode


class SessionPartition(PartitionFetch):
    """A partition of a session: what the client asked for last and, while a fetch is under way, what was read.

    answered_high_watermark, answered_log_start_offset: what the last answer said; -1 after an error. key: that by
    which the session knows the partition. name: with the topic's name, once the metadata has it.
    """

    __slots__ = ("answered_high_watermark", "answered_log_start_offset", "key", "name")

    def __init__(self, topic: str, topic_id: bytes, partition: int, asked: FetchPartition) -> None:
        super().__init__(topic, partition, 0, 0, topic_id)
        self.key: Key = (topic_id or topic, partition)
        self.name = TopicPartition(topic, partition)
        self.answered_high_watermark: i64 = NOT_ANSWERED
        self.answered_log_start_offset: i64 = NOT_ANSWERED
        self.update_request(asked)

    def update_request(self, asked: FetchPartition) -> None:
        """Take over offsets and limits: the next fetch reads from there."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        if asked.current_leader_epoch != self.current_leader_epoch:
            self.current_leader_epoch = asked.current_leader_epoch
            self.forget()
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset_of_follower = asked.log_start_offset
        self.forget_records()

    def copy(self) -> SessionPartition:
        """Return the same partition with nothing read."""
        asked = FetchPartition(
            partition=self.partition,
            current_leader_epoch=self.current_leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log_start_offset_of_follower,
            partition_max_bytes=self.max_bytes,
        )
        copied = SessionPartition(self.topic, self.topic_id, self.partition, asked)
        copied.name = self.name
        copied.answered_high_watermark = self.answered_high_watermark
        copied.answered_log_start_offset = self.answered_log_start_offset
        return copied

    def must_be_answered(self) -> bool:
        """Return whether the result has anything that no answer has said yet."""
        return (
            self.high_watermark != self.answered_high_watermark
            or self.log_start_offset != self.answered_log_start_offset
            or self.error is not _NONE
            or self.size > 0
            or self.preferred_read_replica >= 0
            or self.diverging_epoch is not None
        )

    def note_answer(self) -> None:
        """Keep what the answer says.

        An error is repeated in each answer, and the first answer without the error has the partition too.
        """
        failed = self.error is not _NONE
        self.answered_high_watermark = NOT_ANSWERED if failed else self.high_watermark
        self.answered_log_start_offset = self.log_start_offset


class PartitionsToRead:
    """The partitions of a session that a request reads, and those that the metadata does not know.

    reads: adds those that move while the request waits; None where `partitions` is all that it reads.
    """

    __slots__ = ("partitions", "reads", "refused")

    def __init__(
        self,
        partitions: list[PartitionFetch],
        refused: list[RefusedPartition],
        reads: SessionReads | None = None,
    ) -> None:
        self.partitions = partitions
        self.refused = refused
        self.reads = reads


# A follower of a thousand partitions, one of which is written to, reads in each request:
#
#     request    reads
#     1          all: the session is new
#     2          the one that had records
#     3, 4, ...  the same, while all others stay at their ends
#     after 5 s  all once more; the same after a change of the metadata
#
# `replica.partitions.session_watches` says which partitions have moved, and why none is missed (decision 0084).


class SessionPartitions:
    """The partitions of a session by key, and which of them the next request reads. Guarded by the session's lock.

    `watch` alone is marked by any thread.

    uses_topic_ids: whether requests name topics by their ids. is_followers: whether a follower reads them.
    """

    __slots__ = (
        "_all",
        "_is_closed",
        "_known_in_version",
        "_named",
        "_read_all_ms",
        "_to_read",
        "_unresolved",
        "_watches",
        "uses_topic_ids",
        "watch",
    )

    def __init__(self, watches: SessionWatches, *, uses_topic_ids: bool, is_followers: bool) -> None:
        self.watch = SessionWatch(reads_to_end=is_followers)
        self._watches = watches
        self.uses_topic_ids = uses_topic_ids
        self._all: dict[Key, SessionPartition] = {}
        self._unresolved: dict[Key, SessionPartition] = {}
        """Those of `_all` that the metadata has yet to know."""
        self._named: dict[TopicPartition, SessionPartition] = {}
        """The others, by the names by which they are marked."""
        self._to_read: dict[TopicPartition, SessionPartition] = {}
        """Those of `_named` that are not left out, in the order in which they are read: those that had records last
        come last, since an answer may be full before all had a turn."""
        self._known_in_version = -1
        """The version of the metadata in which they were looked up."""
        self._read_all_ms = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._all)

    def add(self, partitions: Iterable[SessionPartition]) -> None:
        """Add partitions, which the next request reads."""
        for partition in partitions:
            self._all[partition.key] = self._unresolved[partition.key] = partition

    def update(self, body: FetchRequest) -> None:
        """Apply the differences that a request states."""
        by_id = self.uses_topic_ids
        for topic in body.topics:
            name = "" if by_id else topic.topic
            topic_id = topic.topic_id if by_id else b""
            for asked in topic.partitions:
                # By id where there is one: a topic that was created again has the same name, and another id.
                key: Key = (topic_id or name, asked.partition)
                known = self._all.get(key)
                if known is None:
                    self.add((SessionPartition(name, topic_id, asked.partition, asked),))
                    continue
                known.update_request(asked)
                if key not in self._unresolved:
                    self._to_read[known.name] = known
        for forgotten in body.forgotten_topics_data:
            for number in forgotten.partitions:
                self._forget((forgotten.topic_id if by_id else forgotten.topic, number))

    def replace_by_copies(self) -> None:
        """Leave the objects to the request that still reads them."""
        self._all = copies = {key: partition.copy() for key, partition in self._all.items()}
        self._unresolved = {key: copies[key] for key in self._unresolved}
        self._named = {name: copies[partition.key] for name, partition in self._named.items()}
        self._to_read = {name: self._named[name] for name in {**self._to_read, **self._named}}

    def count_to_read(self, version: int, now_ms: int) -> int:
        """Return how many partitions the next request would read, with metadata of this version."""
        if version != self._known_in_version or now_ms >= self._read_all_ms:
            return len(self._all)
        return len(self._to_read) + len(self._unresolved) + len(self.watch.moved)

    def read_next(self, image: MetadataImage, now_ms: int, *, reads_all: bool) -> PartitionsToRead:
        """Return what a request reads. reads_all: leave none out, now and while it waits."""
        refused: list[RefusedPartition] = []
        if image.version != self._known_in_version or self._unresolved:
            refused = self._resolve(image)
        to_read = self._to_read
        # Marks are taken before the read: what moves after it is marked once more.
        for moved in self.watch.take_moved():
            partition = self._named.get(moved)
            if partition is not None:
                to_read.setdefault(moved, partition)
        if reads_all or now_ms >= self._read_all_ms:
            self._read_all_ms = now_ms + READ_ALL_MS
            for name, partition in self._named.items():
                to_read.setdefault(name, partition)
        if len(self._named) + len(self._unresolved) != len(self._all):
            # Two partitions of one name: a topic that was created again is fetched by its old id, too. Marks name one.
            known: list[PartitionFetch] = [each for key, each in self._all.items() if key not in self._unresolved]
            return PartitionsToRead(known, refused)
        reads = SessionReads(self.watch, self._named, to_read, now_ms)
        return PartitionsToRead(reads.fetches, refused, None if reads_all or not self._named else reads)

    def note_read(self, partition: SessionPartition) -> None:
        """Note that a partition was read and answered: it is left out next time, comes last, or keeps its place."""
        name, to_read = partition.name, self._to_read
        if partition.is_at_end:
            if name in to_read:
                del to_read[name]
        elif partition.size:
            if name in to_read:
                del to_read[name]
            to_read[name] = partition
        else:
            to_read.setdefault(name, partition)

    def note_refused(self, refused: RefusedPartition) -> None:
        """Note that a partition was refused: the first answer without the error has it, even without new records."""
        self._all[refused.topic_id or refused.topic, refused.partition].answered_high_watermark = NOT_ANSWERED

    def close(self) -> None:
        """Stop watching the partitions: the session is gone."""
        self._is_closed = True
        self._watches.remove(self.watch, self._named)

    def _forget(self, key: Key) -> None:
        partition = self._all.pop(key, None)
        if partition is None:
            return
        self._unresolved.pop(key, None)
        name = partition.name
        if self._named.get(name) is partition:
            self._to_read.pop(name, None)
            del self._named[name]
            self._watches.remove(self.watch, (name,))

    def _resolve(self, image: MetadataImage) -> list[RefusedPartition]:
        """Look up the partitions that are not known in this version of the metadata; return those that it lacks."""
        before = self._named
        if image.version != self._known_in_version:
            self._known_in_version = image.version
            self._unresolved = {**{each.key: each for each in self._to_read.values()}, **self._all}
            self._named, self._to_read = {}, {}
        unknown: dict[Key, SessionPartition] = {}
        refused: list[RefusedPartition] = []
        new: set[TopicPartition] = set()
        topics, names = image.topics, image.topic_names
        for key, partition in self._unresolved.items():
            # A topic id's name, once known, stays (Kafka's rule).
            name = partition.topic or (names.get(partition.topic_id) if self.uses_topic_ids else "")
            topic = None if name is None else topics.get(name)
            if topic is None or topic.partition(partition.partition) is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refused.append(RefusedPartition(name or "", partition.topic_id, partition.partition, code))
                unknown[key] = partition
                continue
            partition.topic = topic.name
            partition.name = TopicPartition(topic.name, partition.partition)
            if partition.name not in before:
                new.add(partition.name)
            self._named[partition.name] = self._to_read[partition.name] = partition
        self._unresolved = unknown
        # From here on, and so before they are read.
        if not self._is_closed:
            if new:
                self._watches.add(self.watch, new)
            if before is not self._named:
                self._watches.remove(self.watch, before.keys() - self._named.keys())
        return refused


NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
"""The epoch of a request that wants a session, and of one that wants none. Both close the session they name."""
LAST_EPOCH: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch after one of a session; after the largest comes 1."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


class FetchSession:
    """The partitions of a session, and the epoch of its next request.

    is_privileged: a follower's. in_flight: a request was begun and not answered yet. last_used_ms, cached_size and
    is_old belong to the cache, and its lock.
    """

    __slots__ = (
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "in_flight",
        "is_old",
        "is_privileged",
        "last_used_ms",
        "lock",
        "partitions",
    )

    def __init__(
        self,
        session_id: int,
        size: int,
        now_ms: int,
        watches: SessionWatches,
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        self.id = session_id
        self.is_privileged = is_privileged
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.cached_size = size
        self.is_old = False
        self.lock = Lock()
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions = SessionPartitions(watches, uses_topic_ids=uses_topic_ids, is_followers=is_privileged)
        self.in_flight = False

    def fill(self, partitions: Iterable[SessionPartition]) -> None:
        """Add the partitions of the request that has made the session."""
        with self.lock:
            self.partitions.add(partitions)

    def begin(self, body: FetchRequest, *, by_id: bool) -> int:
        """Apply the differences that a request states; return the session's new epoch, -1 if no partition is left.

        Raises ApiError: INVALID_FETCH_SESSION_EPOCH when another epoch was expected, FETCH_SESSION_TOPIC_ID_ERROR when
        names and ids are mixed.
        """
        with self.lock:
            if body.session_epoch != self.epoch:
                raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if by_id != self.partitions.uses_topic_ids:
                raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            # The thread that answers the request before may still use these objects: they stay its own.
            if self.in_flight:
                self.partitions.replace_by_copies()
            self.partitions.update(body)
            if not self.partitions:
                return FINAL_EPOCH
            self.in_flight = True
            # Moved when the request begins, not when it is answered: the same request sent twice is refused once.
            self.epoch = next_epoch(self.epoch)
            return self.epoch

    def read_next(self, epoch: int, image: MetadataImage, now_ms: int, *, reads_all: bool) -> PartitionsToRead:
        """Return the partitions to read, and those that the metadata does not know.

        Both are empty if the client has sent another request since `begin`: the partitions are for that one to read.
        """
        with self.lock:
            if epoch != self.epoch:
                return PartitionsToRead([], [])
            return self.partitions.read_next(image, now_ms, reads_all=reads_all)

    def select(
        self, epoch: int, read: list[SessionPartition], refused: list[RefusedPartition]
    ) -> list[SessionPartition] | None:
        """Return the part of `read` that is answered, and note it; None if the client has sent another
        request since."""
        with self.lock:
            if epoch != self.epoch:
                return None
            partitions = self.partitions
            selected: list[SessionPartition] = []
            for partition in read:
                if partition.must_be_answered():
                    selected.append(partition)
                    partition.note_answer()
                partitions.note_read(partition)
            # Each answer repeats the error; the first answer after it has the partition, even without new records.
            for each in refused:
                partitions.note_refused(each)
            return selected

    def end(self, epoch: int, selected: list[SessionPartition]) -> None:
        """Finish a request: its answer has taken what was read, or dropped it."""
        with self.lock:
            for partition in selected:
                # A session outlives its requests: records kept here would hold the buffers of answers sent long ago.
                partition.records = b""
                partition.size = 0
                partition.aborted_transactions = None
            if epoch == self.epoch:
                self.in_flight = False

    def close(self) -> None:
        """Stop watching the partitions: the session has left the cache."""
        with self.lock:
            self.partitions.close()
