"""The controller's watches in the store: each change becomes an event in its queue.

A part of the controller. Its thread registers and unregisters watches and owns the sets of watched topics, brokers and
partitions, so no lock. Watches fire on the store's watch thread, which only puts events.
Kafka: BrokerChangeHandler, TopicChangeHandler, PartitionModificationsHandler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.controller.controller_events import (
    BrokerModifications,
    ControllerEvent,
    ElectionTrigger,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ReplicaLeaderElection,
    Signal,
)
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.zk.store.store import WatchEventType
from barnabas.zk.znodes.broker_zk_data import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerZNode,
    LogDirEventNotificationZNode,
)
from barnabas.zk.znodes.topic_zk_data import (
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)
from barnabas.zk.znodes.znode_access import ZnodeAccess

ELECTION_FROM_STORE = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.STORE)


class StoreWatches:
    """The watches that turn changes in the store into events."""

    def __init__(self, access: ZnodeAccess, put_event: Callable[[ControllerEvent], None]) -> None:
        self._access = access
        self._put = put_event
        self._topics: set[str] = set()
        self._brokers: set[int] = set()
        self._partitions: set[TopicPartition] = set()

    def watch_controller(self) -> None:
        """Watch /controller: a new controller, or none."""
        self._access.register_change_handler_and_check_existence(ControllerZNode.path, self._on_controller)

    def watch_cluster(self) -> None:
        """Watch brokers, topics, deletions, in-sync replicas and log directories.

        The first reading arms these watches.
        """
        access, put = self._access, self._put
        access.register_child_change_handler(BrokerIdsZNode.path, lambda: put(Signal.BROKER_CHANGE))
        access.register_child_change_handler(TopicsZNode.path, lambda: put(Signal.TOPIC_CHANGE))
        access.register_child_change_handler(DeleteTopicsZNode.path, lambda: put(Signal.TOPIC_DELETION))
        access.register_child_change_handler(
            LogDirEventNotificationZNode.path, lambda: put(Signal.LOG_DIR_EVENT_NOTIFICATION)
        )
        access.register_child_change_handler(
            IsrChangeNotificationZNode.path, lambda: put(Signal.ISR_CHANGE_NOTIFICATION)
        )
        self.watch_preferred_replica_election()
        self.watch_reassignments()

    def watch_reassignments(self) -> bool:
        """Watch for the next reassignments in the store. Return whether there are some already."""
        return self._access.register_change_handler_and_check_existence(
            ReassignPartitionsZNode.path, self._on_reassignments
        )

    def watch_preferred_replica_election(self) -> bool:
        """Watch for the next election in the store. Return whether there is one already."""
        return self._access.register_change_handler_and_check_existence(
            PreferredReplicaElectionZNode.path, self._on_preferred_replica_election
        )

    def watch_topics(self, topics: Iterable[str]) -> None:
        """Watch for partitions that are added to topics. Reading their assignments arms the watches."""
        for topic in topics:
            self._topics.add(topic)
            self._access.register_change_handler(TopicZNode.path(topic), self._topic_handler(topic))

    def unwatch_topic(self, topic: str) -> None:
        """Stop watching a topic and its partitions."""
        self._topics.discard(topic)
        for partition in [watched for watched in self._partitions if watched.topic == topic]:
            self.unwatch_partition_state(partition)
        self._access.unregister_change_handler(TopicZNode.path(topic))

    def watch_brokers(self, broker_ids: Iterable[int]) -> None:
        """Watch for changes in the registrations of brokers."""
        for broker_id in broker_ids:
            self._brokers.add(broker_id)
            self._access.register_change_handler_and_check_existence(
                BrokerIdZNode.path(broker_id), self._broker_handler(broker_id)
            )

    def unwatch_brokers(self, broker_ids: Iterable[int]) -> None:
        """Stop watching brokers."""
        for broker_id in broker_ids:
            self._brokers.discard(broker_id)
            self._access.unregister_change_handler(BrokerIdZNode.path(broker_id))

    def watch_partition_state(self, partition: TopicPartition) -> None:
        """Watch the in-sync replicas of a partition that is being reassigned. Reading its state arms the watch."""
        if partition not in self._partitions:
            self._partitions.add(partition)
            self._access.register_change_handler(
                TopicPartitionStateZNode.path(partition), self._partition_handler(partition)
            )

    def unwatch_partition_state(self, partition: TopicPartition) -> None:
        """Stop watching the state of a partition."""
        self._partitions.discard(partition)
        self._access.unregister_change_handler(TopicPartitionStateZNode.path(partition))

    def unwatch_cluster(self) -> None:
        """Stop watching everything but /controller."""
        self._access.unregister_change_handler(PreferredReplicaElectionZNode.path)
        self._access.unregister_change_handler(ReassignPartitionsZNode.path)
        for path in (
            LogDirEventNotificationZNode.path,
            IsrChangeNotificationZNode.path,
            TopicsZNode.path,
            DeleteTopicsZNode.path,
            BrokerIdsZNode.path,
        ):
            self._access.unregister_child_change_handler(path)
        # Copies, since the calls change the sets.
        for topic in list(self._topics):
            self.unwatch_topic(topic)
        for partition in list(self._partitions):
            self.unwatch_partition_state(partition)
        self.unwatch_brokers(list(self._brokers))

    # -- on the watch thread

    def _on_controller(self, event: WatchEventType) -> None:
        self._put(Signal.REELECT if event is WatchEventType.DELETED else Signal.CONTROLLER_CHANGE)

    def _on_preferred_replica_election(self, event: WatchEventType) -> None:
        if event is WatchEventType.CREATED:
            self._put(ELECTION_FROM_STORE)

    def _on_reassignments(self, event: WatchEventType) -> None:
        if event is WatchEventType.CREATED:
            self._put(Signal.STORE_REASSIGNMENT)

    def _topic_handler(self, topic: str) -> Callable[[WatchEventType], None]:
        def on_change(event: WatchEventType) -> None:
            # The end of a topic is reported by the watch on the list of topics.
            if event is WatchEventType.DATA_CHANGED:
                self._put(PartitionModifications(topic))

        return on_change

    def _partition_handler(self, partition: TopicPartition) -> Callable[[WatchEventType], None]:
        def on_change(event: WatchEventType) -> None:
            if event is WatchEventType.DATA_CHANGED:
                self._put(PartitionReassignmentIsrChange(partition))

        return on_change

    def _broker_handler(self, broker_id: int) -> Callable[[WatchEventType], None]:
        def on_change(event: WatchEventType) -> None:
            if event is WatchEventType.DATA_CHANGED:
                self._put(BrokerModifications(broker_id))

        return on_change
