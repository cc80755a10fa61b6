"""The thread that runs a synchronous client's calls for an event loop, and the way of the results to that loop.

Made by the asyncio clients. The loop submits calls; the thread, which owns the client, runs them in their order, and
hands each result to the loop. One condition guards the queue and what the thread runs now. The results have a lock of
their own: any thread adds some, as the sending thread of an asyncio producer does.

A poll may wait for long. It is submitted as a call that *gives way*: any other call, and its own cancellation, wake the
client (`wakeup`), the poll ends with WokenUp, and the caller submits it again behind the other call. A wake-up that
comes when the poll has just ended is taken back before the next call runs.

A call may need the loop: a poll that calls the user's rebalance listener. The thread waits for the loop's answer then
and runs calls meanwhile, because the listener may await some: all but those that give way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.clients.errors import ClientClosed, WokenUp

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LoopResults(Generic[T]):
    """The results for the futures of one event loop: one wake-up of the loop for many results."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._results: list[tuple[asyncio.Future[T], T | None, BaseException | None]] = []
        """The future, its value and its error: plain tuples, because a producer makes one for each record."""
        self._is_scheduled = False

    def add(self, future: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
        """Give a future its error or, without one, its value: soon, on the loop. Any thread may call it."""
        with self._lock:
            self._results.append((future, value, error))
            # A producer's batch ends with hundreds of results at once, and each wake-up is a write to a pipe.
            if self._is_scheduled:
                return
            self._is_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:
            # Only a program that ends without `stop` closes the loop before. Its futures cannot wake a task.
            logger.warning("The event loop was closed before the client was stopped: results are lost")

    def deliver(self) -> None:
        """Give all results to their futures, on the loop's thread. A future that was cancelled is left alone."""
        with self._lock:
            results, self._results = self._results, []
            self._is_scheduled = False
        for future, value, error in results:
            if future.done():
                if error is not None and not isinstance(error, WokenUp):
                    logger.warning("A call failed after its caller was cancelled: %r", error)
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)  # type: ignore[arg-type]  # without an error there is a value, None included


class Wakeable(Protocol):
    """A client whose waiting call another thread can wake."""

    def wakeup(self) -> None:
        """Make the call that waits now, or else the next one, raise WokenUp."""

    def forget_wakeup(self) -> None:
        """Undo a wake-up that no call has noticed."""


class Closeable(Protocol):
    """A client that the thread makes."""

    def close(self) -> None:
        """Close the connections."""


_C = TypeVar("_C", bound=Closeable)


class _Call(NamedTuple):
    function: Callable[[], Any]
    future: asyncio.Future[Any]
    gives_way: bool


class CallThread:
    """The thread of one client. It runs from `start` until the calls that were submitted before `end` have run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.loop = loop
        self._results: LoopResults[Any] = LoopResults(loop)
        self._condition = threading.Condition()
        self._calls: list[_Call] = []
        self._current: _Call | None = None
        self._client: Wakeable | None = None
        self._was_woken = False
        self._is_ending = False
        self._nesting = 0
        """How many calls wait for the loop in `on_loop`."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended: asyncio.Future[Any] = loop.create_future()

    async def start(self, make_client: Callable[[], _C]) -> _C:
        """Start the thread, let it make the client, and return the client.

        Raises what `make_client` raises. Then, and if the caller is cancelled, no client is left and the thread has
        ended.
        """
        self._thread.start()
        making = self.submit(make_client)
        try:
            return await asyncio.shield(making)
        except BaseException:
            # Cancelled: the client is made all the same. Any other error is that of `making`, and raised again below.
            with suppress(Exception):
                self.submit((await making).close)
            self.end()
            await self.join()
            raise

    def wakes(self, client: Wakeable) -> None:
        """Wake this client when a call has to give way."""
        self._client = client

    # -- the loop

    def submit(self, function: Callable[[], T], *, gives_way: bool = False) -> asyncio.Future[T]:
        """Let the thread run a function, and return the future of its result. Raises ClientClosed after `end`."""
        future: asyncio.Future[T] = self.loop.create_future()
        with self._condition:
            if self._is_ending:
                raise ClientClosed("This client has already been closed.")
            self._calls.append(_Call(function, future, gives_way))
            self._condition.notify()
            if not gives_way:
                self._wake_current()
        return future

    async def run(self, function: Callable[[], T], *, gives_way: bool = False) -> T:
        """Run a function on the thread, and return its result. A call that `gives_way` may raise WokenUp.

        If the caller is cancelled, a call that has not begun is dropped, one that gives way ends soon, and any other
        goes on without its caller. Raises what the function raises, and ClientClosed after `end`.
        """
        future = self.submit(function, gives_way=gives_way)
        try:
            return await future
        except asyncio.CancelledError:
            self._withdraw(future)
            raise

    def _withdraw(self, future: asyncio.Future[Any]) -> None:
        with self._condition:
            self._calls = [call for call in self._calls if call.future is not future]
            if self._current is not None and self._current.future is future:
                self._wake_current()

    def end(self) -> None:
        """End the thread after the calls that were submitted. Idempotent."""
        with self._condition:
            self._is_ending = True
            self._condition.notify()

    async def join(self) -> None:
        """Wait until the thread has ended. Returns at once in a listener, for which the thread waits."""
        with self._condition:
            if self._nesting:
                return
        await asyncio.shield(self._ended)
        self._thread.join()

    def _wake_current(self) -> None:
        """Wake the client, if its present call gives way. Called under the condition."""
        if self._current is not None and self._current.gives_way and self._client is not None:
            self._was_woken = True
            self._client.wakeup()

    # -- the thread

    def _run(self) -> None:
        self._serve(lambda: False)
        self._results.add(self._ended, None, None)

    def _serve(self, is_done: Callable[[], bool]) -> None:
        """Run calls until the condition holds, or the thread has to end."""
        while True:
            with self._condition:
                self._condition.wait_for(
                    lambda: is_done() or self._next() is not None or (self._is_ending and not self._nesting)
                )
                call = None if is_done() else self._next()
                if call is None:
                    return
                self._calls.remove(call)
                self._current = call
            self._execute(call)

    def _next(self) -> _Call | None:
        """Return the next call that may run: within a call, none that gives way. Called under the condition."""
        # A call that gives way comes last: once it runs, only a later call would wake it.
        brief = next((call for call in self._calls if not call.gives_way), None)
        if brief is not None or self._nesting or not self._calls:
            return brief
        return self._calls[0]

    def _execute(self, call: _Call) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = call.function()
        except BaseException as raised:  # noqa: BLE001  # all of them are the caller's
            error = raised
        with self._condition:
            self._current = None
            self._forget_wakeup()
        self._results.add(call.future, value, error)

    def _forget_wakeup(self) -> None:
        if self._was_woken and self._client is not None:
            self._client.forget_wakeup()
        self._was_woken = False

    def on_loop(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and return its result; run calls of the loop meanwhile. Only on this thread.

        Raises what the coroutine raises, RuntimeError when the loop is closed.
        """
        if self.loop.is_closed():
            raise RuntimeError("The event loop was closed before the client was stopped")
        done = asyncio.run_coroutine_threadsafe(make(), self.loop)
        done.add_done_callback(lambda _done: self._notify())
        with self._condition:
            interrupted, self._current = self._current, None
            self._forget_wakeup()
            self._nesting += 1
        try:
            self._serve(done.done)
        finally:
            with self._condition:
                self._nesting -= 1
                self._current = interrupted
                # Calls that came after the listener's end wait for this one.
                if any(not call.gives_way for call in self._calls):
                    self._wake_current()
        return done.result()

    def _notify(self) -> None:
        with self._condition:
            self._condition.notify()
