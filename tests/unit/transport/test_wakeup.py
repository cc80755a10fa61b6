"""The wake-up descriptor in both its forms."""

import os
import select
import threading
from collections.abc import Iterator

import pytest

from barnabas.transport.poller import Wakeup


@pytest.fixture(params=[False, True], ids=["eventfd", "pipe"])
def wakeup(request: pytest.FixtureRequest) -> Iterator[Wakeup]:
    wakeup = Wakeup(portable=request.param)
    yield wakeup
    wakeup.close()


def is_readable(wakeup: Wakeup) -> bool:
    # Not `select`, which takes no descriptor from 1,024 on: a long test run has them.
    poller = select.poll()
    poller.register(wakeup.fileno(), select.POLLIN)
    return bool(poller.poll(0))


def test_wake_makes_it_readable_until_drained(wakeup: Wakeup) -> None:
    assert not is_readable(wakeup)
    wakeup.wake()
    wakeup.wake()
    assert is_readable(wakeup)
    wakeup.drain()
    assert not is_readable(wakeup)
    wakeup.drain()
    wakeup.wake()
    assert is_readable(wakeup)


def test_wakes_beyond_the_capacity_of_a_pipe_are_one(wakeup: Wakeup) -> None:
    for _ in range(20_000):
        wakeup.wake()
    wakeup.drain()
    assert not is_readable(wakeup)


def test_a_late_wake_is_harmless(wakeup: Wakeup) -> None:
    wakeup.close()
    wakeup.wake()
    wakeup.close()


def test_the_descriptor_is_not_closed_under_a_write(wakeup: Wakeup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number could belong to a connection by then."""
    write = os.write
    closer = threading.Thread(target=wakeup.close)
    open_meanwhile: list[bool] = []

    def interrupted_write(descriptor: int, data: bytes) -> int:
        closer.start()
        closer.join(0.05)
        open_meanwhile.append(wakeup.fileno() >= 0)
        return write(descriptor, data)

    monkeypatch.setattr("barnabas.transport.poller.os.write", interrupted_write)
    wakeup.wake()
    closer.join()
    assert open_meanwhile == [True]
