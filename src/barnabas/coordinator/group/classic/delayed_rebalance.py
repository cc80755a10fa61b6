"""A classic group that waits for its members: to join, or to ask for their assignments.

Made by `ClassicGroupChanges`, in the purgatory "Rebalance". The group itself decides, under its lock, whether it has to
wait (`ClassicGroup`). These operations only keep the time, and are completed when the wait is over.
Kafka: DelayedRebalance, DelayedJoin and DelayedSync. Kafka's InitialDelayedJoin is a DelayedJoin as well: the group
knows that it waits for its first members.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.purgatory.delayed_operation import DelayedOperation


class DelayedRebalance(DelayedOperation):
    """A wait of a group for its members, which ends in one of two cases.

    1. The group waits no longer: its members have joined (or synced), or it has begun another wait.
    2. The time is over.

    is_over: reads attributes of the group without its lock. on_timeout: tells the group, and takes the lock for that.
    """

    __slots__ = ("_is_over", "_on_timeout")

    def __init__(self, delay_ms: int, is_over: Callable[[], bool], on_timeout: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self._is_over = is_over
        self._on_timeout = on_timeout

    def try_complete(self) -> bool:
        """Complete the wait in case 1."""
        return self._is_over() and self.force_complete()

    def on_complete(self) -> None:
        """Do nothing: the group has done the work."""

    def on_expiration(self) -> None:
        """Tell the group that the time is over."""
        self._on_timeout()


class DelayedJoin(DelayedRebalance):
    """The wait for all members to join. On a timeout the group goes on with those that have joined."""

    __slots__ = ()


class DelayedSync(DelayedRebalance):
    """The wait for the SyncGroups of a generation. On a timeout the group removes the members that sent none."""

    __slots__ = ()
