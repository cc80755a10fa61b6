"""The way a leader changes its in-sync replicas: a Protocol, and the change that is asked for.

`IsrUpdates` makes changes and calls `submit` on any thread (request handlers, the scheduler), with no lock held. Two
managers implement the Protocol: `DefaultAlterPartitionManager` asks the controller, `ZkAlterPartitionManager` writes to
the store. Immutable values, so no lock. Kafka: AlterPartitionManager, AlterPartitionItem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.leader_and_isr import LeaderAndIsr

AlterPartitionCallback = Callable[[LeaderAndIsr | ApiError], None]


class IsrChange(NamedTuple):
    """A change of the in-sync replicas of one partition.

    wanted: the leadership with the new in-sync replicas; its partition epoch is the one it replaces. controller_epoch:
    of the controller that named this leader. broker_epochs: of the in-sync replicas, as they said in their fetches; a
    replica that said none is left out. on_done: see `AlterPartitionManager.submit`.
    """

    partition: TopicPartition
    topic_id: bytes
    wanted: LeaderAndIsr
    controller_epoch: int
    broker_epochs: Mapping[int, int]
    on_done: AlterPartitionCallback


class AlterPartitionManager(Protocol):
    """A way to have the cluster agree on a partition's in-sync replicas."""

    def submit(self, change: IsrChange) -> None:
        """Ask for a change.

        Its `on_done` is called once, on another thread or before this call returns, with the leadership as written or
        with the ApiError that says why it was not written. After INVALID_UPDATE_VERSION the controller, which wrote
        meanwhile, will send its own leadership. A broker that stops forgets the changes that are not answered.
        """
