"""Results that other threads hand to an event loop: one wake-up of the loop for many results.

Made by the asyncio clients. Any thread adds results, under a lock; the loop's thread gives them to its futures.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Generic, TypeVar

from barnabas.clients.errors import WokenUp

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LoopResults(Generic[T]):
    """The results for the futures of one event loop."""

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
            # Only a program that ends without `stop` closes the loop before. Its futures can wake no task any more.
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
