"""Which fetch session makes room for another (KIP-227)."""

from __future__ import annotations

from random import Random

from barnabas.api.fetch.fetch_session import FetchSession
from barnabas.api.fetch.fetch_session_cache import EVICTION_MS, FetchSessionCache
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.replica.partitions.session_watches import SessionWatches
from tests.support.mock_clock import MockClock


class Cache:
    def __init__(self, slots: int) -> None:
        self.clock = MockClock()
        self.cache = FetchSessionCache(slots, self.clock, Random(7), SessionWatches())

    def create(self, size: int, *, follower: bool = False) -> FetchSession | None:
        return self.cache.create(size, is_privileged=follower, uses_topic_ids=False)

    def made(self, size: int, *, follower: bool = False) -> FetchSession:
        session = self.create(size, follower=follower)
        assert session is not None
        return session

    def has(self, session: FetchSession) -> bool:
        return self.cache.find(session.id) is session

    def age(self, *used: FetchSession) -> None:
        """Everything gets old; `used` all along."""
        for _ in range(2):
            self.clock.advance(EVICTION_MS - 1)
            for session in used:
                self.cache.touch(session, session.cached_size, self.cache.now_ms())


def test_a_full_cache_of_new_sessions_takes_no_other() -> None:
    cache = Cache(2)
    kept = [cache.made(1), cache.made(1)]
    assert cache.create(100) is None
    assert all(map(cache.has, kept))
    assert cache.cache.evictions.count == 0


def test_no_slots_no_sessions() -> None:
    assert Cache(0).create(1) is None


def test_the_one_unused_longest_goes_first() -> None:
    cache = Cache(2)
    first, second = cache.made(50, follower=True), cache.made(1)
    cache.clock.advance(10)
    cache.cache.touch(second, 1, cache.cache.now_ms())
    cache.clock.advance(EVICTION_MS - 9)
    third = cache.made(1)
    assert (cache.has(first), cache.has(second), cache.has(third)) == (False, True, True)
    assert cache.cache.evictions.count == 1


def test_a_larger_one_replaces_a_smaller_one_that_is_no_longer_new() -> None:
    cache = Cache(2)
    small, large = cache.made(2), cache.made(5)
    cache.age(small, large)
    assert cache.create(1) is None
    middle = cache.made(3)
    assert (cache.has(small), cache.has(large), cache.has(middle)) == (False, True, True)
    assert cache.create(100) is not None, "the large one is old as well"
    assert not cache.has(large)
    assert cache.create(100) is None, "the others are new"


def test_a_session_that_grew_is_worth_more() -> None:
    cache = Cache(2)
    first, second = cache.made(1), cache.made(2)
    cache.age(first, second)
    cache.cache.touch(first, 9, cache.cache.now_ms())
    assert cache.cache.partition_count == 11
    cache.made(3)
    assert (cache.has(first), cache.has(second)) == (True, False)
    assert cache.cache.partition_count == 12


def test_followers_go_first() -> None:
    cache = Cache(2)
    consumer, follower = cache.made(100), cache.made(1, follower=True)
    another = cache.made(1, follower=True)
    assert (cache.has(consumer), cache.has(follower), cache.has(another)) == (False, True, True)
    assert cache.create(100, follower=True) is None, "new ones of followers are safe from each other"
    cache.age(follower, another)
    assert cache.create(100) is None, "and from consumers for as long as they are used"
    assert cache.create(100, follower=True) is not None


def test_one_that_was_removed_is_not_counted() -> None:
    cache = Cache(2)
    session = cache.made(3)
    cache.cache.remove(session.id)
    cache.cache.remove(session.id)
    cache.cache.touch(session, 5, cache.cache.now_ms())
    assert (cache.cache.session_count, cache.cache.partition_count) == (0, 0)
    assert cache.cache.evictions.count == 0


def test_metrics() -> None:
    cache = Cache(1)
    registry = MetricsRegistry()
    cache.cache.register(registry)
    cache.made(4)
    cache.clock.advance(EVICTION_MS + 1)
    cache.made(3)
    values = {each.name.mbean: each.value for each in registry.collect()}
    prefix = "kafka.server:type=FetchSessionCache,name="
    assert values == {
        prefix + "NumIncrementalFetchSessions": 1,
        prefix + "NumIncrementalFetchPartitionsCached": 3,
        prefix + "IncrementalFetchSessionEvictionsPerSec": 1,
    }


def test_many_sessions() -> None:
    """The sorted tables stay what they stand for, whatever happens."""
    cache, random = Cache(20), Random(3)
    alive: list[FetchSession] = []
    for _ in range(3000):
        action = random.randrange(5)
        if action < 2:
            made = cache.create(random.randrange(6), follower=random.random() < 0.3)
            alive += [] if made is None else [made]
        elif action < 4 and alive:
            cache.cache.touch(random.choice(alive), random.randrange(6), cache.cache.now_ms())
        elif random.random() < 0.2 and alive:
            cache.cache.remove(random.choice(alive).id)
        cache.clock.advance(random.choice([0, 10, 5000]))
        alive = [each for each in alive if cache.has(each)]
        keys = [(each.is_privileged, each.cached_size, each.id) for each in alive]
        old = {key for key, each in zip(keys, alive, strict=True) if each.is_old}
        assert cache.cache._evictable_by_all == sorted(old)
        assert cache.cache._evictable_by_privileged == sorted(old | {key for key in keys if not key[0]})
        assert cache.cache.partition_count == sum(each.cached_size for each in alive)
        assert len(alive) == cache.cache.session_count <= 20
    assert cache.cache.evictions.count > 50
