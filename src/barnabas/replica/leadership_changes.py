"""Changes of leadership, for the coordinators, whose state belongs to partitions of internal topics.

`LeadershipOrders` collects changes while it carries out an order and calls the listeners on the thread of that order,
when it holds no lock. Listeners are added while the broker is put together. Two orders may reach a listener in the
wrong sequence: the leader epochs say which is newer.

Kafka: ReplicaManager.becomeLeaderOrFollower, its callback onLeadershipChange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition


class LeadershipChange(NamedTuple):
    """Whether this broker leads the partition now. leader_epoch None: this broker does not host it any more."""

    topic_partition: TopicPartition
    is_leader: bool
    leader_epoch: int | None


LeadershipListener = Callable[[Sequence[LeadershipChange]], None]


class LeadershipListeners:
    """The listeners for changes of leadership."""

    def __init__(self) -> None:
        self._listeners: tuple[LeadershipListener, ...] = ()

    def add(self, listener: LeadershipListener) -> None:
        """Call `listener` with every change from now on, without locks. The listener must not block."""
        self._listeners = (*self._listeners, listener)

    def notify(self, changes: Sequence[LeadershipChange]) -> None:
        """Call every listener, unless there are no changes."""
        if changes:
            for listener in self._listeners:
                listener(changes)
