"""A classic group that waits for its members: to join, or to ask for their assignments.

Made by `ClassicGroupService`, in the purgatory "Rebalance". The group itself decides, under its lock, whether it has to
wait (`ClassicGroup`); these only keep the time, and are completed when nobody needs them any more.
Kafka: DelayedRebalance, DelayedJoin and DelayedSync. Kafka's InitialDelayedJoin is a DelayedJoin as well: the group
knows that it is the first.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.purgatory.delayed_operation import DelayedOperation


class DelayedRebalance(DelayedOperation):
    """Completed when

    1. what the group waits for has happened, or cannot happen any more; or
    2. the time is over.

    is_over: reads attributes of the group, without its lock. on_timeout: tells the group, under its lock.
    """

    __slots__ = ("_is_over", "_on_timeout")

    def __init__(self, delay_ms: int, is_over: Callable[[], bool], on_timeout: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._is_over = is_over
        self._on_timeout = on_timeout

    def try_complete(self) -> bool:
        """Case 1."""
        return self._is_over() and self.force_complete()

    def on_complete(self) -> None:
        """The group has done what there was to do."""

    def on_expiration(self) -> None:
        """Case 2."""
        self._on_timeout()


class DelayedJoin(DelayedRebalance):
    """Waits until all members have joined; then the group goes on with those who have."""

    __slots__ = ()


class DelayedSync(DelayedRebalance):
    """Waits until all members of a generation have sent a SyncGroup; then the group gives up those who have not."""

    __slots__ = ()
