"""The session that a fetch belongs to, which decides on what is read and what is answered (KIP-227).

Made by `broker`, called by the Fetch handler: `FetchSessions.begin` when a request is taken, its context when the
request is answered, perhaps on another thread. A context belongs to one request. Fetches outside of sessions, which
most clients that are not Java's send, have no context.

Kafka: FetchManager, FullFetchContext, IncrementalFetchContext.
"""

from __future__ import annotations

from typing import Final

from barnabas.api.brief import SESSION_PARTITION_US, check_cost
from barnabas.api.fetch.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    Key,
    PartitionsToRead,
    RefusedPartition,
    SessionPartition,
)
from barnabas.api.fetch.fetch_session_cache import FetchSessionCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.replica.partitions.partition_fetch import PartitionFetch

TOPIC_IDS: Final = 13
"""The version from which on Fetch names topics by their ids."""


class FullFetch:
    """A fetch that names all its partitions and wants a session for the next ones."""

    __slots__ = ("_body", "_by_id", "_cache", "_is_from_follower", "session_id")

    def __init__(self, cache: FetchSessionCache, body: FetchRequest, *, by_id: bool, is_from_follower: bool) -> None:
        self._cache = cache
        self._body = body
        self._by_id = by_id
        self._is_from_follower = is_from_follower
        self.session_id = NO_SESSION
        """The id of the session that the answer opens; 0 before the answer, or if the cache has no room."""

    def answered(self, results: list[PartitionFetch], refused: list[RefusedPartition]) -> list[PartitionFetch]:
        """Make the session, and return the partitions to tell the client of: all."""
        session = self._cache.create(
            len(results) + len(refused), is_privileged=self._is_from_follower, uses_topic_ids=self._by_id
        )
        if session is not None:
            session.fill(self._partitions(results))
            self.session_id = session.id
        return results

    def to_be_answered(self, results: list[PartitionFetch]) -> list[PartitionFetch]:
        """Return the partitions that `answered` will return, and change nothing yet."""
        return results

    def is_last(self) -> bool:
        """Return whether the client sent no other request of this session since."""
        return True

    def end(self) -> None:
        """Finish the request: its answer is made."""

    def _partitions(self, results: list[PartitionFetch]) -> list[SessionPartition]:
        read = {(each.topic_id or each.topic, each.partition): each for each in results}
        partitions: list[SessionPartition] = []
        for topic in self._body.topics:
            topic_id = topic.topic_id if self._by_id else b""
            for asked in topic.partitions:
                name = "" if self._by_id else topic.topic
                key: Key = (topic_id or name, asked.partition)
                result = read.get(key)
                partition = SessionPartition(result.topic if result else name, topic_id, asked.partition, asked)
                if result is not None and result.error is ErrorCode.NONE:
                    partition.answered_high_watermark = result.high_watermark
                    partition.answered_log_start_offset = result.log_start_offset
                partitions.append(partition)
        return partitions


class IncrementalFetch:
    """A fetch of a session's partitions; only what is new is answered. begun_ms: its monotonic time."""

    __slots__ = ("_begun_ms", "_epoch", "_session", "_told", "session_id")

    def __init__(self, session: FetchSession, epoch: int, begun_ms: int) -> None:
        self._session = session
        self._epoch = epoch
        self._begun_ms = begun_ms
        self._told: list[SessionPartition] = []
        self.session_id = session.id

    def partitions(self, image: MetadataImage, *, reads_all: bool) -> PartitionsToRead:
        """Return the partitions to read, and those that cannot be read. reads_all: leave out none of the session."""
        return self._session.read_next(self._epoch, image, self._begun_ms, reads_all=reads_all)

    def answered(self, results: list[PartitionFetch], refused: list[RefusedPartition]) -> list[PartitionFetch] | None:
        """Return the part of `results` (those of `partitions`) to tell the client; None if it no longer waits for
        this answer."""
        selected = self._session.select(self._epoch, results, refused)  # type: ignore[arg-type] # a session's own
        if selected is not None:
            self._told = selected
        return selected  # type: ignore[return-value]

    def to_be_answered(self, results: list[PartitionFetch]) -> list[PartitionFetch]:
        """Return what `answered` would return now."""
        if not self.is_last():
            return []
        return [each for each in results if isinstance(each, SessionPartition) and each.must_be_answered()]

    def is_last(self) -> bool:
        """Return whether the client sent no other request of this session since."""
        return self._session.epoch == self._epoch

    def end(self) -> None:
        """Finish the request: its answer has taken what was read, or dropped it."""
        self._session.end(self._epoch, self._told)


class FetchSessions:
    """The sessions of a broker, as the Fetch handler sees them."""

    def __init__(self, cache: FetchSessionCache) -> None:
        self._cache = cache

    def begin(
        self, body: FetchRequest, version: int, image_version: int, *, is_from_follower: bool, brief: bool
    ) -> FullFetch | IncrementalFetch | None:
        """Return the context of a request; None for one that names all its partitions and wants no session.

        image_version: of the metadata by which the request will be answered.

        Raises ApiError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR. Raises
        NeedsHandlerThread, before anything is done, for a `brief` request that stands for many partitions.
        """
        cache = self._cache
        by_id = version >= TOPIC_IDS
        if body.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A request that wants a new session, or none, closes the one it names (KIP-227).
            if body.session_id != NO_SESSION:
                cache.remove(body.session_id)
            if body.session_epoch == FINAL_EPOCH:
                return None
            return FullFetch(cache, body, by_id=by_id, is_from_follower=is_from_follower)
        session = cache.find(body.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # Before `begin`, which moves the epoch: a request that is handed over begins once.
        now_ms = cache.now_ms()
        if brief:
            check_cost(session.partitions.count_to_read(image_version, now_ms) * SESSION_PARTITION_US)
        epoch = session.begin(body, by_id=by_id)
        if epoch == FINAL_EPOCH:
            cache.remove(session.id)
            return None
        # Outside the session's lock: the cache's lock is never taken under it, nor the other way round.
        cache.touch(session, len(session.partitions), now_ms)
        return IncrementalFetch(session, epoch, now_ms)
