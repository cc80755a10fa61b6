"""The settings of a controller, and its knowledge: brokers, topics, assignments, leaders, states, deletions.

The settings are made once by `broker`, and frozen. The context is owned by the controller's thread
(`controller-event`); no other thread reads or writes it, so no lock. Kafka: the part of KafkaConfig that
KafkaController reads, kafka.controller.ControllerContext.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from barnabas.config.setting import Settings, setting
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from barnabas.zk.znodes.topic_zk_data import (
    EPOCH_DURING_DELETE,
    NO_ASSIGNMENT,
    NO_EPOCH,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
)


def unclean_election_disabled() -> bool:
    """Return False, the default of `unclean.leader.election.enable`."""
    return False


class ElectionConfig(Settings):
    """The settings of an election, read for each one: they may change while the broker runs."""

    unclean_leader_election_enable: bool = setting("unclean.leader.election.enable")


class ControllerConfig(Settings):
    """The settings of a controller, named after Kafka's, and the values that the caller gives.

    broker_id: may have been generated. inter_broker_listener_name: where brokers find each other's leaders; may follow
    from the security protocol. unclean_leader_election_enable: as set when it is called.
    """

    broker_id: int
    inter_broker_listener_name: str
    delete_topic_enable: bool = setting("delete.topic.enable")
    unclean_leader_election_enable: Callable[[], bool] = unclean_election_disabled
    auto_leader_rebalance_enable: bool = setting("auto.leader.rebalance.enable")
    leader_imbalance_per_broker_percentage: int = setting("leader.imbalance.per.broker.percentage")
    leader_imbalance_check_interval_seconds: int = setting("leader.imbalance.check.interval.seconds")


class StateChangeFailed(Exception):
    """A partition or a replica cannot move to the requested state. Kafka: StateChangeFailedException."""

    @classmethod
    def written_by_newer(cls, epoch: int, newer_epoch: int) -> StateChangeFailed:
        """Return the failure of a controller that has been replaced and does not know it yet. Epochs: controllers'."""
        return cls(
            "Leader and isr path written by another controller. This probably means the current controller "
            f"with epoch {epoch} went through a soft failure and another controller was elected "
            f"with epoch {newer_epoch}. Aborting state change by this controller"
        )


class PartitionAndReplica(NamedTuple):
    """A replica: a partition, and the broker that holds a copy of it."""

    partition: TopicPartition
    replica: int


class ControllerContext:
    """The fields, with look-ups. `epoch` and `epoch_version` are those of /controller_epoch since the election."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0
        # With the brokers that are shutting down.
        self.live_brokers: dict[int, BrokerInfo] = {}
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down_broker_ids: set[int] = set()
        self.all_topics: set[str] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    def reset(self) -> None:
        """Forget everything: this broker is no longer the controller."""
        # The same object, since every part of the controller holds a reference to it.
        self.__init__()  # type: ignore[misc]

    # -- brokers

    def set_live_brokers(self, brokers: Mapping[int, tuple[BrokerInfo, int]]) -> None:
        """Replace the live brokers (registration and epoch by id)."""
        self.live_brokers.clear()
        self.broker_epochs.clear()
        self.add_live_brokers(brokers)

    def add_live_brokers(self, brokers: Mapping[int, tuple[BrokerInfo, int]]) -> None:
        """Add brokers that came up (registration and epoch by id)."""
        for broker_id, (info, epoch) in brokers.items():
            self.live_brokers[broker_id] = info
            self.broker_epochs[broker_id] = epoch

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        """Remove brokers that went away."""
        for broker_id in broker_ids:
            self.live_brokers.pop(broker_id, None)
            self.broker_epochs.pop(broker_id, None)

    @property
    def live_broker_ids(self) -> set[int]:
        """The brokers that are up and not shutting down."""
        return set(self.live_brokers) - self.shutting_down_broker_ids

    def is_live_broker(self, broker_id: int) -> bool:
        """Return whether a broker is up and not shutting down."""
        return broker_id in self.live_brokers and broker_id not in self.shutting_down_broker_ids

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down_brokers: bool = False
    ) -> bool:
        """Return whether the broker of a replica is up and the replica's log directory works."""
        up = broker_id in self.live_brokers if include_shutting_down_brokers else self.is_live_broker(broker_id)
        return up and partition not in self.replicas_on_offline_dirs.get(broker_id, ())

    # -- topics and assignments

    def add_topic_id(self, topic: str, topic_id: bytes) -> None:
        """Note the id of a topic. Raises StateChangeFailed: the topic has another id, or another topic has this one."""
        known_id, known_name = self.topic_ids.get(topic), self.topic_names.get(topic_id)
        if known_id not in (None, topic_id):
            raise StateChangeFailed(
                f"topic ID map already contained ID for topic {topic} and new ID {topic_id.hex()} did not match "
                f"existing ID {known_id and known_id.hex()}"
            )
        if known_name not in (None, topic):
            raise StateChangeFailed(
                f"topic name map already contained ID {topic_id.hex()} and new name {topic} did not match existing "
                f"name {known_name}"
            )
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the assignment of a partition, an empty one for an unknown partition."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, NO_ASSIGNMENT)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the brokers that a partition is assigned to."""
        return self.assignment(partition).replicas

    def update_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Replace the assignment of a partition."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def assignment_of_topic(self, topic: str) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignments of all partitions of a topic."""
        return {TopicPartition(topic, p): assignment for p, assignment in self.assignments.get(topic, {}).items()}

    def partitions_of_topic(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return [TopicPartition(topic, partition) for partition in self.assignments.get(topic, {})]

    @property
    def all_partitions(self) -> list[TopicPartition]:
        """The partitions of all topics."""
        return [TopicPartition(topic, p) for topic, partitions in self.assignments.items() for p in partitions]

    def replicas_of_topic(self, topic: str) -> list[PartitionAndReplica]:
        """Return all replicas of a topic."""
        return self.replicas_of_partitions(self.partitions_of_topic(topic))

    def replicas_of_partitions(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        """Return all replicas of these partitions."""
        return [PartitionAndReplica(tp, replica) for tp in partitions for replica in self.replicas(tp)]

    def partitions_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that are assigned to a broker."""
        return [tp for tp in self.all_partitions if broker_id in self.replicas(tp)]

    def replicas_on_brokers(self, broker_ids: Collection[int]) -> list[PartitionAndReplica]:
        """Return all replicas on these brokers."""
        return [pr for pr in self.replicas_of_partitions(self.all_partitions) if pr.replica in broker_ids]

    def online_and_offline_replicas(self) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
        """Return the replicas that are online, and those that are not."""
        online: list[PartitionAndReplica] = []
        offline: list[PartitionAndReplica] = []
        for replica in self.replicas_of_partitions(self.all_partitions):
            (online if self.is_replica_online(replica.replica, replica.partition) else offline).append(replica)
        return online, offline

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)
        self.all_topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for partition, assignment in self.assignments.pop(topic, {}).items():
            tp = TopicPartition(topic, partition)
            self.partitions_being_reassigned.discard(tp)
            self.leadership.pop(tp, None)
            self.partition_states.pop(tp, None)
            for replica in assignment.replicas:
                self.replica_states.pop(PartitionAndReplica(tp, replica), None)

    # -- leadership

    def leader_epoch_to_stop(self, partition: TopicPartition) -> int:
        """Return the epoch for a StopReplica.

        It is -2 if the topic is to be deleted, which no broker may fence, and -1 if the epoch is unknown.
        """
        if self.is_topic_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        known = self.leadership.get(partition)
        return NO_EPOCH if known is None else known.leader_and_isr.leader_epoch

    @property
    def partitions_with_leaders(self) -> list[TopicPartition]:
        """The partitions whose leadership is known, of topics that are not to be deleted."""
        return [tp for tp in self.leadership if not self.is_topic_queued_for_deletion(tp.topic)]

    @property
    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """The partitions with a known leadership whose leader is down."""
        return [
            tp
            for tp in self.partitions_with_leaders
            if not self.is_replica_online(self.leadership[tp].leader_and_isr.leader, tp)
        ]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions with several replicas that a broker leads."""
        return [
            tp
            for tp in self.partitions_with_leaders
            if self.leadership[tp].leader_and_isr.leader == broker_id and len(self.replicas(tp)) > 1
        ]

    # -- states

    def partitions_in_states(
        self, states: Collection[PartitionState], topic: str | None = None
    ) -> list[TopicPartition]:
        """Return the partitions (of a topic) in one of these states."""
        if topic is not None:
            return [tp for tp in self.partitions_of_topic(topic) if self.partition_states.get(tp) in states]
        return [tp for tp, state in self.partition_states.items() if state in states]

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        """Return the replicas of a topic in a state."""
        return [pr for pr in self.replicas_of_topic(topic) if self.replica_states.get(pr) is state]

    def are_all_replicas_in_state(self, topic: str, state: ReplicaState) -> bool:
        """Return whether all replicas of a topic are in a state; True without replicas."""
        return all(self.replica_states.get(pr) is state for pr in self.replicas_of_topic(topic))

    def is_any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        """Return whether any replica of a topic is in a state."""
        return any(self.replica_states.get(pr) is state for pr in self.replicas_of_topic(topic))

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Return whether a topic is to be deleted."""
        return topic in self.topics_to_be_deleted

    def is_topic_deletion_in_progress(self, topic: str) -> bool:
        """Return whether the deletion of a topic has begun."""
        return topic in self.topics_with_deletion_started
