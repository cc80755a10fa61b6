"""Both real Pollers report a change once; the portable one again after `rearm`. On pipes: no sockets needed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from barnabas.transport.poller import READABLE, WRITABLE, Poller, Wakeup, default_poller


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


@pytest.fixture(params=[False, True], ids=["default", "portable"])
def poller(request: pytest.FixtureRequest) -> Iterator[Poller]:
    made = default_poller(portable=request.param)
    yield made
    made.close()


def bits(poller: Poller, fd: int) -> int:
    return dict(poller.poll(0)).get(fd, 0)


def test_readable_is_reported_once_until_it_is_used_up(poller: Poller, pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    poller.register(read_fd)
    assert not bits(poller, read_fd) & READABLE
    os.write(write_fd, b"x")
    assert bits(poller, read_fd) & READABLE
    assert not bits(poller, read_fd) & READABLE
    os.read(read_fd, 10)
    poller.rearm(read_fd, READABLE)
    assert not bits(poller, read_fd) & READABLE
    os.write(write_fd, b"y")
    assert bits(poller, read_fd) & READABLE


def test_writable_comes_back_after_a_full_write(poller: Poller, pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    poller.register(write_fd)
    assert bits(poller, write_fd) & WRITABLE
    assert not bits(poller, write_fd) & WRITABLE
    while True:
        try:
            os.write(write_fd, bytes(65536))
        except BlockingIOError:
            break
    poller.rearm(write_fd, WRITABLE)
    assert not bits(poller, write_fd) & WRITABLE
    while True:
        try:
            os.read(read_fd, 65536)
        except BlockingIOError:
            break
    assert bits(poller, write_fd) & WRITABLE


def test_a_wake_up_ends_one_wait(poller: Poller) -> None:
    wakeup = Wakeup()
    poller.register(wakeup.fileno(), reads_only=True)
    assert poller.poll(0) == []
    wakeup.wake()
    assert poller.poll(0) == [(wakeup.fileno(), READABLE)]
    wakeup.drain()
    poller.rearm(wakeup.fileno(), READABLE)
    assert poller.poll(0) == []
    wakeup.wake()
    assert poller.poll(0) == [(wakeup.fileno(), READABLE)]
    poller.unregister(wakeup.fileno())
    wakeup.close()


def test_a_descriptor_that_was_forgotten_is_not_reported(poller: Poller, pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    poller.register(read_fd)
    poller.unregister(read_fd)
    os.write(write_fd, b"x")
    assert bits(poller, read_fd) == 0
