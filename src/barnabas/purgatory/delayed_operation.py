"""An operation that waits for a condition or a timeout and completes exactly once.

Subclassed by the replica layer (DelayedProduce, DelayedFetch), the admin handlers and the coordinators; driven by
`DelayedOperationPurgatory`. Kafka: org.apache.kafka.server.purgatory.DelayedOperation.

`_completed` is a test-and-set lock: whoever acquires it first completes the operation; it is never released.
`lock` serialises `try_complete` calls of one operation; a subclass may pass in the lock that guards its condition.
Neither is ever held while another operation is completed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.runtime.lock_order import check_no_lock_held, is_checking

if TYPE_CHECKING:
    from barnabas.purgatory.timer import Timer
    from barnabas.purgatory.timing_wheel import TimerEntry

CHECKING = is_checking()


class DelayedOperation(ABC):
    """Base of everything that waits.

    States: created -> completed -> finalized. `try_complete` decides by condition, `force_complete` completes
    whatever the condition says (the timer's way); of two callers the first wins, the other gets False.

    delay_ms: how long it may wait in all.
    """

    __slots__ = ("_completed", "_entry", "delay_ms", "lock")

    def __init__(self, delay_ms: int, lock: Any = None) -> None:
        self.delay_ms = delay_ms
        self.lock = lock if lock is not None else threading.RLock()
        self._completed = threading.Lock()
        self._entry: tuple[Timer, TimerEntry] | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Check the condition; if it holds, return `self.force_complete()`, else False. Runs under `lock`."""

    @abstractmethod
    def on_complete(self) -> None:
        """What is done on completion, by condition or by timeout. Runs exactly once."""

    def on_expiration(self) -> None:  # noqa: B027 - most operations only count their expirations
        """What is done in addition when the timeout completed it."""

    @property
    def is_completed(self) -> bool:
        """Whether somebody has completed it (`on_complete` may still be running)."""
        return self._completed.locked()

    def force_complete(self) -> bool:
        """Complete it now unless it is; True for the one caller who did. Never while holding a ranked lock."""
        if CHECKING:
            check_no_lock_held(f"completing {type(self).__name__}")
        if not self._completed.acquire(blocking=False):
            return False
        self.cancel_timer()
        self.on_complete()
        return True

    def expire(self) -> None:
        """The timer's call."""
        if self.force_complete():
            self.on_expiration()

    def safe_try_complete(self) -> bool:
        """`try_complete` under the operation's lock."""
        with self.lock:
            return self.try_complete()

    def safe_try_complete_or_else(self, otherwise: Callable[[], None]) -> bool:
        """Try; if the condition doesn't hold run `otherwise` (which registers the watches) and try once more.

        The second try closes the gap between the first and the registration, in which a wake-up would be lost.
        """
        with self.lock:
            if self.try_complete():
                return True
            otherwise()
            return self.try_complete()

    def start_timer(self, timer: Timer) -> None:
        """Arm the timeout. A completion that comes between arming and remembering the entry cancels it here."""
        self._entry = (timer, timer.add(self.delay_ms, self.expire))
        if self.is_completed:
            self.cancel_timer()

    def cancel_timer(self) -> None:
        """Disarm the timeout, if it was armed."""
        armed = self._entry
        if armed is not None:
            self._entry = None
            armed[0].cancel(armed[1])
