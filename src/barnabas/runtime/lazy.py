"""An object that is made once, by the first thread that needs it.

For parts of a broker that many brokers never need: the factory may import their modules. Any thread may call; `_lock`
is held while the object is made, and is not taken afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A callable that returns the object. `make` must not call it; when `make` raises, the next call tries again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """The object, or None before its first use."""
        return self._made

    def __call__(self) -> T:
        """Return the object. Raises what its factory raises."""
        made = self._made
        if made is not None:
            return made
        with self._lock:
            # Tested again: another thread may have made the object while this one waited for the lock.
            if self._made is None:
                self._made = self._make()
            return self._made
