"""Handlers survive errors, stop the broker on fatal ones, and come and go while running."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any

import pytest

from barnabas.network.request_handler import RequestHandler, RequestHandlerPool
from barnabas.network.requests.request_channel import RequestChannel
from barnabas.runtime.clock import SystemClock
from tests.support.mock_clock import MockClock


class FakeRequest:
    """As much of a Request as a handler touches."""

    class connection:  # noqa: N801
        connection_id = "a:1-b:2-0"

    def __init__(self, name: str = "request") -> None:
        self.name = name
        self.dequeued_ns = 0
        self.released = 0
        self.closed = 0

    def release_buffer(self) -> None:
        self.released += 1

    def close_connection(self) -> None:
        self.closed += 1


def wake() -> None:
    """Nobody waits for room in these tests."""


def fatal(error: BaseException) -> None:
    raise AssertionError("fatal") from error


def pool_of(count: int, handle: Any) -> tuple[RequestChannel, RequestHandlerPool]:
    channel = RequestChannel()
    pool = RequestHandlerPool(channel, handle, SystemClock(), count, fatal)
    pool.start()
    return channel, pool


def test_an_ordinary_error_closes_the_connection_and_releases_the_buffer(caplog: pytest.LogCaptureFixture) -> None:
    def handle(request: Any) -> None:
        raise ValueError("a bug")

    clock = MockClock()
    channel = RequestChannel()
    handler = RequestHandler("handler", channel, handle, clock, fatal)
    request = FakeRequest()
    channel.try_send(request, wake)
    with caplog.at_level(logging.ERROR):
        assert handler.run_once(0)
    assert (request.closed, request.released, request.dequeued_ns) == (1, 1, clock.nanoseconds())
    assert "a:1-b:2-0" in caplog.text
    assert handler.run_once(0)
    channel.send_callback(lambda: handle(None))
    assert handler.run_once(0)
    channel.send_shutdown_request()
    assert not handler.run_once(0)


def test_the_frame_of_a_request_that_waits_on_no_thread_is_kept() -> None:
    """It waits for its place in a line, undecoded; whoever handles it in the end releases its frame."""
    channel = RequestChannel()
    waiting: list[FakeRequest] = []
    handler = RequestHandler("handler", channel, waiting.append, MockClock(), fatal)
    request = FakeRequest()
    channel.try_send(request, wake)
    assert handler.run_once(0)
    assert (waiting, request.released, request.closed) == ([request], 0, 0)


def test_a_fatal_error_is_passed_on() -> None:
    class Fatal(BaseException):
        pass

    def handle(request: Any) -> None:
        raise Fatal

    seen: list[BaseException] = []
    channel = RequestChannel()
    channel.try_send(FakeRequest(), wake)
    RequestHandler("handler", channel, handle, MockClock(), seen.append).run()
    assert [type(error) for error in seen] == [Fatal]


def test_threads_are_named_and_a_shutdown_handles_what_is_queued() -> None:
    handled: queue.SimpleQueue[str] = queue.SimpleQueue()
    channel, pool = pool_of(3, lambda request: handled.put(threading.current_thread().name))
    for _ in range(50):
        channel.try_send(FakeRequest(), wake)
    pool.shutdown()
    names = {handled.get_nowait() for _ in range(50)}
    assert handled.empty()
    assert names <= {f"data-plane-kafka-request-handler-{n}" for n in range(3)}
    assert pool.size == 0


def test_resizing_while_running() -> None:
    handled: queue.SimpleQueue[str] = queue.SimpleQueue()
    channel, pool = pool_of(1, lambda request: handled.put(request.name))
    for count in (4, 2, 5, 1):
        pool.resize(count)
        assert pool.size == count
        channel.try_send(FakeRequest(str(count)), wake)
    assert sorted(handled.get(timeout=30) for _ in range(4)) == ["1", "2", "4", "5"]
    with pytest.raises(ValueError, match="at least one"):
        pool.resize(0)
    assert pool.idle_ns > 0
    pool.shutdown()
    pool.resize(3)
    assert pool.size == 0


def test_several_handlers_work_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=30)
    channel, pool = pool_of(3, lambda request: together.wait())
    for _ in range(3):
        channel.try_send(FakeRequest(), wake)
    pool.shutdown()
    assert not together.broken
