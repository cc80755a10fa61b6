"""The memory pools: what they give, refuse, get back, and find."""

from __future__ import annotations

import gc
import logging

import pytest

from barnabas.transport.memory_pool import NONE
from barnabas.transport.simple_memory_pool import SimpleMemoryPool
from tests.support.mock_clock import MockClock


def test_gives_while_anything_is_left_and_counts() -> None:
    pool = SimpleMemoryPool(100, 60, MockClock().nanoseconds)
    first = pool.try_allocate(60)
    second = pool.try_allocate(60)
    assert first is not None
    assert second is not None
    assert pool.available_memory == -20
    assert pool.is_out_of_memory
    assert pool.try_allocate(1) is None
    pool.release(first)
    assert pool.available_memory == 40
    with pytest.raises(ValueError, match="released twice"):
        pool.release(first)
    pool.release(second)
    assert pool.available_memory == pool.size == 100


def test_a_strict_pool_gives_only_what_it_has() -> None:
    pool = SimpleMemoryPool(100, 100, MockClock().nanoseconds, strict=True)
    leases = [pool.try_allocate(size) for size in (60, 60, 40)]
    assert [lease is not None for lease in leases] == [True, False, True]
    assert pool.available_memory == 0


@pytest.mark.parametrize(("size", "largest"), [(0, 1), (10, 0), (10, 11)])
def test_sizes_must_make_sense(size: int, largest: int) -> None:
    with pytest.raises(ValueError, match="must provide a positive size"):
        SimpleMemoryPool(size, largest, MockClock().nanoseconds)


@pytest.mark.parametrize("wanted", [0, -1, 11])
def test_what_is_never_given_is_an_error(wanted: int) -> None:
    pool = SimpleMemoryPool(100, 10, MockClock().nanoseconds)
    with pytest.raises(ValueError, match="requested size"):
        pool.try_allocate(wanted)
    assert pool.available_memory == 100


def test_charges_may_exceed_the_limit_and_make_a_shortage() -> None:
    pool = SimpleMemoryPool(100, 100, MockClock().nanoseconds)
    pool.charge(130)
    assert pool.available_memory == -30
    assert pool.shortage == 30
    pool.charge(-130)
    assert pool.shortage == 0


def test_who_waits_is_woken_when_memory_comes_back_and_only_then() -> None:
    pool = SimpleMemoryPool(100, 100, MockClock().nanoseconds)
    woken: list[str] = []

    def wake() -> None:
        woken.append("a")
        assert pool.try_allocate(1) is not None  # its lock has been let go

    lease = pool.try_allocate(100)
    assert lease is not None
    pool.charge(10)
    pool.begin_waiting(50, wake)
    assert pool.shortage == 60
    pool.charge(-10)
    assert woken == []  # there is still nothing
    pool.release(lease)
    assert woken == ["a"]
    pool.end_waiting(50, wake)
    pool.charge(5)
    pool.charge(-5)
    assert woken == ["a"]
    assert pool.shortage == 0


def test_the_time_without_memory_is_counted() -> None:
    clock = MockClock()
    pool = SimpleMemoryPool(10, 10, clock.nanoseconds)
    lease = pool.try_allocate(10)
    assert lease is not None
    clock.advance(5)
    assert pool.depleted_ns == 0  # nobody was refused yet
    assert pool.try_allocate(1) is None
    clock.advance(7)
    assert pool.depleted_ns == 7_000_000
    pool.release(lease)
    clock.advance(9)
    assert pool.depleted_ns == 7_000_000


def test_what_became_garbage_unreleased_is_found_told_and_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    pool = SimpleMemoryPool(100, 100, MockClock().nanoseconds)
    kept, lost = pool.try_allocate(30), pool.try_allocate(50)
    assert kept is not None
    assert lost is not None
    assert pool.available_memory == 20
    del lost
    gc.collect()
    with caplog.at_level(logging.ERROR):
        assert pool.available_memory == 70
    assert [record.getMessage() for record in caplog.records] == [
        "Reclaimed buffer of size 50 that was not properly release()ed. This is a bug."
    ]
    assert pool.leaked == 1
    pool.release(kept)
    del kept
    assert pool.available_memory == 100
    assert pool.leaked == 1


def test_a_lease_of_another_pool_is_refused() -> None:
    pool, other = (SimpleMemoryPool(100, 100, MockClock().nanoseconds) for _ in range(2))
    strange = SimpleMemoryPool(100, 100, MockClock().nanoseconds).try_allocate(10)
    assert strange is not None
    with pytest.raises(ValueError, match="not from this pool"):
        pool.release(strange)
    assert pool.available_memory == other.available_memory == 100


def test_the_pool_without_a_limit_refuses_nobody() -> None:
    lease = NONE.try_allocate(1 << 40)
    assert lease is not None
    NONE.release(lease)
    NONE.charge(1 << 40)
    assert not NONE.is_out_of_memory
    assert NONE.shortage == 0
