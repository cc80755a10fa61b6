"""An operation that waits for a condition or a timeout and completes exactly once.

Subclassed by the replica layer (DelayedProduce, DelayedFetch), the admin handlers and the coordinators; driven by
`DelayedOperationPurgatory`. Kafka: org.apache.kafka.server.purgatory.DelayedOperation.

`completed` is a lock used as a flag: the first thread that acquires it completes the operation, and it is never
released. `lock` serialises the calls of `try_complete` of one operation; the purgatory takes it. It is not re-entrant:
while a condition is checked, nothing tries the same operation. (Once the operation is completed, nothing tries it.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from barnabas.runtime.compiler_marks import mypyc_attr
from barnabas.runtime.lock_order import CHECKING, check_no_lock_held
from barnabas.runtime.locks import Lock

if TYPE_CHECKING:
    from barnabas.purgatory.timer import SystemTimer
    from barnabas.purgatory.timing_wheel import TimerEntry


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(ABC):
    """The base of everything that waits.

    The states are created, completed, finalized. `try_complete` completes if the condition holds; `force_complete`
    completes in any case, as the timer does. Of two callers the first wins, and the other gets False.

    delay_ms: how long the operation may wait in all.
    """

    __slots__ = ("_entry", "_timed_by", "completed", "delay_ms", "lock")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.lock = Lock()
        self.completed = Lock()
        self._timed_by: SystemTimer | None = None
        self._entry: TimerEntry | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Check the condition. If it holds, return `self.force_complete()`, else False. Runs under `lock`."""

    @abstractmethod
    def on_complete(self) -> None:
        """Do the work of completion, by condition or by timeout. Runs exactly once."""

    def on_expiration(self) -> None:  # noqa: B027 - most operations only count their expirations
        """Do additional work when the timeout completed the operation."""

    @property
    def is_completed(self) -> bool:
        """Whether the operation is completed (`on_complete` may still be running)."""
        return self.completed.locked()

    def force_complete(self) -> bool:
        """Complete the operation unless it is completed. Return True to the one caller that did.

        Must not be called while holding a ranked lock.
        """
        if CHECKING:
            check_no_lock_held(f"completing {type(self).__name__}")
        # An atomic test-and-set: of a handler, the timer and another thread's append exactly one passes.
        if not self.completed.acquire(False):
            return False
        if self._entry is not None:
            self.cancel_timer()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete the operation because its time is up. Called by the timer's executor."""
        if self.force_complete():
            self.on_expiration()

    def start_timer(self, timer: SystemTimer) -> None:
        """Start the timeout. If the operation is completed before the entry is stored, the entry is cancelled here."""
        self._timed_by = timer
        self._entry = timer.add(self.delay_ms, self.expire)
        if self.completed.locked():
            self.cancel_timer()

    def cancel_timer(self) -> None:
        """Cancel the timeout, if it was started."""
        # A local copy, since `start_timer` and a completion may come here at once. To cancel an entry twice is
        # harmless.
        timer, entry = self._timed_by, self._entry
        if timer is not None and entry is not None:
            self._entry = None
            timer.cancel(entry)


class DelayedFuture(DelayedOperation):
    """Completes when every future is done, or when its time is up. answer: called then; some may be pending yet."""

    __slots__ = ("_answer", "_futures")

    def __init__(self, timeout_ms: int, futures: Sequence[Future[Any]], answer: Callable[[], None]) -> None:
        super().__init__(timeout_ms)
        self._futures = futures
        self._answer = answer

    def try_complete(self) -> bool:
        """Complete if no future is pending."""
        return all(future.done() for future in self._futures) and self.force_complete()

    def on_complete(self) -> None:
        """Answer."""
        self._answer()
