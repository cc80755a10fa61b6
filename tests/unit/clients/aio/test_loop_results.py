"""Results for an event loop: one wake-up for many, futures that are done, a loop that is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas.clients.aio.call_thread import LoopResults
from barnabas.clients.aio.send_waits import LoopSignal


def test_one_wake_up_for_many_results() -> None:
    loop = asyncio.new_event_loop()
    wake_ups: list[Callable[[], None]] = []
    loop.call_soon_threadsafe = wake_ups.append  # type: ignore[method-assign, assignment]
    results: LoopResults[int | None] = LoopResults(loop)
    futures = [loop.create_future() for _ in range(4)]
    futures[3].cancel()
    results.add(futures[0], 7, None)
    results.add(futures[1], None, None)
    results.add(futures[2], None, OSError("gone"))
    results.add(futures[3], 1, None)
    (deliver,) = wake_ups
    deliver()
    assert (futures[0].result(), futures[1].result()) == (7, None)
    assert isinstance(futures[2].exception(), OSError)
    assert futures[3].cancelled()
    results.add(loop.create_future(), 1, None)
    assert len(wake_ups) == 2
    loop.close()


def test_a_closed_loop_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    results: LoopResults[int] = LoopResults(loop)
    signal = LoopSignal(loop)
    future = loop.create_future()
    loop.close()
    results.add(future, 1, None)
    signal.give()
    assert "closed before the client was stopped" in caplog.text


def test_a_signal_wakes_all_that_wait_and_once() -> None:
    async def main() -> None:
        signal = LoopSignal(asyncio.get_running_loop())
        waits = [asyncio.create_task(signal.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.to_thread(signal.give)
        await asyncio.gather(*waits)
        later = asyncio.create_task(signal.wait())
        await asyncio.sleep(0)
        assert not later.done()
        later.cancel()

    asyncio.run(main())
