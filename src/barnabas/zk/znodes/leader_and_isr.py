"""The leader of a partition, its epoch, and the in-sync replicas: the value of a partition's state znode.

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
# The leader epoch of a StopReplica that deletes: no broker may fence it.
EPOCH_DURING_DELETE = -2


class LeaderRecoveryState(enum.IntEnum):
    """Whether the leader was elected uncleanly and is still recovering."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """The leadership of one partition. `partition_epoch` is the version of its state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = INITIAL_PARTITION_EPOCH

    @classmethod
    def initial(cls, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """Return the leadership of a new partition."""
        return cls(leader, INITIAL_LEADER_EPOCH, tuple(isr))

    @classmethod
    def during_delete(cls, isr: Sequence[int]) -> LeaderAndIsr:
        """Return the leadership that brokers are sent while a topic is deleted. Kafka: LeaderAndIsr.duringDelete."""
        return cls(LEADER_DURING_DELETE, INITIAL_LEADER_EPOCH, tuple(isr))

    def new_leader(self, leader: int) -> LeaderAndIsr:
        """Return the leadership of another leader in the next epoch, with the same in-sync replicas."""
        return self.new_leader_and_isr(leader, self.isr)

    def new_leader_and_isr(self, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """Return the leadership of another leader in the next epoch, with other in-sync replicas."""
        return self._replace(leader=leader, isr=tuple(isr), leader_epoch=self.leader_epoch + 1)

    def new_recovering_leader_and_isr(self, leader: int, isr: Sequence[int]) -> LeaderAndIsr:
        """Return the leadership, in the next epoch, of a leader that was not in sync and has to recover."""
        return self.new_leader_and_isr(leader, isr)._replace(leader_recovery_state=LeaderRecoveryState.RECOVERING)

    def new_epoch(self) -> LeaderAndIsr:
        """Return the same leadership in the next epoch."""
        return self.new_leader_and_isr(self.leader, self.isr)

    def with_partition_epoch(self, partition_epoch: int) -> LeaderAndIsr:
        """Return the same leadership as it is in that version of the znode."""
        return self._replace(partition_epoch=partition_epoch)


class LeaderIsrAndControllerEpoch(NamedTuple):
    """A leadership, and the epoch of the controller that decided it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
