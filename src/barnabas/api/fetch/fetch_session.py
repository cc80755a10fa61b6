"""An incremental fetch session (KIP-227): its epoch, its partitions, and the last answer of each.

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
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.api.fetch.session_partitions import (
    NOTHING_TO_READ,
    PartitionsToRead,
    RefusedPartition,
    SessionPartition,
    SessionPartitions,
)
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.replica.partitions.session_watches import SessionWatches

NO_SESSION: Final = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
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
        self.lock = threading.Lock()
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
                return NOTHING_TO_READ
            return self.partitions.read_next(image, now_ms, reads_all=reads_all)

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
                if partition.must_be_answered():
                    selected.append(partition)
                    partition.note_answer()
                partitions.note_read(partition)
            # Each answer repeats the error; the first answer after it has the partition, even without new records.
            for each in refused:
                partitions.note_refused(each)
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

    def close(self) -> None:
        """Be told of no partition any more: the session has left the cache."""
        with self.lock:
            self.partitions.close()
