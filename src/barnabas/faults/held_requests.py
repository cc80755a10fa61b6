"""The requests that a fault holds back: until their delay is over, or for ever.

Made by `injector`; any thread may call it, and `_lock` guards the set. A stopping broker waits for the answers to the
requests it has taken, so it first closes the connections of those that are held.
"""

from __future__ import annotations

import threading

from barnabas.faults.interception import Interception


class HeldRequests:
    """A set of interceptions, each taken out once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Interception] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, interception: Interception) -> None:
        """Hold a request back. After `close_all` its connection is closed at once."""
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._held.add(interception)
        if is_closed:
            interception.close()

    def take(self, interception: Interception) -> bool:
        """Take a request out. Returns False if `close_all` was first."""
        with self._lock:
            is_held = interception in self._held
            self._held.discard(interception)
        return is_held

    def close_all(self) -> None:
        """Close the connections of all held requests, now and from now on."""
        with self._lock:
            self._is_closed = True
            held, self._held = self._held, set()
        # Outside the lock: the network takes locks of its own.
        for interception in held:
            interception.close()
