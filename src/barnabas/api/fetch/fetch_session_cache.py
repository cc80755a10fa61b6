"""The fetch sessions that a broker keeps, up to a limit, and the choice of one to evict (KIP-227).

Made by `broker`, called through `api.fetch.fetch_sessions` by every thread that begins or answers fetches. `_lock`
guards the tables and the sessions' fields that belong to the cache; it is held briefly, and no session's lock is taken
under it. There is one table, where Kafka's KRaft brokers have eight shards: shards would save less waiting than their
choice of a session costs, and a full cache evicts the right session.

When the cache is full, a new session needs the place of an old one. With two slots, both taken by consumers:

    a consumer asks within 2 minutes             no session: new ones are safe, and it names all partitions each time
    a follower asks                              it gets the place of the consumer with fewest partitions
    a consumer with more partitions, later       it gets the place of the smaller of the sessions that are not new
    any client, after a session was unused long  it gets the place of that session

Kafka: FetchSessionCacheShard.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from random import Random
from typing import Final

from barnabas.api.fetch.fetch_session import LAST_EPOCH, FetchSession
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.replica.partitions.session_watches import SessionWatches
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.locks import Lock

EVICTION_MS: Final = 120_000
"""How long a session is safe from others that want its place, and how long it may be unused (Kafka's figure)."""

_EvictableKey = tuple[bool, int, int]
"""Is privileged, partitions, id: the smallest is evicted first."""


class FetchSessionCache:
    """At most `max_sessions` (`max.incremental.fetch.session.cache.slots`). random: chooses ids, 1 to 2**31 - 2.

    watches: tell the sessions which of their partitions have moved.
    """

    def __init__(
        self,
        max_sessions: int,
        clock: Clock,
        random: Random,
        watches: SessionWatches,
        eviction_ms: int = EVICTION_MS,
    ) -> None:
        self._max_sessions = max_sessions
        self._watches = watches
        self._nanoseconds = clock.nanoseconds
        self._random = random
        self._eviction_ms = eviction_ms
        self._lock = Lock()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """By id, the one that has been unused longest first."""
        self._evictable_by_all: list[_EvictableKey] = []
        """Sorted: the sessions that are no longer new."""
        self._evictable_by_privileged: list[_EvictableKey] = []
        """Sorted: those, and all sessions of consumers."""
        self._partition_count = 0
        self.evictions = Meter()

    def register(self, registry: MetricsRegistry) -> None:
        """Register the numbers of sessions, of their partitions, and of evictions, by Kafka's names."""
        bean = ("kafka.server", "FetchSessionCache")
        text = "Incremental fetch sessions kept for clients (KIP-227)"
        registry.register(*bean, "NumIncrementalFetchSessions", text, lambda: self.session_count)
        name = "NumIncrementalFetchPartitionsCached"
        registry.register(*bean, name, "Partitions in them", lambda: self.partition_count)
        name = "IncrementalFetchSessionEvictionsPerSec"
        registry.register(*bean, name, "Fetch sessions that made room for others", self.evictions)

    @property
    def session_count(self) -> int:
        """The number of sessions in the cache."""
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions."""
        return self._partition_count

    def find(self, session_id: int) -> FetchSession | None:
        """Return the session of this id, or None."""
        # A look-up is one operation: no lock.
        return self._sessions.get(session_id)

    def create(self, size: int, *, is_privileged: bool, uses_topic_ids: bool) -> FetchSession | None:
        """Make a session for `size` partitions, which it does not have yet; None if there is no room for it."""
        now_ms = self.now_ms()
        with self._lock:
            # Without a session the client is served all the same: it then names all its partitions in each request.
            evicted: FetchSession | None = None
            if len(self._sessions) >= self._max_sessions:
                evicted = self._evict((is_privileged, size, 0), now_ms)
                if evicted is None:
                    return None
            session_id = 0
            # Random ids: a client that comes with an id from before a restart hardly ever meets another's session.
            while session_id == 0 or session_id in self._sessions:
                session_id = self._random.randrange(1, LAST_EPOCH)
            session = FetchSession(
                session_id,
                size,
                now_ms,
                self._watches,
                is_privileged=is_privileged,
                uses_topic_ids=uses_topic_ids,
            )
            self._sessions[session_id] = session
            self._partition_count += size
            self._make_evictable(session)
        # Not under the cache's lock, since this takes the evicted session's.
        if evicted is not None:
            evicted.close()
        return session

    def touch(self, session: FetchSession, size: int, now_ms: int) -> None:
        """Note that the session was used now and has `size` partitions; nothing if it has been evicted."""
        with self._lock:
            # The session may have been evicted between `find` and here: putting it back would exceed the limit.
            if self._sessions.get(session.id) is not session:
                return
            self._sessions.move_to_end(session.id)
            session.last_used_ms = now_ms
            is_old = now_ms - session.created_ms > self._eviction_ms
            # The sorted lists are searched only when a key changed. Most fetches change none.
            if size != session.cached_size or is_old != session.is_old:
                self._make_unevictable(session)
                self._partition_count += size - session.cached_size
                session.cached_size = size
                session.is_old = is_old
                self._make_evictable(session)

    def remove(self, session_id: int) -> None:
        """Remove a session that its client closes; an unknown id is no error."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is not None:
                self._remove(session)
        if session is not None:
            session.close()

    def now_ms(self) -> int:
        """Return the monotonic time that sessions are measured by."""
        return self._nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _evict(self, wanted: _EvictableKey, now_ms: int) -> FetchSession | None:
        """Make room for a session: evict one that was unused too long, else the least one if it is less than the new
        one. Return the evicted session, which the caller closes, or None if no session may be evicted.

        A consumer's session is less than a follower's; among equals fewer partitions are less. New sessions are safe
        from consumers, a follower's new session from all.
        """
        if not self._sessions:
            return None
        longest_unused = next(iter(self._sessions.values()))
        if now_ms - longest_unused.last_used_ms > self._eviction_ms:
            victim = longest_unused
        else:
            # Consumers must not push followers out: replication without sessions would cost the leader most.
            candidates = self._evictable_by_privileged if wanted[0] else self._evictable_by_all
            if not candidates or wanted < candidates[0]:
                return None
            victim = self._sessions[candidates[0][2]]
        self._remove(victim)
        self.evictions.count += 1
        return victim

    def _remove(self, session: FetchSession) -> None:
        self._make_unevictable(session)
        del self._sessions[session.id]
        self._partition_count -= session.cached_size

    def _make_evictable(self, session: FetchSession) -> None:
        key = (session.is_privileged, session.cached_size, session.id)
        if session.is_old:
            insort(self._evictable_by_all, key)
        if session.is_old or not session.is_privileged:
            insort(self._evictable_by_privileged, key)

    def _make_unevictable(self, session: FetchSession) -> None:
        key = (session.is_privileged, session.cached_size, session.id)
        if session.is_old:
            del self._evictable_by_all[bisect_left(self._evictable_by_all, key)]
        if session.is_old or not session.is_privileged:
            del self._evictable_by_privileged[bisect_left(self._evictable_by_privileged, key)]
