"""An incremental fetch session (KIP-227): the partitions a client reads, their offsets, and the last answer of each.

Made and kept by `api.fetch_session_cache`, used by the two contexts of `api.fetch_sessions` on whichever thread begins
or answers a fetch. `lock` guards everything except the fields that the class docstring gives to the cache; no other
lock is taken and no callback is called while it is held.

A client has one request of a session on its way. If it sends more, all but the last are answered
INVALID_FETCH_SESSION_EPOCH, and the later ones get copies of the partitions, because the first may still be reading
them. For example, a session of topic "a", partition 0:

    client sends               session                 answer
    epoch 0, [a-0 from 5]      made, id 17, epoch 1    a-0 with records 5 to 9
    epoch 1, [a-0 from 10]     epoch 2                 waits: there is nothing new
    epoch 2, []                epoch 3                 reads a copy of a-0 from 10; the one before gets the error

Kafka: FetchSession, CachedPartition.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.replica.partition_fetch import PartitionFetch

NO_SESSION: Final = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""The epoch of a request that wants a session, and of one that wants none. Both close the session they name."""
LAST_EPOCH: Final = 2**31 - 1
NOT_ANSWERED: Final = -1

Key: TypeAlias = tuple[str | bytes, int]
"""Topic id (from v13 on) or name, and partition."""


class RefusedPartition(NamedTuple):
    """A partition of a fetch that is not read. topic: "" if unknown. topic_id: b"" where topics are named."""

    topic: str
    topic_id: bytes
    partition: int
    error: ErrorCode


def next_epoch(epoch: int) -> int:
    """Return the epoch after one of a session; after the largest comes 1."""
    return 1 if epoch == LAST_EPOCH else epoch + 1


class SessionPartition(PartitionFetch):
    """A partition of a session: what the client asked for last and, while a fetch is under way, what was read.

    answered_high_watermark, answered_log_start_offset: what the client was told last; -1 after an error.
    """

    __slots__ = ("answered_high_watermark", "answered_log_start_offset")

    def __init__(self, topic: str, topic_id: bytes, partition: int, asked: FetchRequest.FetchPartition) -> None:
        super().__init__(topic, partition, 0, 0, topic_id=topic_id)
        self.answered_high_watermark = NOT_ANSWERED
        self.answered_log_start_offset = NOT_ANSWERED
        self.update_request(asked)

    def update_request(self, asked: FetchRequest.FetchPartition) -> None:
        """Take over offsets and limits: the next fetch reads from there."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset_of_follower = asked.log_start_offset
        self.forget()

    @property
    def key(self) -> Key:
        """The key by which the session knows the partition."""
        return (self.topic_id or self.topic, self.partition)

    def copy(self) -> SessionPartition:
        """Return the same partition with nothing read."""
        asked = FetchRequest.FetchPartition(
            partition=self.partition,
            current_leader_epoch=self.current_leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log_start_offset_of_follower,
            partition_max_bytes=self.max_bytes,
        )
        copied = SessionPartition(self.topic, self.topic_id, self.partition, asked)
        copied.answered_high_watermark = self.answered_high_watermark
        copied.answered_log_start_offset = self.answered_log_start_offset
        return copied

    def must_be_answered(self) -> bool:
        """Return whether the result has anything that the client has not been told."""
        return (
            self.high_watermark != self.answered_high_watermark
            or self.log_start_offset != self.answered_log_start_offset
            or self.error is not ErrorCode.NONE
            or len(self.records) > 0
            or self.preferred_read_replica >= 0
            or self.diverging_epoch is not None
        )

    def note_answer(self) -> None:
        """Keep what the client is told now.

        An error is repeated in each answer, and the first answer without the error has the partition too.
        """
        failed = self.error is not ErrorCode.NONE
        self.answered_high_watermark = NOT_ANSWERED if failed else self.high_watermark
        self.answered_log_start_offset = self.log_start_offset


class FetchSession:
    """The partitions of a session, in the order in which they are read: those that had records last come last.

    epoch: of the next request. is_privileged: a follower's. in_flight: a request was begun and not answered yet.
    last_used_ms, cached_size and is_old belong to the cache, and its lock.
    """

    __slots__ = (
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "in_flight",
        "is_old",
        "is_privileged",
        "known_in_version",
        "last_used_ms",
        "lock",
        "partitions",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, size: int, now_ms: int, *, is_privileged: bool, uses_topic_ids: bool) -> None:
        self.id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.cached_size = size
        self.is_old = False
        self.lock = threading.Lock()
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[Key, SessionPartition] = {}
        self.in_flight = False
        self.known_in_version = -1
        """The version of the metadata that knows every partition of the session, -1 if none was seen."""

    def begin(self, body: FetchRequest, *, by_id: bool) -> int:
        """Apply the differences that a request states; return the session's new epoch, -1 if no partition is left.

        Raises ApiError: INVALID_FETCH_SESSION_EPOCH when another epoch was expected, FETCH_SESSION_TOPIC_ID_ERROR when
        names and ids are mixed.
        """
        with self.lock:
            if body.session_epoch != self.epoch:
                raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if by_id != self.uses_topic_ids:
                raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            # The thread that answers the request before may still use these objects: they stay its own.
            if self.in_flight:
                self.partitions = {key: partition.copy() for key, partition in self.partitions.items()}
            self._update(body)
            if not self.partitions:
                return FINAL_EPOCH
            self.in_flight = True
            # Moved when the request begins, not when it is answered: the same request sent twice is refused once.
            self.epoch = next_epoch(self.epoch)
            return self.epoch

    def _update(self, body: FetchRequest) -> None:
        partitions, by_id = self.partitions, self.uses_topic_ids
        for topic in body.topics:
            name = "" if by_id else topic.topic
            topic_id = topic.topic_id if by_id else b""
            for asked in topic.partitions:
                # By id where there is one: a topic that was deleted and made anew has the same name, and another id.
                key: Key = (topic_id or name, asked.partition)
                known = partitions.get(key)
                if known is not None:
                    known.update_request(asked)
                    continue
                partitions[key] = SessionPartition(name, topic_id, asked.partition, asked)
                # The metadata may not know the new partition.
                self.known_in_version = -1
        for forgotten in body.forgotten_topics_data:
            for number in forgotten.partitions:
                partitions.pop((forgotten.topic_id if by_id else forgotten.topic, number), None)

    def known_and_unknown(
        self, epoch: int, image: MetadataImage
    ) -> tuple[list[SessionPartition], list[RefusedPartition]]:
        """Return the partitions that can be read, and those that the metadata does not know.

        A topic id's name, once known, stays (Kafka's rule). Both lists are empty if the client has sent another request
        since `begin`: the partitions are for that one to read.
        """
        with self.lock:
            if epoch != self.epoch:
                return [], []
            # The partitions are looked up once for each version of the metadata, and not at each fetch.
            if self.known_in_version == image.version:
                return list(self.partitions.values()), []
            known: list[SessionPartition] = []
            unknown: list[RefusedPartition] = []
            topics, names = image.topics, image.topic_names
            for partition in self.partitions.values():
                name = partition.topic or (names.get(partition.topic_id) if self.uses_topic_ids else "")
                topic = None if name is None else topics.get(name)
                if topic is None or topic.partition(partition.partition) is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    unknown.append(RefusedPartition(name or "", partition.topic_id, partition.partition, code))
                    continue
                partition.topic = topic.name
                known.append(partition)
            if not unknown:
                self.known_in_version = image.version
            return known, unknown

    def select(
        self, epoch: int, read: Sequence[SessionPartition], refused: Sequence[RefusedPartition]
    ) -> list[SessionPartition] | None:
        """Return the part of `read` that the client is told, and note it; None if the client has sent another
        request since."""
        with self.lock:
            if epoch != self.epoch:
                return None
            partitions = self.partitions
            selected = []
            for partition in read:
                if not partition.must_be_answered():
                    continue
                selected.append(partition)
                partition.note_answer()
                if len(partition.records):
                    # Partitions with records come last next time: an answer may be full before all had a turn.
                    key = partition.key
                    del partitions[key]
                    partitions[key] = partition
            # Each answer repeats the error; the first answer after it has the partition, even without new records.
            for name, topic_id, number, _ in refused:
                partitions[topic_id or name, number].answered_high_watermark = NOT_ANSWERED
            return selected

    def end(self, epoch: int, selected: Sequence[SessionPartition]) -> None:
        """Finish a request: its answer has taken what was read, or dropped it."""
        with self.lock:
            for partition in selected:
                # A session outlives its requests: records kept here would hold the buffers of answers sent long ago.
                partition.records = b""
                partition.aborted_transactions = None
            if epoch == self.epoch:
                self.in_flight = False
