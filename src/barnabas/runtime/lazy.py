"""An object that is made when it is first needed, once, whichever thread asks first.

For parts of a broker that many brokers never need: the factory may import their modules. Any thread may ask; `_lock` is
held while the object is made, and not once it is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Call it for the object. `make` must not ask for the object itself; when it raises, the next call tries again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: T | None = None

    @property
    def is_made(self) -> bool:
        """Whether asking for the object takes no time any more."""
        return self._made is not None

    def __call__(self) -> T:
        """Return the object. Raises what its factory raises."""
        made = self._made
        if made is not None:
            return made
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made
