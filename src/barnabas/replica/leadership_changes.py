"""Who leads what has changed here: told to the coordinators, whose state belongs to partitions of internal topics.

`LeadershipOrders` collects changes while it carries out an order, and tells them when it holds no lock any more, on the
thread of the order. Listeners are added while the broker is put together. Orders may overtake each other on their way
to a listener: the leader epochs say which is newer.

Kafka: the onLeadershipChange callback of ReplicaManager.becomeLeaderOrFollower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition


class LeadershipChange(NamedTuple):
    """This broker leads the partition now, or does not any more. leader_epoch None: the partition is gone from here."""

    topic_partition: TopicPartition
    is_leader: bool
    leader_epoch: int | None


LeadershipListener = Callable[[Sequence[LeadershipChange]], None]


class LeadershipListeners:
    """Those that want to know."""

    def __init__(self) -> None:
        self._listeners: tuple[LeadershipListener, ...] = ()

    def add(self, listener: LeadershipListener) -> None:
        """Have `listener` told of every change from now on. It is called without locks, and must not block."""
        self._listeners = (*self._listeners, listener)

    def tell(self, changes: Sequence[LeadershipChange]) -> None:
        """Tell all of them, unless there is nothing to tell."""
        if changes:
            for listener in self._listeners:
                listener(changes)
