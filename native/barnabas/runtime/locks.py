"""The locks of the hot path, native: mypyc takes and releases them by a call in C."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Final

from librt.threading import Lock

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["Lock", "ReentrantLock"]

_identity: Final = get_ident


class ReentrantLock:
    """A lock that its holder may take again."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Read without the lock: only the thread itself writes its own identity here.
        self._holder: i64 = 0
        self._depth: i64 = 0

    def acquire(self) -> bool:
        """Take the lock, once more if this thread holds it."""
        me: i64 = _identity()
        if self._holder != me:
            self._lock.acquire()
            self._holder = me
        self._depth += 1
        return True

    def release(self) -> None:
        """Give it back once. The caller holds it."""
        self._depth -= 1
        if self._depth == 0:
            self._holder = 0
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.release()
