"""The producer's memory budget: limits, waiting in order, closing."""

from __future__ import annotations

import threading

import pytest

from barnabas.clients.errors import BufferExhausted, ClientClosed
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool


def test_counts_and_refuses() -> None:
    pool = BufferPool(100)
    pool.allocate(60, 0)
    assert pool.available_bytes == 40
    with pytest.raises(BufferExhausted):
        pool.allocate(41, 0)
    assert (pool.available_bytes, pool.waiting) == (40, 0)
    with pytest.raises(ValueError, match="hard limit of 100"):
        pool.allocate(101, 0)
    pool.give_back(60)
    pool.allocate(100, 0)
    assert pool.available_bytes == 0


def test_waiters_are_served_in_order() -> None:
    pool = BufferPool(100)
    pool.allocate(100, 0)
    served: list[int] = []

    def take(size: int) -> None:
        pool.allocate(size, 60_000)
        served.append(size)

    threads = []
    for number, size in enumerate((80, 10)):
        thread = threading.Thread(target=take, args=(size,))
        thread.start()
        threads.append(thread)
        while pool.waiting <= number:
            threading.Event().wait(0.001)
    pool.give_back(10)  # enough for the second, who waits behind the first
    assert not served
    pool.give_back(90)
    for thread in threads:
        thread.join(10)
    assert sorted(served) == [10, 80]
    assert pool.available_bytes == 10


def test_closing_fails_those_who_wait() -> None:
    pool = BufferPool(10)
    pool.allocate(10, 0)
    failures: list[Exception] = []

    def take() -> None:
        try:
            pool.allocate(1, 60_000)
        except ClientClosed as error:
            failures.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    while not pool.waiting:
        threading.Event().wait(0.001)
    pool.close()
    thread.join(10)
    assert len(failures) == 1
    with pytest.raises(ClientClosed):
        pool.allocate(1, 0)


def test_a_watcher_is_told_of_memory_and_of_the_close_and_counts_as_waiting() -> None:
    pool = BufferPool(100)
    pool.allocate(100, 0)
    told: list[int] = []
    with pool.watch(lambda: told.append(1)):
        assert (pool.waiting, pool.use().waiting) == (1, 1)
        pool.give_back(10)
        pool.allocate(10, 0)
        pool.close()
        assert len(told) == 2
    assert pool.waiting == 0
    pool.give_back(100)
    assert len(told) == 2
    assert "Failed to allocate 50 bytes" in str(pool.exhausted(50, 1_000))
    assert pool.use().exhausted == 1
