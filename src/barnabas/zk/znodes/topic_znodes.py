"""Topics and partitions in the store: assignments, topic ids, leaders, deletions, preferred elections.

A part of `KafkaZkClient` (its attribute `topics`), used by metadata and controller on any thread; stateless, so no
lock. Kafka: the topic half of kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.store.errors import BadVersionError, NodeExistsError, NoNodeError, StoreError
from barnabas.zk.store.store import ANY_VERSION, Create, Created, NodeData, SetData, Stat, value_of
from barnabas.zk.znodes.config_znodes import ConfigEntityType, ConfigEntityZNode
from barnabas.zk.znodes.topic_zk_data import (
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.znodes.znode_access import ZnodeAccess
from barnabas.zk.znodes.znode_json import understood


class UpdateLeaderAndIsrResult(NamedTuple):
    """The result of a write of several partition states.

    finished: the state as written, with its partition epoch, or the error. to_retry: partitions whose state was written
    by another broker in between.
    """

    finished: dict[TopicPartition, LeaderAndIsr | Exception]
    to_retry: list[TopicPartition]


class TopicZnodes:
    """The topics, by Kafka's calls. A read of a path with a handler sets the watch again (ZnodeAccess)."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access

    # -- topics

    def all_topics(self) -> set[str]:
        """Return the names of all topics, those being deleted included. Sets the watch on /brokers/topics."""
        return set(self._access.children(TopicsZNode.path))

    def exists(self, topic: str) -> bool:
        """Return whether the topic exists (or is being deleted)."""
        return self._access.exists(TopicZNode.path(topic))

    def assignments(self, topics: Iterable[str]) -> list[TopicIdReplicaAssignment]:
        """Return the ids and assignments of those of `topics` that exist and can be understood.

        Sets the watches of their handlers.
        """
        names = sorted(topics)
        nodes = self._access.get_many([TopicZNode.path(topic) for topic in names])
        found = (
            understood(TopicZNode.path(topic), partial(_assignment_of, topic, node))
            for topic, node in zip(names, nodes, strict=True)
            if node is not None
        )
        return [assignment for assignment in found if assignment is not None]

    def create(
        self, topic: str, topic_id: bytes, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
    ) -> None:
        """Create a topic: first its settings, then its assignment, in one batch.

        Raises NodeExistsError: the topic exists, or another StoreError. Kafka: AdminZkClient.createTopicWithAssignment
        (setOrCreateEntityConfigs, createTopicAssignment).
        """
        config_path = ConfigEntityZNode.path(ConfigEntityType.TOPIC, topic)
        config_data = ConfigEntityZNode.encode(config)
        replicas = {TopicPartition(topic, p): ReplicaAssignment(tuple(r)) for p, r in assignment.items()}
        set_config, create_config, created = self._access.store.batch(
            [
                SetData(config_path, config_data),
                Create(config_path, config_data),
                Create(TopicZNode.path(topic), TopicZNode.encode(topic_id, replicas)),
            ]
        )
        # Exactly one of the first two succeeds: the second fails with NodeExists after the first has succeeded.
        if isinstance(set_config, StoreError) and isinstance(create_config, StoreError):
            raise create_config
        value_of(created, Created)

    def set_assignment(
        self,
        topic: str,
        topic_id: bytes | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        expected_controller_epoch_version: int = ANY_VERSION,
        *,
        expected_version: int = ANY_VERSION,
    ) -> None:
        """Replace the assignment of a topic, if its version is still the expected one.

        Raises NoNodeError: the topic does not exist. Raises BadVersionError: another write came first. Raises
        ControllerMovedError: the write was fenced.
        """
        operation = SetData(TopicZNode.path(topic), TopicZNode.encode(topic_id, assignment), expected_version)
        value_of(self._access.fenced([operation], expected_controller_epoch_version)[0], Stat)

    def set_topic_ids(
        self, topics: Iterable[TopicIdReplicaAssignment], expected_controller_epoch_version: int
    ) -> list[TopicIdReplicaAssignment]:
        """Give topics that were made before Kafka 2.8 their ids. Fenced."""
        identified = [TopicIdReplicaAssignment(topic.topic, random_uuid(), topic.assignment) for topic in topics]
        operations = [
            SetData(TopicZNode.path(topic.topic), TopicZNode.encode(topic.topic_id, topic.assignment))
            for topic in identified
        ]
        for outcome in self._access.fenced(operations, expected_controller_epoch_version) if operations else []:
            value_of(outcome, Stat)
        return identified

    def partition_names(self, topic: str) -> set[str]:
        """Return the partitions of a topic that have a znode, as text."""
        return set(self._access.children(TopicPartitionsZNode.path(topic)))

    def delete(self, topic: str, expected_controller_epoch_version: int) -> None:
        """Remove everything of a deleted topic: its znodes, its settings, the request to delete it. Fenced."""
        self._access.delete_recursive(TopicZNode.path(topic), expected_controller_epoch_version)
        config_parent, _, name = ConfigEntityZNode.path(ConfigEntityType.TOPIC, topic).rpartition("/")
        self._access.delete_children(config_parent, [name], expected_controller_epoch_version)
        # Last: after a crash in between, the next controller finds the request and completes the deletion.
        self.remove_deletions([topic], expected_controller_epoch_version)

    # -- requests

    def request_deletion(self, topic: str) -> None:
        """Ask the controller to delete a topic. Raises NodeExistsError: that was asked before."""
        self._access.create_recursive(DeleteTopicsTopicZNode.path(topic))

    def is_marked_for_deletion(self, topic: str) -> bool:
        """Return whether the topic is to be deleted."""
        return self._access.exists(DeleteTopicsTopicZNode.path(topic))

    def deletions(self) -> set[str]:
        """Return the topics to be deleted. Sets the watch on /admin/delete_topics."""
        return set(self._access.children(DeleteTopicsZNode.path))

    def remove_deletions(self, topics: Collection[str], expected_controller_epoch_version: int) -> None:
        """Withdraw requests to delete topics. Fenced."""
        self._access.delete_children(DeleteTopicsZNode.path, sorted(topics), expected_controller_epoch_version)

    def preferred_replica_election(self) -> set[TopicPartition]:
        """Return the partitions whose preferred replicas are to be elected; none if the data have another form."""
        path = PreferredReplicaElectionZNode.path
        node = self._access.get(path)
        wanted = None if node is None else understood(path, partial(PreferredReplicaElectionZNode.decode, node.data))
        return set() if wanted is None else wanted

    def delete_preferred_replica_election(self, expected_controller_epoch_version: int) -> None:
        """Remove the request for the election, which is done. Fenced."""
        parent, _, name = PreferredReplicaElectionZNode.path.rpartition("/")
        self._access.delete_children(parent, [name], expected_controller_epoch_version)

    def reassignment_targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the partitions that the store asks to move, and where to. Raises ZnodeFormatError."""
        node = self._access.get(ReassignPartitionsZNode.path)
        return {} if node is None else ReassignPartitionsZNode.decode(node.data)

    def replace_reassignment_targets(
        self, targets: Mapping[TopicPartition, Sequence[int]], expected_controller_epoch_version: int
    ) -> None:
        """Write what is still to be moved; nothing removes the znode. Fenced. Raises NoNodeError: it is gone."""
        if not targets:
            parent, _, name = ReassignPartitionsZNode.path.rpartition("/")
            self._access.delete_children(parent, [name], expected_controller_epoch_version)
            return
        operation = SetData(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(targets))
        value_of(self._access.fenced([operation], expected_controller_epoch_version)[0], Stat)

    # -- partition states

    def partition_states(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Return the states of those of `partitions` that have one that can be understood."""
        ordered = list(partitions)
        paths = [TopicPartitionStateZNode.path(partition) for partition in ordered]
        states = {
            partition: understood(path, partial(TopicPartitionStateZNode.decode, node.data, node.stat.version))
            for partition, path, node in zip(ordered, paths, self._access.get_many(paths), strict=True)
            if node is not None
        }
        return {partition: state for partition, state in states.items() if state is not None}

    def create_partition_states(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch], expected_controller_epoch_version: int
    ) -> dict[TopicPartition, StoreError | None]:
        """Write the first state of partitions, with the znodes above it, in one fenced batch.

        Returns None for partitions that were written, else the error (NodeExistsError: the partition has a state).
        Raises ControllerMovedError: the batch was fenced.
        Kafka: createTopicPartitionStatesRaw, which takes three round trips.
        """
        parents = [
            *(Create(TopicPartitionsZNode.path(topic)) for topic in dict.fromkeys(tp.topic for tp in states)),
            *(Create(TopicPartitionZNode.path(tp)) for tp in states),
        ]
        leaves = [
            Create(TopicPartitionStateZNode.path(tp), TopicPartitionStateZNode.encode(state))
            for tp, state in states.items()
        ]
        outcomes = self._access.fenced([*parents, *leaves], expected_controller_epoch_version)
        for outcome in outcomes[: len(parents)]:
            # The topic is gone: the creation of the state below fails too, and is reported by partition.
            if isinstance(outcome, StoreError) and not isinstance(outcome, (NodeExistsError, NoNodeError)):
                raise outcome
        return {
            tp: outcome if isinstance(outcome, StoreError) else None
            for tp, outcome in zip(states, outcomes[len(parents) :], strict=True)
        }

    def update_leader_and_isr(
        self,
        leaderships: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        expected_controller_epoch_version: int,
    ) -> UpdateLeaderAndIsrResult:
        """Write states of partitions, each only if its version is the leadership's partition epoch. Fenced.

        Raises ControllerMovedError: the writes were fenced. Kafka: updateLeaderAndIsr.
        """
        if not leaderships:
            return UpdateLeaderAndIsrResult({}, [])
        operations = [
            SetData(
                TopicPartitionStateZNode.path(tp),
                TopicPartitionStateZNode.encode(LeaderIsrAndControllerEpoch(leadership, controller_epoch)),
                leadership.partition_epoch,
            )
            for tp, leadership in leaderships.items()
        ]
        outcomes = self._access.fenced(operations, expected_controller_epoch_version)
        finished: dict[TopicPartition, LeaderAndIsr | Exception] = {}
        to_retry: list[TopicPartition] = []
        for (tp, leadership), outcome in zip(leaderships.items(), outcomes, strict=True):
            if isinstance(outcome, BadVersionError):
                to_retry.append(tp)
            elif isinstance(outcome, StoreError):
                finished[tp] = outcome
            else:
                finished[tp] = leadership.with_partition_epoch(value_of(outcome, Stat).version)
        return UpdateLeaderAndIsrResult(finished, to_retry)

    def update_partition_states(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> dict[TopicPartition, int | StoreError]:
        """Write states as a partition's leader does: each only if its version is the state's partition epoch.

        Returns the new version, or the error (BadVersionError, NoNodeError). A write that was applied although its
        answer was lost counts as written, since the store has the wanted state.
        Kafka: ReplicationUtils.updateLeaderAndIsr.
        """
        operations = [
            SetData(
                TopicPartitionStateZNode.path(tp),
                TopicPartitionStateZNode.encode(state),
                state.leader_and_isr.partition_epoch,
            )
            for tp, state in states.items()
        ]
        outcomes: dict[TopicPartition, int | StoreError] = {}
        for tp, outcome in zip(states, self._access.store.batch(operations), strict=True):
            outcomes[tp] = outcome if isinstance(outcome, StoreError) else value_of(outcome, Stat).version
        raced = [tp for tp, outcome in outcomes.items() if isinstance(outcome, BadVersionError)]
        for tp, found in self.partition_states(raced).items() if raced else ():
            version = found.leader_and_isr.partition_epoch
            wanted = states[tp]
            if found == wanted._replace(leader_and_isr=wanted.leader_and_isr.with_partition_epoch(version)):
                outcomes[tp] = version
        return outcomes


def _assignment_of(topic: str, node: NodeData) -> TopicIdReplicaAssignment:
    return TopicZNode.decode(topic, node.data)._replace(version=node.stat.version)
