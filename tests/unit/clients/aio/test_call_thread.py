"""The thread that owns a client for an event loop: order, calls that give way, cancellation, listeners, the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from barnabas.clients.aio.call_thread import CallThread
from barnabas.clients.errors import ClientClosed, WokenUp

WAIT_S = 60


class Client:
    """A client whose `poll` waits until it is woken."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.begun = threading.Event()
        self.forgotten = 0
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def poll(self) -> None:
        self.begun.set()
        assert self.woken.wait(WAIT_S)
        self.woken.clear()
        self.begun.clear()
        raise WokenUp

    def wakeup(self) -> None:
        self.woken.set()

    def forget_wakeup(self) -> None:
        self.forgotten += 1
        self.woken.clear()


def _run(test: Callable[[CallThread, Client], Awaitable[None]]) -> None:
    async def main() -> None:
        thread = CallThread(asyncio.get_running_loop(), "tested")
        client = await thread.start(Client)
        thread.wakes(client)
        await asyncio.wait_for(test(thread, client), WAIT_S)
        thread.end()
        await asyncio.wait_for(thread.join(), WAIT_S)
        assert "tested" not in {each.name for each in threading.enumerate()}
        with pytest.raises(ClientClosed):
            await thread.run(lambda: 1)

    asyncio.run(main())


def test_a_start_that_is_cancelled_leaves_no_client_and_no_thread() -> None:
    begun, may_end = threading.Event(), threading.Event()
    made: list[Client] = []

    def make() -> Client:
        begun.set()
        assert may_end.wait(WAIT_S)
        made.append(Client())
        return made[0]

    async def main() -> None:
        starting = asyncio.create_task(CallThread(asyncio.get_running_loop(), "tested").start(make))
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        starting.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert [client.is_closed for client in made] == [True]
        assert "tested" not in {each.name for each in threading.enumerate()}

    asyncio.run(main())


def test_results_and_errors_come_back_in_order() -> None:
    async def test(thread: CallThread, _client: Client) -> None:
        order: list[int] = []
        await asyncio.gather(*(thread.run(lambda number=number: order.append(number)) for number in range(20)))  # type: ignore[misc]
        assert order == list(range(20))
        with pytest.raises(ValueError, match="invalid literal"):
            await thread.run(lambda: int("seven"))

    _run(test)


def test_a_poll_gives_way_to_a_call_that_comes_later() -> None:
    async def test(thread: CallThread, client: Client) -> None:
        poll = thread.submit(client.poll, gives_way=True)
        await asyncio.to_thread(client.begun.wait, WAIT_S)
        assert await thread.run(lambda: 7) == 7
        with pytest.raises(WokenUp):
            await poll
        assert not client.woken.is_set()

    _run(test)


def test_a_poll_runs_after_the_calls_that_stand_in_line_behind_it() -> None:
    async def test(thread: CallThread, client: Client) -> None:
        gate = threading.Event()
        first = thread.submit(lambda: gate.wait(WAIT_S))
        poll = thread.submit(client.poll, gives_way=True)
        second = thread.submit(client.begun.is_set)
        gate.set()
        assert (await first, await second) == (True, False)
        await asyncio.to_thread(client.begun.wait, WAIT_S)
        await thread.run(lambda: None)
        with pytest.raises(WokenUp):
            await poll

    _run(test)


def test_a_cancelled_poll_ends_and_its_wake_up_goes_no_further() -> None:
    async def test(thread: CallThread, client: Client) -> None:
        poll = asyncio.create_task(thread.run(client.poll, gives_way=True))
        await asyncio.to_thread(client.begun.wait, WAIT_S)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        await thread.run(lambda: None)
        assert not client.woken.is_set()

    _run(test)


def test_a_call_that_is_cancelled_in_the_line_does_not_run() -> None:
    async def test(thread: CallThread, _client: Client) -> None:
        gate = threading.Event()
        ran: list[str] = []
        first = thread.submit(lambda: gate.wait(WAIT_S))
        cancelled = asyncio.create_task(thread.run(lambda: ran.append("cancelled")))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        gate.set()
        assert await first
        await thread.run(lambda: ran.append("kept"))
        assert ran == ["kept"]

    _run(test)


def test_a_coroutine_for_which_a_poll_waits_may_await_calls() -> None:
    async def test(thread: CallThread, _client: Client) -> None:
        order: list[str] = []

        async def listener() -> str:
            order.append("listener")
            await thread.run(lambda: order.append("call"))
            return "heard"

        def poll() -> str:
            order.append("poll")
            return thread.on_loop(listener)

        assert await thread.run(poll, gives_way=True) == "heard"
        assert order == ["poll", "listener", "call"]

        async def broken() -> None:
            raise OSError("listener")

        with pytest.raises(OSError, match="listener"):
            await thread.run(lambda: thread.on_loop(broken), gives_way=True)

    _run(test)
