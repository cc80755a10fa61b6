"""Completions put off until the thread holds no lock.

Added to from under partition and log locks by the replica layer; drained by `Apis.handle`, the expiration executor
and everything else that applies state changes, once they hold nothing. Kafka: DelayedActionQueue (KAFKA-8334).
No lock: `collections.deque` appends and pops are atomic on every build of Python.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)


class ActionQueue:
    """A queue of actions that any thread may fill and any thread may drain."""

    __slots__ = ("_actions", "pending")

    def __init__(self) -> None:
        self._actions: deque[Callable[[], None]] = deque()
        self.pending = self._actions
        """Truthy while something waits: lets the hot path skip the call to `run_all`."""

    def add(self, action: Callable[[], None]) -> None:
        """Put `action` off."""
        self._actions.append(action)

    def run_all(self) -> None:
        """Run what is queued now; actions added meanwhile by these wait for the next drain, which bounds the loop."""
        actions = self._actions
        for _ in range(len(actions)):
            try:
                action = actions.popleft()
            except IndexError:
                return
            try:
                action()
            except Exception:
                logger.exception("a delayed action failed")
