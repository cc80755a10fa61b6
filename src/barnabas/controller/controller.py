"""The controller: stands for election, and while elected decides for the whole cluster, one event at a time.

Made by `broker`. Request handlers call `elect_leaders`, `controlled_shutdown`, `alter_partitions` and so on, on any
thread; each call queues an event. Everything else happens on the thread `controller-event`, which owns the context and
the state machines, so no lock. Other threads read only `active_controller_id` and `epoch` (whole numbers, replaced by
assignment) and what `controller_metrics` copies.

How a topic of a single node gets its leader:

    CreateTopics handler    writes /brokers/topics/orders
    store-watch             Signal.TOPIC_CHANGE into the queue
    controller-event        partitions NEW, then ONLINE: leader and ISR into the store
                            LeaderAndIsr, UpdateMetadata through the channel to this broker
    request handler         LeadershipOrders.apply_leader_and_isr: the partition is led

A single node takes the same way as a cluster, with itself as the only broker. Kafka: kafka.controller.KafkaController.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from barnabas.controller import controller_events as events
from barnabas.controller.broker_request_batch import BatchNotEmpty
from barnabas.controller.controller_channel_manager import ChannelFactory, ControllerChannelManager
from barnabas.controller.controller_context import ControllerConfig, ControllerContext
from barnabas.controller.controller_environment import ControllerEnvironment
from barnabas.controller.controller_event_manager import ControllerEventManager
from barnabas.controller.controller_state import ControllerStats
from barnabas.controller.elected_controller import ElectedController
from barnabas.controller.store_watches import StoreWatches
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import ControllerMovedError
from barnabas.zk.store.store import SessionState

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
_NOT_CONTROLLER = ApiError(ErrorCode.NOT_CONTROLLER)
_FAILED = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
_MOVED = ApiError(ErrorCode.NOT_CONTROLLER, "Controller moved to another broker. Aborting controlled shutdown")


class Controller:
    """One broker's candidate for controller.

    Arguments:
    - `config`: its settings, the broker id among them;
    - `zk_client`: the store. The broker must be registered there before `startup`;
    - `register_broker`: registers this broker again after its session expired (BrokerRegistration.register);
    - `channel_factory`: makes the channel to a live broker, on the controller's thread; it is started and closed here;
    - `scheduler`: runs the rebalancing of leaders;
    - `on_ready`: called once, on the controller's thread, when this broker was elected and has answered all requests of
      its controller, so that it leads what it led before. Never called while another broker is the controller;
    - `clock`: for the metrics;
    - `threaded`: False lets a test run events by `run_pending`.

    When the store fails, events fail; the store itself reports the failure.
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
        self.context = ControllerContext()
        self._register_broker = register_broker
        self._on_ready = on_ready
        self._events = ControllerEventManager(self._process, self._preempt, stats=stats, clock=clock, threaded=threaded)
        self._environment = environment = ControllerEnvironment(
            config=config,
            context=self.context,
            zk_client=zk_client,
            channels=ControllerChannelManager(channel_factory, self._events.put),
            watches=StoreWatches(zk_client.access, self._events.put),
            stats=stats,
            put_event=self._events.put,
        )
        self._elected = ElectedController(environment, scheduler)
        self._handlers: Mapping[events.Signal, Callable[[], None]] = {
            events.Signal.STARTUP: self._on_startup,
            events.Signal.CONTROLLER_CHANGE: self._maybe_resign,
            events.Signal.REELECT: self._on_reelect,
            events.Signal.EXPIRE: self._on_expire,
            events.Signal.REGISTER_BROKER_AND_REELECT: self._on_register_broker_and_reelect,
        }

    # -- called from any thread

    @property
    def _broker_id(self) -> int:
        return self._environment.config.broker_id

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self.active_controller_id == self._broker_id

    @property
    def event_queue_size(self) -> int:
        """The number of events that wait to be handled."""
        return self._events.size

    def startup(self) -> None:
        """Stand for election. The topics of an earlier run are led as soon as this broker wins."""
        self._environment.zk_client.access.store.add_session_listener(self._on_session_state)
        self._events.put(events.Signal.STARTUP)
        self._events.start()

    def shutdown(self) -> None:
        """Stop handling events, and resign. The store removes /controller when its session ends."""
        # The thread first, since `resign` changes what the thread owns.
        self._events.close()
        self._elected.resign()
        self.active_controller_id = NO_CONTROLLER

    def elect_leaders(
        self, partitions: Collection[TopicPartition], election_type: ElectionType, callback: events.ElectLeadersCallback
    ) -> None:
        """Queue an election for ElectLeaders. `callback` gets the results by partition, on the controller's thread."""
        trigger = events.ElectionTrigger.ADMIN_CLIENT
        self._events.put(events.ReplicaLeaderElection(frozenset(partitions), election_type, trigger, callback))

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int, callback: events.ControlledShutdownCallback
    ) -> None:
        """Queue a controlled shutdown, which moves leaderships to other brokers.

        `callback` gets the partitions that the broker still leads, or an ApiError, on the controller's thread.
        """
        self._events.put(events.ControlledShutdown(broker_id, broker_epoch, callback))

    def alter_partitions(
        self, request: AlterPartitionRequest, version: int, callback: events.AlterPartitionCallback
    ) -> None:
        """Queue a change of in-sync replicas for AlterPartition.

        `callback` gets the answer, on the controller's thread.
        """
        self._events.put(events.AlterPartitionReceived(request, version, _once(callback)))

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, callback: events.AllocateProducerIdsCallback
    ) -> None:
        """Queue a request for a block of producer ids.

        `callback` gets the block or an ApiError, on the controller's thread.
        """
        self._events.put(events.AllocateProducerIds(broker_id, broker_epoch, callback))

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        callback: events.AlterReassignmentsCallback,
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Queue the reassignment of partitions (None as replicas: cancel the one in progress).

        `callback` gets the error of each partition, or an ApiError, on the controller's thread.
        """
        self._events.put(events.ApiPartitionReassignment(reassignments, allow_replication_factor_change, callback))

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None, callback: events.ListReassignmentsCallback
    ) -> None:
        """Queue a request for the reassignments in progress, of these partitions or of all (None).

        `callback` gets them or an ApiError, on the controller's thread.
        """
        asked = None if partitions is None else frozenset(partitions)
        self._events.put(events.ListPartitionReassignments(asked, callback))

    def enable_unclean_leader_election(self, topic: str | None = None) -> None:
        """Queue elections where leaders are missing: unclean ones are allowed now, for a topic or by default (None)."""
        if self.is_active:
            self._events.put(events.UncleanLeaderElectionEnable(topic))

    def run_pending(self) -> int:
        """Handle queued events on the calling thread, and return how many (tests)."""
        return self._events.run_pending()

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            # The queued events were meant for a broker that is no longer the controller; their requests are answered at
            # once. The new session is not used before this returns: an election that was going on could win in it, and
            # this broker would then resign without giving up /controller.
            self._events.clear_and_put(events.Signal.EXPIRE)
        else:
            self._events.put(events.Signal.REGISTER_BROKER_AND_REELECT)

    # -- events

    def _process(self, event: events.ControllerEvent) -> None:
        try:
            handler = self._handlers.get(event) if isinstance(event, events.Signal) else None
            if handler is not None:
                handler()
            elif self.is_active:
                self._elected.handle(event)
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
            # Every request is answered, also after a failure.
            self._preempt(event, _FAILED)
            raise
        # Answers of brokers are events too: when the channel is idle, this broker has acted on all of them.
        if self._on_ready is not None and self.is_active and self._environment.channels.is_idle(self._broker_id):
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def _preempt(self, event: events.ControllerEvent, why: ApiError = _NOT_CONTROLLER) -> None:
        """Answer the request behind an event that will not be handled, or whose handling failed."""
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

    # -- being elected, and resigning

    def _on_startup(self) -> None:
        self._environment.watches.watch_controller()
        self._elect()

    def _on_reelect(self) -> None:
        self._maybe_resign()
        self._elect()

    def _on_expire(self) -> None:
        self.active_controller_id = NO_CONTROLLER
        self._elected.resign()

    def _on_register_broker_and_reelect(self) -> None:
        # Before the election, so that a controller finds this broker among the live ones, with its new epoch.
        self._register_broker()
        self._maybe_resign()
        self._elect()

    def _elect(self) -> None:
        found = self._environment.zk_client.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if found is not None:
            logger.debug("Broker %d has been elected as the controller, so stopping the election process.", found)
            return
        try:
            epoch, version = self._environment.zk_client.register_controller_and_increment_controller_epoch(
                self._broker_id
            )
            self.context.epoch = self.epoch = epoch
            self.context.epoch_version = version
            self.active_controller_id = self._broker_id
            logger.info(
                "%d successfully elected as the controller. Epoch incremented to %d and epoch zk version is now %d",
                self._broker_id,
                epoch,
                version,
            )
            self._elected.take_over()
        except ControllerMovedError:
            self._maybe_resign()
            logger.debug("Broker %d was elected as controller instead of us", self.active_controller_id)
        except Exception:
            # Half a controller is worse than none: the broker that is elected next starts from the store.
            logger.exception(
                "Error while electing or becoming controller on broker %d. Trigger controller movement immediately",
                self._broker_id,
            )
            self._trigger_controller_move()

    def _maybe_resign(self) -> None:
        was_active = self.is_active
        # The watch first: a change between the two is reported as an event.
        self._environment.watches.watch_controller()
        found = self._environment.zk_client.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if was_active and not self.is_active:
            self._elected.resign()

    def _trigger_controller_move(self) -> None:
        found = self._environment.zk_client.controller_id()
        self.active_controller_id = NO_CONTROLLER if found is None else found
        if not self.is_active:
            logger.warning("Controller has already moved when trying to trigger controller movement")
            return
        # Read now, since `resign` resets the context.
        version = self.context.epoch_version
        self.active_controller_id = NO_CONTROLLER
        # Before /controller is deleted: the next controller must not find this one still giving orders.
        self._elected.resign()
        try:
            self._environment.zk_client.delete_controller(version)
        except ControllerMovedError:
            logger.warning("Controller has already moved when trying to trigger controller movement")


def _once(callback: events.AlterPartitionCallback) -> events.AlterPartitionCallback:
    """Wrap a callback that is called before the event is handled to its end, and not again when the rest fails."""
    is_called = False

    def call(response: AlterPartitionResponse) -> None:
        nonlocal is_called
        if not is_called:
            is_called = True
            callback(response)

    return call
