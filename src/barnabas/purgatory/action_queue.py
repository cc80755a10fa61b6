"""Completions that are put off until the thread holds no lock.

The replica layer adds to the queue, also while it holds locks of partitions and logs. `Apis.handle`, the expiration
executor and the other callers that apply state changes drain it when they hold no lock. No lock of its own: appends and
pops of a list are atomic on every build of Python. (It is short: a pop at its front moves little.)

Without the queue two threads could deadlock (KAFKA-8334): each appends to a partition under its group's lock, and the
append completes a delayed operation of the other's group, which needs that group's lock. Kafka: DelayedActionQueue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class ActionQueue:
    """A queue of actions that any thread may fill and any thread may drain."""

    __slots__ = ("_actions", "pending")

    def __init__(self) -> None:
        self._actions: list[Callable[[], None]] = []
        # The list itself under a second name: its truth value costs no call and no lock.
        self.pending = self._actions
        """True while an action waits. The hot path reads it to skip the call of `run_all`."""

    def add(self, action: Callable[[], None]) -> None:
        """Put `action` off until the next drain."""
        self._actions.append(action)

    def run_all(self) -> None:
        """Run the actions that are queued now. Those that they add wait for the next drain, so the loop is bounded."""
        actions = self._actions
        for _ in range(len(actions)):
            try:
                action = actions.pop(0)
            except IndexError:
                # Another thread drained the rest: any number of threads may drain at the same time.
                return
            try:
                action()
            except Exception:
                # The thread serves a request or a timer of its own, which must not fail with this action.
                logger.exception("a delayed action failed")
