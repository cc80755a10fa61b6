"""A signal that other threads give to the tasks of an event loop: something that they wait for has changed.

Made by the asyncio producer. Any thread gives the signal; tasks wait for it. No lock: the future is the loop's alone.
"""

from __future__ import annotations

import asyncio


class LoopSignal:
    """A signal for the tasks of one loop. A task that checks its condition and waits then, misses no signal."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next: asyncio.Future[None] = loop.create_future()

    def give(self) -> None:
        """Wake all tasks that wait. Any thread may call it, and does not wait."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop was closed: no task waits any more.
            return

    async def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for the next signal, or for that long."""
        # `asyncio.wait` does not cancel the future, which other tasks wait for too.
        await asyncio.wait([self._next], timeout=timeout_seconds)

    def _wake(self) -> None:
        given, self._next = self._next, self._loop.create_future()
        given.set_result(None)
