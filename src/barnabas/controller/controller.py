"""The controller: stands for election, and while elected decides for the whole cluster, one event at a time.

Made by `broker`, asked by request handlers (any thread) through `elect_leaders`, `controlled_shutdown`,
`alter_partitions`; everything else happens on its thread, `controller-event`, which owns the context and the state
machines. Shared with other threads are only `active_controller_id` and `epoch` (whole numbers, set by assignment), and
what `controller_metrics` reads.

A single node runs it too, and is its own only broker: a topic is created, led and deleted the same way there.

Kafka: kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from barnabas.controller import controller_events as events
from barnabas.controller.broker_request_batch import BatchNotEmpty, BrokerRequestBatch
from barnabas.controller.cluster_changes import ClusterChanges
from barnabas.controller.controller_channel_manager import ChannelFactory, ControllerChannelManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_context import ControllerContext
from barnabas.controller.controller_event_manager import ControllerEventManager
from barnabas.controller.controller_stats import ControllerStats
from barnabas.controller.isr_changes import IsrChanges
from barnabas.controller.leadership_changes import LeadershipChanges
from barnabas.controller.partition_state_machine import PartitionStateMachine
from barnabas.controller.replica_state_machine import ReplicaStateMachine
from barnabas.controller.store_watches import ELECTION_FROM_STORE, StoreWatches
from barnabas.metadata.producer_ids import new_producer_id_block
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import ScheduledTask, Scheduler
from barnabas.zk.errors import ControllerMovedError, StoreError
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store import SessionState
from barnabas.zk.zk_data import FinalizedFeatures

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
_FIRST_REBALANCE_MS = 5_000
_NOT_CONTROLLER = ApiError(ErrorCode.NOT_CONTROLLER)
_FAILED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
_MOVED = ApiError(ErrorCode.NOT_CONTROLLER, "Controller moved to another broker. Aborting controlled shutdown")


class Controller:
    """One broker's candidate for controller.

    Arguments:
    - `config`: what it acts on, its broker id among it;
    - `zk_client`: the store. The broker must be registered there before `startup`;
    - `register_broker`: registers this broker again after its session expired (BrokerRegistration.register);
    - `channel_factory`: makes the channel to a live broker, started and closed here. Called on the controller's thread;
    - `scheduler`: for the rebalancing of leaders;
    - `on_ready`: called once on the controller's thread when this broker was elected and has acted on all that its new
      controller told it: it leads what it led before. Never called while another broker is the controller;
    - `clock`: for the metrics;
    - `threaded`: False lets a test run events by `run_pending`.

    A store that fails makes events fail, and is reported by the store itself.
    """

    def __init__(
        self,
        config: ControllerConfig,
        zk_client: KafkaZkClient,
        register_broker: Callable[[], int],
        channel_factory: ChannelFactory,
        scheduler: Scheduler,
        *,
        on_ready: Callable[[], None] | None = None,
        clock: Clock | None = None,
        threaded: bool = True,
    ) -> None:
        self.active_controller_id = NO_CONTROLLER
        self.epoch = 0
        self.stats = stats = ControllerStats()
        self._config = config
        self._zk = zk_client
        self._register_broker = register_broker
        self._scheduler = scheduler
        self._on_ready = on_ready
        self._rebalance_task: ScheduledTask | None = None
        self._batches: list[BrokerRequestBatch] = []
        self.context = self._context = context = ControllerContext()
        self._events = ControllerEventManager(self._process, self._preempt, stats=stats, clock=clock, threaded=threaded)
        self._channels = ControllerChannelManager(channel_factory)
        self._watches = watches = StoreWatches(zk_client.access, self._events.put)
        self._batch = batch = self._new_batch()
        self._replicas = replicas = ReplicaStateMachine(config, context, zk_client, self._new_batch())
        self._partitions = partitions = PartitionStateMachine(
            config, context, zk_client, self._new_batch(), stats.unclean_elections
        )
        self._cluster = cluster = ClusterChanges(
            config, context, zk_client, watches, self._channels, batch, replicas, partitions
        )
        self._leadership = LeadershipChanges(config, context, partitions, replicas, batch, self._store_election_done)
        self._isr = IsrChanges(context, zk_client, cluster.send_update_metadata, cluster.reassignments.on_isr_changed)
        self._handlers: Mapping[events.Signal | type[events.ControllerEvent], Callable[[Any], None]] = {
            events.Signal.STARTUP: self._on_startup,
            events.Signal.CONTROLLER_CHANGE: self._on_controller_change,
            events.Signal.REELECT: self._on_reelect,
            events.Signal.EXPIRE: self._on_expire,
            events.Signal.REGISTER_BROKER_AND_REELECT: self._on_register_broker_and_reelect,
        }
        self._handlers_if_active: Mapping[events.Signal | type[events.ControllerEvent], Callable[[Any], None]] = {
            events.Signal.BROKER_CHANGE: cluster.on_broker_change,
            events.BrokerModifications: cluster.on_broker_modifications,
            events.Signal.TOPIC_CHANGE: cluster.on_topic_change,
            events.PartitionModifications: cluster.on_partition_modifications,
            events.Signal.TOPIC_DELETION: cluster.on_topic_deletion,
            events.Signal.LOG_DIR_EVENT_NOTIFICATION: cluster.on_log_dir_event_notification,
            events.Signal.ISR_CHANGE_NOTIFICATION: self._isr.on_isr_change_notification,
            events.LeaderAndIsrResponseReceived: cluster.on_leader_and_isr_response,
            events.UpdateMetadataResponseReceived: cluster.on_update_metadata_response,
            events.StopReplicaResponseReceived: cluster.on_stop_replica_response,
            events.ReplicaLeaderElection: self._on_replica_leader_election,
            events.Signal.AUTO_PREFERRED_REPLICA_LEADER_ELECTION: self._on_auto_rebalance,
            events.UncleanLeaderElectionEnable: self._on_unclean_leader_election_enable,
            events.ControlledShutdown: self._on_controlled_shutdown,
            events.AlterPartitionReceived: self._isr.on_alter_partition,
            events.AllocateProducerIds: self._on_allocate_producer_ids,
            events.ApiPartitionReassignment: self._on_api_partition_reassignment,
            events.ListPartitionReassignments: self._on_list_partition_reassignments,
            events.PartitionReassignmentIsrChange: self._on_partition_reassignment_isr_change,
        }

    def _new_batch(self) -> BrokerRequestBatch:
        batch = BrokerRequestBatch(self._config, self._context, self._channels, self._events.put)
        self._batches.append(batch)
        return batch

    # -- called from any thread ------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self.active_controller_id == self._config.broker_id

    @property
    def event_queue_size(self) -> int:
        """Events that wait to be handled."""
        return self._events.size

    def startup(self) -> None:
        """Stand for election. Topics of an earlier run are led as soon as it is won."""
        self._zk.access.store.add_session_listener(self._on_session_state)
        self._events.put(events.Signal.STARTUP)
        self._events.start()

    def shutdown(self) -> None:
        """Stop deciding. /controller vanishes with the session, or at once if another broker should take over."""
        self._events.close()
        self._resign()
        self.active_controller_id = NO_CONTROLLER

    def elect_leaders(
        self,
        partitions: Collection[TopicPartition],
        election_type: ElectionType,
        callback: events.ElectLeadersCallback,
    ) -> None:
        """Elect leaders for ElectLeaders; `callback` gets the result by partition on the controller's thread."""
        trigger = events.ElectionTrigger.ADMIN_CLIENT
        self._events.put(events.ReplicaLeaderElection(frozenset(partitions), election_type, trigger, callback))

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int, callback: events.ControlledShutdownCallback
    ) -> None:
        """Lead a broker's partitions elsewhere; `callback` gets those it still leads, or an ApiError."""
        self._events.put(events.ControlledShutdown(broker_id, broker_epoch, callback))

    def alter_partitions(
        self, request: AlterPartitionRequest, version: int, callback: events.AlterPartitionCallback
    ) -> None:
        """Change in-sync replicas for AlterPartition; `callback` gets the answer on the controller's thread."""
        self._events.put(events.AlterPartitionReceived(request, version, callback))

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, callback: events.AllocateProducerIdsCallback
    ) -> None:
        """A block of producer ids for a broker; `callback` gets it on the controller's thread, or an ApiError."""
        self._events.put(events.AllocateProducerIds(broker_id, broker_epoch, callback))

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        callback: events.AlterReassignmentsCallback,
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Move partitions to other replicas (None: stop moving); `callback` gets each one's error on the controller's

        thread, or an ApiError.
        """
        self._events.put(events.ApiPartitionReassignment(reassignments, allow_replication_factor_change, callback))

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None, callback: events.ListReassignmentsCallback
    ) -> None:
        """Which partitions (None: of all) are being moved, and how; on the controller's thread, or an ApiError."""
        asked = None if partitions is None else frozenset(partitions)
        self._events.put(events.ListPartitionReassignments(asked, callback))

    def enable_unclean_leader_election(self, topic: str | None = None) -> None:
        """Unclean elections are allowed now (for a topic, or by default): elect where leaders are missing."""
        if self.is_active:
            self._events.put(events.UncleanLeaderElectionEnable(topic))

    def run_pending(self) -> int:
        """Handle queued events on the calling thread (tests)."""
        return self._events.run_pending()

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._events.clear_and_put(events.Signal.EXPIRE)
        else:
            self._events.put(events.Signal.REGISTER_BROKER_AND_REELECT)

    # -- events ----------------------------------------------------------------------------------------------------

    def _process(self, event: events.ControllerEvent) -> None:
        try:
            kind = event if isinstance(event, events.Signal) else type(event)
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(event)
            elif self.is_active:
                self._handlers_if_active[kind](event)
            else:
                self._preempt(event)
        except ControllerMovedError:
            logger.info("Controller moved to another broker when processing %s.", type(event).__name__)
            self._maybe_resign()
            self._preempt(event)
        except BatchNotEmpty:
            logger.exception("Forcing the controller to resign")
            self._trigger_controller_move()
            self._preempt(event)
        except Exception:
            self._preempt(event, _FAILED)  # nobody waits for ever; who was answered before is not answered twice
            raise
        if self._on_ready is not None and self.is_active and self._channels.is_idle(self._config.broker_id):
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def _preempt(self, event: events.ControllerEvent, why: ApiError = _NOT_CONTROLLER) -> None:
        """Answer those who wait for an event that won't be handled, or whose handling failed."""
        if isinstance(event, events.ControlledShutdown):
            event.callback(_MOVED if why is _NOT_CONTROLLER else why)
        elif isinstance(event, events.ReplicaLeaderElection) and event.callback is not None:
            event.callback(dict.fromkeys(event.partitions or (), why))
        elif isinstance(event, events.AlterPartitionReceived):
            event.callback(AlterPartitionResponse(error_code=why.code))
        elif isinstance(
            event, events.ApiPartitionReassignment | events.ListPartitionReassignments | events.AllocateProducerIds
        ):
            event.callback(why)

    # -- being elected, and resigning ------------------------------------------------------------------------------

    def _on_startup(self, _event: events.Signal) -> None:
        self._watches.watch_controller()
        self._elect()

    def _on_controller_change(self, _event: events.Signal) -> None:
        self._maybe_resign()

    def _on_reelect(self, _event: events.Signal) -> None:
        self._maybe_resign()
        self._elect()

    def _on_expire(self, _event: events.Signal) -> None:
        self.active_controller_id = NO_CONTROLLER
        self._resign()

    def _on_register_broker_and_reelect(self, _event: events.Signal) -> None:
        self._register_broker()
        self._maybe_resign()
        self._elect()

    def _elect(self) -> None:
        found = self._zk.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if found is not None:
            logger.debug("Broker %d has been elected as the controller, so stopping the election process.", found)
            return
        try:
            epoch, version = self._zk.register_controller_and_increment_controller_epoch(self._config.broker_id)
            self._context.epoch = self.epoch = epoch
            self._context.epoch_version = version
            self.active_controller_id = self._config.broker_id
            logger.info(
                "%d successfully elected as the controller. Epoch incremented to %d and epoch zk version is now %d",
                self._config.broker_id,
                epoch,
                version,
            )
            self._on_failover()
        except ControllerMovedError:
            self._maybe_resign()
            logger.debug("Broker %d was elected as controller instead of us", self.active_controller_id)
        except Exception:
            # half a controller is worse than none: whoever is elected next starts from the store
            logger.exception(
                "Error while electing or becoming controller on broker %d. Trigger controller movement immediately",
                self._config.broker_id,
            )
            self._trigger_controller_move()

    def _on_failover(self) -> None:
        """Take over: watch, read everything, tell brokers, start the state machines. Kafka: onControllerFailover."""
        self._set_up_features()
        self._watches.watch_cluster()
        version = self._context.epoch_version
        self._zk.delete_log_dir_event_notifications(self._zk.log_dir_event_notifications(), version)
        self._zk.delete_isr_change_notifications(version)
        self._cluster.initialize_context()
        deletions = self._cluster.deletions
        deletions.init(self._zk.topics.deletions(), self._cluster.topics_ineligible_for_deletion())
        # brokers have to know each other before they are told whom to lead or follow
        self._cluster.send_update_metadata(self._context.live_brokers, ())
        self._replicas.startup()
        self._partitions.startup()
        logger.info("Ready to serve as the new controller with epoch %d", self._context.epoch)
        self._cluster.reassignments.resume()
        deletions.try_topic_deletion()
        self._on_replica_leader_election(ELECTION_FROM_STORE)
        if self._config.auto_leader_rebalance_enable:
            self._schedule_rebalance(_FIRST_REBALANCE_MS)

    def _set_up_features(self) -> None:
        """Enable feature versioning (KIP-584), with what is finalized already. Kafka: enableFeatureVersioning."""
        found = self._zk.finalized_features()
        if found is None:
            self._zk.create_finalized_features(FinalizedFeatures())
            return
        features = found[0].features if found[0].status == 1 else {}
        wanted = FinalizedFeatures(features)
        if wanted != found[0]:
            self._zk.update_finalized_features(wanted)

    def _resign(self) -> None:
        """Stop being the controller: forget everything, close the channels. Harmless when we weren't."""
        self._watches.unwatch_cluster()
        if self._rebalance_task is not None:
            self._rebalance_task.cancel()
            self._rebalance_task = None
        self._channels.shutdown()
        for batch in self._batches:
            batch.clear()
        self._context.reset()

    def _maybe_resign(self) -> None:
        was_active = self.is_active
        self._watches.watch_controller()
        found = self._zk.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if was_active and not self.is_active:
            self._resign()

    def _trigger_controller_move(self) -> None:
        found = self._zk.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if not self.is_active:
            logger.warning("Controller has already moved when trying to trigger controller movement")
            return
        version = self._context.epoch_version
        self.active_controller_id = NO_CONTROLLER
        self._resign()
        try:
            self._zk.delete_controller(version)
        except ControllerMovedError:
            logger.warning("Controller has already moved when trying to trigger controller movement")

    # -- leadership on demand --------------------------------------------------------------------------------------

    def _on_replica_leader_election(self, event: events.ReplicaLeaderElection) -> None:
        wanted: Collection[TopicPartition]
        if event.partitions is not None:
            wanted = event.partitions
        elif self._watches.watch_preferred_replica_election():
            wanted = self._zk.topics.preferred_replica_election()
        else:
            return
        results = self._leadership.elect(wanted, event.election_type, event.trigger)
        if event.callback is not None:
            event.callback(results)

    def _store_election_done(self) -> None:
        self._zk.topics.delete_preferred_replica_election(self._context.epoch_version)
        self._events.put(ELECTION_FROM_STORE)  # there may be the next one already

    def _on_auto_rebalance(self, _event: events.Signal) -> None:
        try:
            self._leadership.rebalance()
        finally:
            self._schedule_rebalance(self._config.leader_imbalance_check_interval_seconds * 1000)

    def _schedule_rebalance(self, delay_ms: int) -> None:
        self._rebalance_task = self._scheduler.schedule(
            "auto-leader-rebalance-task",
            lambda: self._events.put(events.Signal.AUTO_PREFERRED_REPLICA_LEADER_ELECTION),
            delay_ms=delay_ms,
        )

    def _on_unclean_leader_election_enable(self, event: events.UncleanLeaderElectionEnable) -> None:
        self._partitions.trigger_online_partition_state_change(event.topic)

    def _on_controlled_shutdown(self, event: events.ControlledShutdown) -> None:
        try:
            remaining: set[TopicPartition] | ApiError = self._leadership.controlled_shutdown(
                event.broker_id, event.broker_epoch
            )
        except ApiError as error:
            remaining = error
        event.callback(remaining)

    # -- reassignments -----------------------------------------------------------------------------------------------

    def _on_api_partition_reassignment(self, event: events.ApiPartitionReassignment) -> None:
        event.callback(
            self._cluster.reassignments.alter(
                event.reassignments, allow_replication_factor_change=event.allow_replication_factor_change
            )
        )

    def _on_list_partition_reassignments(self, event: events.ListPartitionReassignments) -> None:
        event.callback(self._cluster.reassignments.under_way(event.partitions))

    def _on_partition_reassignment_isr_change(self, event: events.PartitionReassignmentIsrChange) -> None:
        self._cluster.reassignments.on_isr_changed(event.partition)

    # -- producer ids ------------------------------------------------------------------------------------------------

    def _on_allocate_producer_ids(self, event: events.AllocateProducerIds) -> None:
        epoch = self._context.broker_epochs.get(event.broker_id)
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
            try:
                event.callback(new_producer_id_block(event.broker_id, self._zk))
            except ApiError as error:
                event.callback(error)
            except StoreError as error:
                event.callback(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
