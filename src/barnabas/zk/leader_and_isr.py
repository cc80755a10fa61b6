"""Who leads a partition, in which epoch, and which replicas are in sync: the value of a partition's state znode.

Used by zk and controller on any thread; immutable, so no lock.
Kafka: kafka.api.LeaderAndIsr, kafka.controller.LeaderIsrAndControllerEpoch, LeaderRecoveryState.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

INITIAL_LEADER_EPOCH = 0
INITIAL_PARTITION_EPOCH = 0
NO_LEADER = -1
NO_EPOCH = -1
LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2  # the leader epoch of a StopReplica that deletes: it overrides any other


class LeaderRecoveryState(enum.IntEnum):
    """Whether the leader was elected uncleanly and still recovers."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """Leadership of one partition. `partition_epoch` is the version of its state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = INITIAL_PARTITION_EPOCH

    @classmethod
    def initial(cls, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """Leadership of a new partition."""
        return cls(leader, INITIAL_LEADER_EPOCH, tuple(isr))

    @classmethod
    def during_delete(cls, isr: Sequence[int]) -> LeaderAndIsr:
        """What brokers are told of a partition of a topic being deleted. Kafka: LeaderAndIsr.duringDelete."""
        return cls(LEADER_DURING_DELETE, INITIAL_LEADER_EPOCH, tuple(isr))

    def new_leader(self, leader: int) -> LeaderAndIsr:
        """Another leader, the same in-sync replicas, the next epoch."""
        return self.new_leader_and_isr(leader, self.isr)

    def new_leader_and_isr(self, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """Another leader and other in-sync replicas in the next epoch."""
        return self._replace(leader=leader, isr=tuple(isr), leader_epoch=self.leader_epoch + 1)

    def new_recovering_leader_and_isr(self, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """A leader that wasn't in sync: the next epoch, and it has to recover."""
        return self.new_leader_and_isr(leader, isr)._replace(leader_recovery_state=LeaderRecoveryState.RECOVERING)

    def new_epoch(self) -> LeaderAndIsr:
        """The same leadership in the next epoch."""
        return self.new_leader_and_isr(self.leader, self.isr)

    def with_partition_epoch(self, partition_epoch: int) -> LeaderAndIsr:
        """The same leadership as written at that version of the znode."""
        return self._replace(partition_epoch=partition_epoch)


class LeaderIsrAndControllerEpoch(NamedTuple):
    """Leadership, and the epoch of the controller that decided it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
