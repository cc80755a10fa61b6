"""The znodes of topics and partitions: where each is kept and what its JSON looks like, version by version.

Written as Apache Kafka 3.9 writes them, as `broker_zk_data` says; partitions stand in the order of their numbers. Used
by `topic_znodes` on any thread; stateless, so no lock.

Kafka: kafka.zk.ZkData, one object a znode, same names; kafka.api.LeaderAndIsr, kafka.controller's
LeaderIsrAndControllerEpoch and ReplicaAssignment.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import uuid_from_string, uuid_to_string
from barnabas.zk.znodes.znode_json import decode_json, encode_json, partitions_json, partitions_of, reading_fields

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
    """The leader of a partition, its epoch, and the in-sync replicas: the value of a partition's state znode.

    `partition_epoch` is the version of that znode. Immutable; used by zk and controller on any thread.
    """

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


def _without(replicas: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    unwanted = set(others)
    return tuple(replica for replica in replicas if replica not in unwanted)


class ReplicaAssignment(NamedTuple):
    """The brokers that hold a partition, the preferred leader first. Immutable; used by zk, metadata and controller.

    `replicas` includes those being added and those being removed.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return _without(self.replicas, self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return _without(self.replicas, self.removing_replicas)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """Return the assignment while this one moves to `target`. A reassignment in progress is replaced."""
        replicas = tuple(dict.fromkeys((*target, *self.origin_replicas)))
        return ReplicaAssignment(replicas, _without(replicas, self.origin_replicas), _without(replicas, target))

    def remove_replica(self, replica: int) -> ReplicaAssignment:
        """Return the assignment without `replica`."""
        return ReplicaAssignment(
            _without(self.replicas, (replica,)),
            _without(self.adding_replicas, (replica,)),
            _without(self.removing_replicas, (replica,)),
        )


NO_ASSIGNMENT = ReplicaAssignment(())


class TopicsZNode:
    """The parent of all topics."""

    path = "/brokers/topics"


class TopicIdReplicaAssignment(NamedTuple):
    """The znode of a topic. topic_id: None for topics made before Kafka 2.8. version: of the znode, -1 if unknown."""

    topic: str
    topic_id: bytes | None
    assignment: Mapping[TopicPartition, ReplicaAssignment]
    version: int = -1


class TopicZNode:
    """A topic: its id and the assignment of its partitions."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of a topic."""
        return f"{TopicsZNode.path}/{topic}"

    @staticmethod
    def encode(topic_id: bytes | None, assignment: Mapping[TopicPartition, ReplicaAssignment]) -> bytes:
        """Return version 3."""
        ordered = sorted(assignment.items(), key=lambda item: item[0].partition)
        value: dict[str, object] = {"partitions": {str(tp.partition): a.replicas for tp, a in ordered}}
        if topic_id is not None:
            value["topic_id"] = uuid_to_string(topic_id)
        value["adding_replicas"] = {str(tp.partition): a.adding_replicas for tp, a in ordered if a.adding_replicas}
        value["removing_replicas"] = {
            str(tp.partition): a.removing_replicas for tp, a in ordered if a.removing_replicas
        }
        value["version"] = 3
        return encode_json(value)

    @staticmethod
    def decode(topic: str, data: bytes) -> TopicIdReplicaAssignment:
        """Read versions 1 to 3. Raises ZnodeFormatError: the data have another form."""
        what = f"the assignment of topic {topic}"
        with reading_fields(data, what):
            return TopicZNode._decode(topic, decode_json(data, what))

    @staticmethod
    def _decode(topic: str, value: Mapping[str, Any]) -> TopicIdReplicaAssignment:
        # Version 2 adds the replicas that a reassignment adds and removes (KIP-455), version 3 the topic id (KIP-516).
        if int(value.get("version", 1)) not in (1, 2, 3):
            raise ValueError(value["version"])
        adding, removing = value.get("adding_replicas") or {}, value.get("removing_replicas") or {}
        topic_id = value.get("topic_id")
        assignment = {
            TopicPartition(topic, int(partition)): ReplicaAssignment(
                tuple(map(int, replicas)), tuple(adding.get(partition, ())), tuple(removing.get(partition, ()))
            )
            for partition, replicas in (value.get("partitions") or {}).items()
        }
        return TopicIdReplicaAssignment(topic, None if topic_id is None else uuid_from_string(topic_id), assignment)


class TopicPartitionsZNode:
    """The parent of the partitions of a topic that have, or had, a leader."""

    @staticmethod
    def path(topic: str) -> str:
        """Return its path."""
        return f"{TopicZNode.path(topic)}/partitions"


class TopicPartitionZNode:
    """A partition: the parent of its state."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Return the path of a partition."""
        return f"{TopicPartitionsZNode.path(partition.topic)}/{partition.partition}"


class TopicPartitionStateZNode:
    """A partition's leader and in-sync replicas. Its version is the partition epoch."""

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Return the path of a partition's state."""
        return f"{TopicPartitionZNode.path(partition)}/state"

    @staticmethod
    def encode(state: LeaderIsrAndControllerEpoch) -> bytes:
        """Return version 1."""
        leadership = state.leader_and_isr
        value: dict[str, object] = {
            "controller_epoch": state.controller_epoch,
            "leader": leadership.leader,
            "version": 1,
            "leader_epoch": leadership.leader_epoch,
            "isr": leadership.isr,
        }
        # Written only while the leader recovers, as by Kafka (KIP-704).
        if leadership.leader_recovery_state is not LeaderRecoveryState.RECOVERED:
            value["leader_recovery_state"] = int(leadership.leader_recovery_state)
        return encode_json(value)

    @staticmethod
    def decode(data: bytes, version: int) -> LeaderIsrAndControllerEpoch:
        """Read a state. version: that of the znode, which is the partition epoch. Raises ZnodeFormatError."""
        what = "the state of a partition"
        with reading_fields(data, what):
            value = decode_json(data, what)
            if int(value.get("version", 1)) != 1:
                raise ValueError(value["version"])
            leadership = LeaderAndIsr(
                int(value["leader"]),
                int(value["leader_epoch"]),
                tuple(map(int, value["isr"])),
                LeaderRecoveryState(value.get("leader_recovery_state", 0)),
                version,
            )
            return LeaderIsrAndControllerEpoch(leadership, int(value["controller_epoch"]))


class IsrChangeNotificationZNode:
    """The parent of notices that leaders changed in-sync replicas by themselves (before Kafka 2.7)."""

    path = "/isr_change_notification"
    prefix = "isr_change_"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Return version 1."""
        return encode_json({"version": 1, "partitions": partitions_json(partitions)})

    @staticmethod
    def decode(data: bytes) -> set[TopicPartition]:
        """Return the partitions whose state is to be read again. Raises ZnodeFormatError."""
        what = "a notice of changed in-sync replicas"
        with reading_fields(data, what):
            return partitions_of(decode_json(data, what))


class DeleteTopicsZNode:
    """The parent of topics to be deleted."""

    path = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """A topic to be deleted; no data."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of the request to delete a topic."""
        return f"{DeleteTopicsZNode.path}/{topic}"


class PreferredReplicaElectionZNode:
    """The partitions to be led by their preferred replicas: the way before the ElectLeaders API."""

    path = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Collection[TopicPartition]) -> bytes:
        """Return version 1."""
        return encode_json({"version": 1, "partitions": partitions_json(partitions)})

    @staticmethod
    def decode(data: bytes) -> set[TopicPartition]:
        """Return the partitions. Raises ZnodeFormatError: the data have another form."""
        what = "a preferred replica election"
        with reading_fields(data, what):
            return partitions_of(decode_json(data, what))


class ReassignPartitionsZNode:
    """The partitions to be moved, and where to: the way before the AlterPartitionReassignments API."""

    path = "/admin/reassign_partitions"

    @staticmethod
    def encode(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
        """Return version 1."""
        partitions = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(targets[tp])} for tp in sorted(targets)
        ]
        return encode_json({"version": 1, "partitions": partitions})

    @staticmethod
    def decode(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the target replicas by partition. Raises ZnodeFormatError: the data have another form."""
        what = "a reassignment of partitions"
        with reading_fields(data, what):
            return {
                TopicPartition(str(item["topic"]), int(item["partition"])): tuple(map(int, item["replicas"]))
                for item in decode_json(data, what)["partitions"]
            }
