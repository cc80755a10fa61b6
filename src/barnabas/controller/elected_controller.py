"""The work of a controller while it is elected: it takes over from the last one, handles events, and resigns.

Made and called by Controller, on the controller's thread, so no lock. Election and resignation are decided in
`controller`; what an event means for brokers and topics, in-sync replicas or leaders is in the parts that the table of
handlers names.
Kafka: onControllerFailover, onControllerResignation and the process... methods of kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.controller import controller_events as events
from barnabas.controller.cluster_changes import ClusterChanges
from barnabas.controller.controller_environment import ControllerEnvironment, StateMachines
from barnabas.controller.leadership_changes import LeadershipChanges
from barnabas.controller.store_watches import ELECTION_FROM_STORE
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.lazy import Lazy
from barnabas.runtime.scheduler import ScheduledTask, Scheduler
from barnabas.zk.store.errors import StoreError
from barnabas.zk.znodes.broker_zk_data import FinalizedFeatures

if TYPE_CHECKING:
    from barnabas.controller.isr_changes import IsrChanges

logger = logging.getLogger(__name__)

_FIRST_REBALANCE_MS = 5_000


class ElectedController:
    """The work of the controller. Only `resign` may be called while another broker is the controller."""

    def __init__(self, environment: ControllerEnvironment, scheduler: Scheduler) -> None:
        self._environment = environment
        self._scheduler = scheduler
        self._rebalance_task: ScheduledTask | None = None
        self._machines = machines = StateMachines.of(environment)
        self._cluster = cluster = ClusterChanges(environment, machines)
        self._leadership = LeadershipChanges(environment, machines, self._store_election_done)

        def new_isr_changes() -> IsrChanges:
            from barnabas.controller.isr_changes import IsrChanges  # noqa: PLC0415

            return IsrChanges(
                environment.context, environment.zk_client, cluster.send_update_metadata, cluster.on_isr_changed
            )

        # Imported for the first change: a broker alone has none.
        isr = Lazy(new_isr_changes)
        elect = machines.partitions.trigger_online_partition_state_change
        self._handlers: Mapping[events.Signal | type[events.ControllerEvent], Callable[[Any], object]] = {
            events.Signal.BROKER_CHANGE: cluster.on_broker_change,
            events.BrokerModifications: cluster.on_broker_modifications,
            events.BrokerReachabilityChange: self._on_broker_reachability_change,
            events.Signal.TOPIC_CHANGE: cluster.on_topic_change,
            events.PartitionModifications: cluster.on_partition_modifications,
            events.Signal.TOPIC_DELETION: cluster.on_topic_deletion,
            events.Signal.LOG_DIR_EVENT_NOTIFICATION: cluster.on_log_dir_event_notification,
            events.Signal.ISR_CHANGE_NOTIFICATION: lambda event: isr().on_isr_change_notification(event),
            events.LeaderAndIsrResponseReceived: cluster.on_leader_and_isr_response,
            events.UpdateMetadataResponseReceived: cluster.on_update_metadata_response,
            events.StopReplicaResponseReceived: cluster.on_stop_replica_response,
            events.ReplicaLeaderElection: self._on_replica_leader_election,
            events.Signal.AUTO_PREFERRED_REPLICA_LEADER_ELECTION: self._on_auto_rebalance,
            events.UncleanLeaderElectionEnable: lambda event: elect(event.topic),
            events.ControlledShutdown: self._on_controlled_shutdown,
            events.AlterPartitionReceived: lambda event: isr().on_alter_partition(event),
            events.AllocateProducerIds: self._on_allocate_producer_ids,
            events.ApiPartitionReassignment: self._on_api_partition_reassignment,
            events.ListPartitionReassignments: lambda event: event.callback(
                cluster.reassignments.in_progress(event.partitions)
            ),
            events.Signal.STORE_REASSIGNMENT: lambda _event: cluster.begin_reassignments_in_store(),
            events.PartitionReassignmentIsrChange: lambda event: cluster.on_isr_changed(event.partition),
        }

    def handle(self, event: events.ControllerEvent) -> None:
        """Handle one event. Raises ControllerMovedError, BatchNotEmpty, or an error of the store."""
        kind = event if isinstance(event, events.Signal) else type(event)
        self._handlers[kind](event)

    # -- taking over, and resigning

    def take_over(self) -> None:
        """Watch, read everything, tell brokers, start the state machines. Kafka: onControllerFailover."""
        environment = self._environment
        zk_client, context = environment.zk_client, environment.context
        self._set_up_features()
        # Watches before reads: a change between the two fires a watch, and is handled as the next event.
        environment.watches.watch_cluster()
        version = context.epoch_version
        # Earlier notices are dropped: everything they could tell is read below.
        zk_client.delete_log_dir_event_notifications(zk_client.log_dir_event_notifications(), version)
        zk_client.delete_isr_change_notifications(version)
        self._cluster.initialize_context()
        deletions = self._cluster.deletions
        deletions.init(zk_client.topics.deletions(), self._cluster.topics_ineligible_for_deletion())
        # Brokers have to know each other before they are told which partitions to lead or follow.
        self._cluster.send_update_metadata(context.live_brokers, ())
        self._machines.replicas.startup()
        self._machines.partitions.startup()
        logger.info("Ready to serve as the new controller with epoch %d", context.epoch)
        # Those in the store may be newer than those that the last controller has begun.
        begun = self._cluster.begin_reassignments_in_store()
        self._cluster.resume_reassignments(except_for=begun)
        deletions.try_topic_deletion()
        self._on_replica_leader_election(ELECTION_FROM_STORE)
        if environment.config.auto_leader_rebalance_enable:
            self._schedule_rebalance(_FIRST_REBALANCE_MS)

    def resign(self) -> None:
        """Forget everything and close the channels. Does no harm when this broker was not the controller."""
        # First, so that no change in the store is queued for a broker that is no longer the controller.
        self._environment.watches.unwatch_cluster()
        if self._rebalance_task is not None:
            self._rebalance_task.cancel()
            self._rebalance_task = None
        self._environment.channels.shutdown()
        self._machines.clear()
        self._environment.context.reset()

    def _set_up_features(self) -> None:
        """Enable feature versioning (KIP-584) with the features finalized so far. Kafka: enableFeatureVersioning."""
        zk_client = self._environment.zk_client
        found = zk_client.finalized_features()
        if found is None:
            zk_client.create_finalized_features(FinalizedFeatures())
            return
        # 1 is Kafka's FeatureZNodeStatus.Enabled; the features of a disabled node are not in force.
        features = found[0].features if found[0].status == 1 else {}
        wanted = FinalizedFeatures(features)
        if wanted != found[0]:
            zk_client.update_finalized_features(wanted)

    # -- leadership on demand

    def _on_replica_leader_election(self, event: events.ReplicaLeaderElection) -> None:
        wanted: Collection[TopicPartition]
        if event.partitions is not None:
            wanted = event.partitions
        elif self._environment.watches.watch_preferred_replica_election():
            wanted = self._environment.zk_client.topics.preferred_replica_election()
        else:
            return
        results = self._leadership.elect(wanted, event.election_type, event.trigger)
        if event.callback is not None:
            event.callback(results)

    def _store_election_done(self) -> None:
        environment = self._environment
        environment.zk_client.topics.delete_preferred_replica_election(environment.context.epoch_version)
        # The next election may have been written before the watch was set again.
        environment.put_event(ELECTION_FROM_STORE)

    def _on_auto_rebalance(self, _event: events.Signal) -> None:
        try:
            self._leadership.rebalance()
        finally:
            # Scheduled again after each run and not periodically, so that slow runs do not pile up in the queue.
            self._schedule_rebalance(self._environment.config.leader_imbalance_check_interval_seconds * 1000)

    def _schedule_rebalance(self, delay_ms: int) -> None:
        put_event = self._environment.put_event
        self._rebalance_task = self._scheduler.schedule(
            "auto-leader-rebalance-task",
            lambda: put_event(events.Signal.AUTO_PREFERRED_REPLICA_LEADER_ELECTION),
            delay_ms=delay_ms,
        )

    def _on_broker_reachability_change(self, event: events.BrokerReachabilityChange) -> None:
        """Take the leaderships of a broker that nobody can connect to, or take such a broker back (decisions/0062)."""
        if self._environment.context.broker_epochs.get(event.broker_id) != event.broker_epoch:
            return  # it has registered again since, or its session has ended
        if event.is_reachable:
            logger.info("Broker %d accepts connections again", event.broker_id)
            self._cluster.take_back(event.broker_id)
        else:
            logger.warning("Broker %d refuses connections: its leaderships go to other brokers", event.broker_id)
            self._leadership.controlled_shutdown(event.broker_id, event.broker_epoch)

    def _on_controlled_shutdown(self, event: events.ControlledShutdown) -> None:
        try:
            remaining: set[TopicPartition] | ApiError = self._leadership.controlled_shutdown(
                event.broker_id, event.broker_epoch
            )
        except ApiError as error:
            remaining = error
        event.callback(remaining)

    # -- reassignments

    def _on_api_partition_reassignment(self, event: events.ApiPartitionReassignment) -> None:
        event.callback(
            self._cluster.reassignments.alter(
                event.reassignments, allow_replication_factor_change=event.allow_replication_factor_change
            )
        )

    # -- producer ids

    def _on_allocate_producer_ids(self, event: events.AllocateProducerIds) -> None:
        epoch = self._environment.context.broker_epochs.get(event.broker_id)
        if epoch is None:
            logger.warning("Ignoring AllocateProducerIds due to unknown broker %d", event.broker_id)
            event.callback(ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED))
        elif epoch != event.broker_epoch:
            logger.warning(
                "Ignoring AllocateProducerIds due to stale broker epoch %d for broker %d",
                event.broker_epoch,
                event.broker_id,
            )
            event.callback(ApiError(ErrorCode.STALE_BROKER_EPOCH))
        else:
            from barnabas.metadata.producer_ids import new_producer_id_block  # noqa: PLC0415 - for other brokers

            try:
                event.callback(new_producer_id_block(event.broker_id, self._environment.zk_client))
            except ApiError as error:
                event.callback(error)
            except StoreError as error:
                event.callback(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
