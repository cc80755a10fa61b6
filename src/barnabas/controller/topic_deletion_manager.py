"""The deletion of topics: replicas are stopped and deleted on the brokers, then the topic is removed from the store.

Owned by the controller's thread, so no lock. The deletion of a topic waits (the topic is ineligible) while a broker
with one of its replicas is down, or one of its partitions is being reassigned; it is retried when that ends. An
example: a topic with one partition on the brokers 1 and 2, of which 2 is down.

    event                  replica on broker 1     replica on broker 2
    before                 ONLINE                  OFFLINE
    the deletion begins    DELETION_STARTED        DELETION_INELIGIBLE, so the topic is ineligible
    broker 1 answers       DELETION_SUCCESSFUL     OFFLINE, from where a deletion can start
    broker 2 is back       DELETION_SUCCESSFUL     ONLINE, OFFLINE, DELETION_STARTED
    broker 2 answers       NON_EXISTENT            NON_EXISTENT: the topic leaves the store

Kafka: kafka.controller.TopicDeletionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from barnabas.controller.controller_context import PartitionAndReplica
from barnabas.controller.controller_environment import ControllerEnvironment, StateMachines
from barnabas.controller.state_tables import PartitionState, ReplicaState
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class TopicDeletionManager:
    """The queue of topics to delete, kept in the context. `send_metadata_update` tells all brokers about partitions."""

    def __init__(
        self,
        environment: ControllerEnvironment,
        machines: StateMachines,
        send_metadata_update: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        self._enabled = environment.config.delete_topic_enable
        self._context = environment.context
        self._replicas = machines.replicas
        self._partitions = machines.partitions
        self._zk = environment.zk_client
        self._watches = environment.watches
        self._send_metadata_update = send_metadata_update

    def init(self, topics_to_be_deleted: Collection[str], topics_ineligible_for_deletion: Collection[str]) -> None:
        """Take over the deletions that an earlier controller left, or drop them if topics must not be deleted."""
        if self._enabled:
            self._context.topics_to_be_deleted.update(topics_to_be_deleted)
            ineligible = self._context.topics_to_be_deleted & set(topics_ineligible_for_deletion)
            self._context.topics_ineligible_for_deletion.update(ineligible)
        elif topics_to_be_deleted:
            logger.info("Removing %s since delete topic is disabled", sorted(topics_to_be_deleted))
            self._zk.topics.remove_deletions(topics_to_be_deleted, self._context.epoch_version)

    def try_topic_deletion(self) -> None:
        """Continue the deletions that were taken over."""
        if self._enabled:
            self._resume_deletions()

    def enqueue_topics_for_deletion(self, topics: Iterable[str]) -> None:
        """Delete topics as soon as they are eligible."""
        if self._enabled:
            self._context.topics_to_be_deleted.update(topics)
            self._resume_deletions()

    def resume_deletion_for_topics(self, topics: Iterable[str]) -> None:
        """Retry the deletion of topics: a broker came up, or a reassignment ended."""
        if self._enabled:
            resumed = self._context.topics_to_be_deleted & set(topics)
            if resumed:
                self._context.topics_ineligible_for_deletion -= resumed
                self._resume_deletions()

    def fail_replica_deletion(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """Note replicas that could not be deleted. Their topics wait until `resume_deletion_for_topics`."""
        failed = [r for r in replicas if self.is_topic_queued_for_deletion(r.partition.topic)]
        if failed:
            self._replicas.handle_state_changes(failed, ReplicaState.DELETION_INELIGIBLE)
            self.mark_topics_ineligible({r.partition.topic for r in failed}, "replica deletion failure")
            self._resume_deletions()

    def complete_replica_deletion(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """Note replicas that are deleted. A topic is deleted when all of its replicas are."""
        deleted = [r for r in replicas if self.is_topic_queued_for_deletion(r.partition.topic)]
        self._replicas.handle_state_changes(deleted, ReplicaState.DELETION_SUCCESSFUL)
        self._resume_deletions()

    def mark_topics_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Make those of `topics` wait that are to be deleted."""
        halted = self._context.topics_to_be_deleted & set(topics)
        if self._enabled and halted:
            self._context.topics_ineligible_for_deletion.update(halted)
            logger.info("Halted deletion of topics %s due to %s", ",".join(sorted(halted)), reason)

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Return whether a topic is to be deleted."""
        return self._enabled and self._context.is_topic_queued_for_deletion(topic)

    def _resume_deletions(self) -> None:
        to_retry: list[str] = []
        to_delete: list[str] = []
        for topic in sorted(self._context.topics_to_be_deleted):
            if self._context.are_all_replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL):
                self._complete_delete_topic(topic)
                logger.info("Deletion of topic %s successfully completed", topic)
                continue
            in_progress = self._context.is_any_replica_in_state(topic, ReplicaState.DELETION_STARTED)
            if not in_progress and self._context.is_any_replica_in_state(topic, ReplicaState.DELETION_INELIGIBLE):
                to_retry.append(topic)
            if not in_progress and topic not in self._context.topics_ineligible_for_deletion:
                logger.info("Deletion of topic %s (re)started", topic)
                to_delete.append(topic)
        for topic in to_retry:
            # To OFFLINE, the only state from which a deletion can start (`state_tables`).
            failed = self._context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
            self._replicas.handle_state_changes(failed, ReplicaState.OFFLINE)
        if to_delete:
            self._on_topic_deletion(to_delete)

    def _on_topic_deletion(self, topics: Collection[str]) -> None:
        """Take the partitions offline, send every broker the leader -2, then have the replicas deleted."""
        unseen = [topic for topic in topics if not self._context.is_topic_deletion_in_progress(topic)]
        partitions = [tp for topic in unseen for tp in self._context.partitions_of_topic(topic)]
        self._partitions.handle_state_changes(partitions, PartitionState.OFFLINE)
        self._partitions.handle_state_changes(partitions, PartitionState.NON_EXISTENT)
        self._context.topics_with_deletion_started.update(unseen)
        self._send_metadata_update([tp for topic in topics for tp in self._context.partitions_of_topic(topic)])
        self._on_partition_deletion(topics)

    def _on_partition_deletion(self, topics: Iterable[str]) -> None:
        dead: list[PartitionAndReplica] = []
        to_delete: list[PartitionAndReplica] = []
        ineligible: set[str] = set()
        for topic in topics:
            done = set(self._context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL))
            for replica in self._context.replicas_of_topic(topic):
                if not self._context.is_replica_online(replica.replica, replica.partition):
                    dead.append(replica)
                    ineligible.add(topic)
                elif replica not in done:
                    to_delete.append(replica)
        self._replicas.handle_state_changes(dead, ReplicaState.DELETION_INELIGIBLE)
        # OFFLINE first: it stops the followers from fetching what is about to be deleted.
        self._replicas.handle_state_changes(to_delete, ReplicaState.OFFLINE)
        self._replicas.handle_state_changes(to_delete, ReplicaState.DELETION_STARTED)
        if ineligible:
            self.mark_topics_ineligible(ineligible, "offline replicas")

    def _complete_delete_topic(self, topic: str) -> None:
        # First, since the removal below would fire the topic's watch.
        self._watches.unwatch_topic(topic)
        deleted = self._context.replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL)
        self._replicas.handle_state_changes(deleted, ReplicaState.NON_EXISTENT)
        self._zk.topics.delete(topic, self._context.epoch_version)
        self._context.remove_topic(topic)
