"""The controller's reaction to brokers, topics and partitions that appear, change or disappear.

A part of the controller, on its thread, so no lock; called only while this broker is the controller.
Kafka: KafkaController.processBrokerChange, processTopicChange, processPartitionModifications, processTopicDeletion.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.controller import controller_events as events
from barnabas.controller.controller_context import PartitionAndReplica
from barnabas.controller.controller_environment import ControllerEnvironment, StateMachines
from barnabas.controller.election import ElectionStrategy
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.controller.topic_deletion_manager import TopicDeletionManager
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.lazy import Lazy
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, TopicIdReplicaAssignment

if TYPE_CHECKING:
    from barnabas.controller.partition_reassignments import PartitionReassignments

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")


class ClusterChanges:
    """The handlers of events about brokers and topics, with the parts for deletions and reassignments."""

    def __init__(self, environment: ControllerEnvironment, machines: StateMachines) -> None:
        self._config = environment.config
        self._context = environment.context
        self._zk = environment.zk_client
        self._watches = environment.watches
        self._channels = environment.channels
        self._batch = machines.batch
        self._replicas = machines.replicas
        self._partitions = machines.partitions
        self.deletions = TopicDeletionManager(environment, machines, self._send_to_all_brokers)

        def new_reassignments() -> PartitionReassignments:
            from barnabas.controller.partition_reassignments import PartitionReassignments  # noqa: PLC0415

            return PartitionReassignments(environment, machines, self.deletions, self._send_to_all_brokers)

        self._reassignments = Lazy(new_reassignments)

    @property
    def reassignments(self) -> PartitionReassignments:
        """The part for reassignments: imported with the first one."""
        return self._reassignments()

    def begin_reassignments_in_store(self) -> set[TopicPartition]:
        """Watch the reassignments that the store asks for, and begin those. Return the partitions that move."""
        return self.reassignments.begin_those_in_store() if self._watches.watch_reassignments() else set()

    def resume_reassignments(
        self, brokers: Collection[int] | None = None, *, except_for: Collection[TopicPartition] = frozenset()
    ) -> None:
        """Continue the reassignments that are in progress, as `PartitionReassignments.resume`."""
        if self._context.partitions_being_reassigned:
            self.reassignments.resume(brokers, except_for=except_for)

    def on_isr_changed(self, partition: TopicPartition) -> None:
        """Check the reassignment of a partition whose in-sync replicas changed: it may be complete."""
        if partition in self._context.partitions_being_reassigned:
            self.reassignments.on_isr_changed(partition)

    def initialize_context(self) -> None:
        """Read brokers, topics and leaders after winning an election, and open the channels to the brokers."""
        context = self._context
        context.set_live_brokers(self._zk.brokers_and_epochs())
        context.all_topics = self._zk.topics.all_topics()
        # Before the assignments are read, which arms these watches.
        self._watches.watch_topics(context.all_topics)
        self._add_assignments(self._zk.topics.assignments(context.all_topics))
        self._watches.watch_brokers(context.live_brokers)
        context.leadership = self._zk.topics.partition_states(context.all_partitions)
        self._channels.startup(context.live_brokers, context.broker_epochs)

    def topics_ineligible_for_deletion(self) -> set[str]:
        """Return the topics that cannot be deleted yet: a replica is offline, or a partition is being reassigned."""
        _, offline = self._context.online_and_offline_replicas()
        reassigned = {partition.topic for partition in self._context.partitions_being_reassigned}
        return reassigned | {replica.partition.topic for replica in offline}

    def send_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send brokers the live brokers and the metadata of partitions."""
        self._batch.new_batch()
        self._batch.add_update_metadata(broker_ids, partitions)
        self._batch.send()

    def _send_to_all_brokers(self, partitions: Iterable[TopicPartition]) -> None:
        self.send_update_metadata(self._context.live_brokers, partitions)

    # -- brokers

    def on_broker_change(self, _event: events.Signal) -> None:
        """Handle brokers that appeared, disappeared, or were restarted between two looks (another broker epoch)."""
        current = self._zk.brokers_and_epochs()
        known = self._context.broker_epochs
        new = {broker_id: current[broker_id] for broker_id in current if broker_id not in known}
        dead = [broker_id for broker_id in known if broker_id not in current]
        # KIP-380: a higher epoch means that the broker restarted between two looks, and has lost all earlier orders.
        bounced = {
            broker_id: current[broker_id]
            for broker_id in current
            if broker_id in known and current[broker_id][1] > known[broker_id]
        }
        if not new and not dead and not bounced:
            return
        logger.info(
            "Newly added brokers: %s, deleted brokers: %s, bounced brokers: %s, all live brokers: %s",
            sorted(new),
            sorted(dead),
            sorted(bounced),
            sorted(current),
        )
        # A bounced broker gets a new channel: the queue of the old one has orders for the broker's earlier run.
        for broker_id in (*bounced, *dead):
            self._channels.remove_broker(broker_id)
        for broker, broker_epoch in (*new.values(), *bounced.values()):
            self._channels.add_broker(broker, broker_epoch)
        if new:
            self._context.add_live_brokers(new)
            self._on_broker_startup(sorted(new))
        if bounced:
            self._replace(bounced)
        if dead:
            self._context.remove_live_brokers(dead)
            self._on_broker_failure(sorted(dead))

    def _on_broker_startup(self, broker_ids: Collection[int]) -> None:
        """Announce new brokers to all, send the new ones everything, then elect leaders where the new ones can lead."""
        for broker_id in broker_ids:
            self._context.replicas_on_offline_dirs.pop(broker_id, None)
        existing = [broker_id for broker_id in self._context.live_brokers if broker_id not in broker_ids]
        self.send_update_metadata(existing, ())
        self.send_update_metadata(broker_ids, self._context.partitions_with_leaders)
        replicas = self._context.replicas_on_brokers(broker_ids)
        self._replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        self._partitions.trigger_online_partition_state_change()
        self.resume_reassignments(broker_ids)
        self.deletions.resume_deletion_for_topics({replica.partition.topic for replica in replicas})
        self._watches.watch_brokers(broker_ids)

    def _on_broker_failure(self, broker_ids: Collection[int]) -> None:
        for broker_id in broker_ids:
            self._context.replicas_on_offline_dirs.pop(broker_id, None)
        self._context.shutting_down_broker_ids -= set(broker_ids)
        self._on_replicas_become_offline(self._context.replicas_on_brokers(broker_ids))
        self._watches.unwatch_brokers(broker_ids)

    def take_back(self, broker_id: int) -> None:
        """Give a broker that could not be reached for a while its replicas again, over a new channel."""
        broker = {broker_id: (self._context.live_brokers[broker_id], self._context.broker_epochs[broker_id])}
        self._channels.remove_broker(broker_id)
        self._channels.add_broker(*broker[broker_id])
        self._replace(broker)

    def _replace(self, brokers: Mapping[int, tuple[BrokerInfo, int]]) -> None:
        """Handle the death and the start of brokers (registration and epoch by id) that run."""
        self._context.remove_live_brokers(brokers)
        self._on_broker_failure(sorted(brokers))
        self._context.add_live_brokers(brokers)
        self._on_broker_startup(sorted(brokers))

    def on_broker_modifications(self, event: events.BrokerModifications) -> None:
        """Announce the changed endpoints or features of a broker."""
        new, old = self._zk.broker(event.broker_id), self._context.live_brokers.get(event.broker_id)
        if new is None or old is None or (new.endpoints, new.features) == (old.endpoints, old.features):
            return
        logger.info("Updated broker metadata: %s -> %s", old, new)
        self._context.live_brokers[event.broker_id] = new
        self._send_to_all_brokers(())

    def on_log_dir_event_notification(self, _event: events.Signal) -> None:
        """Handle failed log directories: send LeaderAndIsr, whose answer names the offline replicas."""
        names = self._zk.log_dir_event_notifications()
        try:
            broker_ids = set(self._zk.brokers_of_log_dir_events(names))
            if broker_ids:
                logger.info("Handling log directory failure for brokers %s", sorted(broker_ids))
                replicas = self._context.replicas_on_brokers(broker_ids)
                self._replicas.handle_state_changes(replicas, ReplicaState.ONLINE)
        finally:
            self._zk.delete_log_dir_event_notifications(names, self._context.epoch_version)

    def _on_replicas_become_offline(self, replicas: Collection[PartitionAndReplica]) -> None:
        to_be_deleted = [r for r in replicas if self.deletions.is_topic_queued_for_deletion(r.partition.topic)]
        staying = [r for r in replicas if not self.deletions.is_topic_queued_for_deletion(r.partition.topic)]
        self._partitions.handle_state_changes(self._context.partitions_with_offline_leader, PartitionState.OFFLINE)
        outcomes = self._partitions.trigger_online_partition_state_change()
        self._replicas.handle_state_changes(staying, ReplicaState.OFFLINE)
        self.deletions.fail_replica_deletion(to_be_deleted)
        # No request was sent above that would have carried the new live brokers.
        if not staying and not any(isinstance(outcome, LeaderAndIsr) for outcome in outcomes.values()):
            self._send_to_all_brokers(())

    # -- topics

    def on_topic_change(self, _event: events.Signal) -> None:
        """Handle topics that were created, or removed from the store by another program."""
        topics = self._zk.topics.all_topics()
        new, deleted = topics - self._context.all_topics, self._context.all_topics - topics
        self._context.all_topics = topics
        # Before the assignments are read, which arms these watches.
        self._watches.watch_topics(new)
        for topic in deleted:
            self._watches.unwatch_topic(topic)
            self._context.remove_topic(topic)
        if new:
            added = self._add_assignments(self._zk.topics.assignments(new))
            logger.info("New topics: %s, deleted topics: %s", sorted(new), sorted(deleted))
            self._on_new_partition_creation(added)

    def on_partition_modifications(self, event: events.PartitionModifications) -> None:
        """Handle partitions that were added to a topic. For a topic that is being deleted they are removed again."""
        found = self._zk.topics.assignments([event.topic])
        assignment = found[0].assignment if found else {}
        added = {tp: replicas for tp, replicas in assignment.items() if not self._context.replicas(tp)}
        if not added:
            return
        if self.deletions.is_topic_queued_for_deletion(event.topic):
            logger.warning(
                "Skipping adding partitions %s for topic %s since it is currently being deleted",
                sorted(tp.partition for tp in added),
                event.topic,
            )
            # Written back as before: a topic that grew during its deletion would never be deleted completely.
            self._zk.topics.set_assignment(
                event.topic,
                self._context.topic_ids.get(event.topic),
                self._context.assignment_of_topic(event.topic),
                self._context.epoch_version,
            )
            return
        logger.info("New partitions to be added %s", sorted(added))
        for partition, replicas in added.items():
            self._context.update_assignment(partition, replicas)
        self._on_new_partition_creation(sorted(added))

    def _on_new_partition_creation(self, partitions: Collection[TopicPartition]) -> None:
        ordered = list(partitions)
        replicas = self._context.replicas_of_partitions(ordered)
        self._partitions.handle_state_changes(ordered, PartitionState.NEW)
        self._replicas.handle_state_changes(replicas, ReplicaState.NEW)
        # The partitions before their replicas: a replica is ONLINE when it has a leader to follow.
        self._partitions.handle_state_changes(ordered, PartitionState.ONLINE, ElectionStrategy.OFFLINE)
        self._replicas.handle_state_changes(replicas, ReplicaState.ONLINE)

    def _add_assignments(self, found: Collection[TopicIdReplicaAssignment]) -> list[TopicPartition]:
        """Note the ids and assignments of topics, and return their partitions in order.

        Topics without an id get one.
        """
        without_id = [topic for topic in found if topic.topic_id is None]
        identified = [topic for topic in found if topic.topic_id is not None]
        identified += self._zk.topics.set_topic_ids(without_id, self._context.epoch_version)
        partitions: list[TopicPartition] = []
        for topic in identified:
            if topic.topic_id is not None:
                self._context.add_topic_id(topic.topic, topic.topic_id)
            for partition, assignment in topic.assignment.items():
                self._context.update_assignment(partition, assignment)
                partitions.append(partition)
                if assignment.is_being_reassigned:
                    self._context.partitions_being_reassigned.add(partition)
        return sorted(partitions)

    def on_topic_deletion(self, _event: events.Signal) -> None:
        """Handle requests in the store to delete topics."""
        wanted = self._zk.topics.deletions()
        unknown = wanted - self._context.all_topics
        if unknown:
            logger.warning("Ignoring request to delete non-existing topics %s", ",".join(sorted(unknown)))
            self._zk.topics.remove_deletions(unknown, self._context.epoch_version)
        known = wanted & self._context.all_topics
        if not self._config.delete_topic_enable:
            logger.info("Removing %s since delete topic is disabled", sorted(known))
            self._zk.topics.remove_deletions(known, self._context.epoch_version)
        elif known:
            logger.info("Starting topic deletion for topics %s", ",".join(sorted(known)))
            reassigned = known & {partition.topic for partition in self._context.partitions_being_reassigned}
            # Before the topics are queued, as in Kafka: it halts only topics of which an earlier request is queued. The
            # other way round, a topic whose reassignment never ends could not be deleted.
            self.deletions.mark_topics_ineligible(reassigned, "topic reassignment in progress")
            self.deletions.enqueue_topics_for_deletion(known)

    # -- answers of brokers

    def on_leader_and_isr_response(self, event: events.LeaderAndIsrResponseReceived) -> None:
        """Note which replicas are in a failed log directory."""
        self._channels.answered(event.broker_id)
        if event.response.error_code != ErrorCode.NONE:
            state_logger.error(
                "Received error %s in LeaderAndIsr response from broker %d",
                ErrorCode(event.response.error_code).name,
                event.broker_id,
            )
            return
        online: set[TopicPartition] = set()
        offline: set[TopicPartition] = set()
        for topic in event.response.topics:
            # LeaderAndIsr v5 answers with topic ids (KIP-516); a topic that was deleted since has no name.
            name = self._context.topic_names.get(topic.topic_id)
            for error in topic.partition_errors if name is not None else ():
                partition = TopicPartition(name or "", error.partition_index)
                if error.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    offline.add(partition)
                elif error.error_code == ErrorCode.NONE:
                    online.add(partition)
        before = self._context.replicas_on_offline_dirs.get(event.broker_id, set())
        now = (before - online) | offline
        self._context.replicas_on_offline_dirs[event.broker_id] = now
        if now - before:
            state_logger.info("Mark replicas %s on broker %d as offline", sorted(now - before), event.broker_id)
            self._on_replicas_become_offline([PartitionAndReplica(tp, event.broker_id) for tp in sorted(now - before)])

    def on_update_metadata_response(self, event: events.UpdateMetadataResponseReceived) -> None:
        """Log an error; the next change of metadata is sent anyway."""
        self._channels.answered(event.broker_id)
        if event.response.error_code != ErrorCode.NONE:
            state_logger.error(
                "Received error %s in UpdateMetadata response from broker %d",
                ErrorCode(event.response.error_code).name,
                event.broker_id,
            )

    def on_stop_replica_response(self, event: events.StopReplicaResponseReceived) -> None:
        """Note which replicas were deleted, and which could not be."""
        errors = {
            TopicPartition(error.topic_name, error.partition_index): error.error_code
            for error in event.response.partition_errors
            if self._context.is_topic_deletion_in_progress(error.topic_name)
        }
        asked = [partition for partition in errors if partition in event.deleting]
        all_failed = event.response.error_code != ErrorCode.NONE
        failed = [tp for tp in asked if all_failed or errors[tp] != ErrorCode.NONE]
        self.deletions.fail_replica_deletion([PartitionAndReplica(tp, event.broker_id) for tp in failed])
        failed_set = set(failed)
        deleted = [PartitionAndReplica(tp, event.broker_id) for tp in asked if tp not in failed_set]
        if deleted:
            self.deletions.complete_replica_deletion(deleted)
