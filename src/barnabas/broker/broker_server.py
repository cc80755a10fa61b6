"""The broker: starts its stages in order, joins its cluster, and stops everything in reverse.

Made by the command line (or a test) on the main thread, which also calls `startup` and `shutdown`. Any thread may
report a fatal error (BrokerLifecycle.fail), which asks for a stop with a non-zero exit status.

A stage is an immutable value: the parts that it has built, handed to the later stages. A part that is built too
early is a type error, since the parts it needs are fields of a stage that does not exist yet:

    start_foundations   threads, timer, scheduler
    open_storage        log directories, metadata store, identity, settings, logs
    start_replication   connections to brokers, replicas, group coordinator
    build_control       controller
    build_transactions  transaction coordinator, producer ids
    bind_front          table of APIs, sockets bound, request handlers

Then requests are read, of which only the controller's are handled; the broker registers and stands for controller; and
when it leads its partitions again, the gate opens for all requests. Every part registers its stop when it has started,
so that a start that fails in the middle stops exactly the parts that run.

The order is Kafka's: docs/kafka-facts.md, start order. Kafka: kafka.server.KafkaServer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas import __version__, build
from barnabas.api.authorize import Authorizer
from barnabas.broker.foundations import BrokerLifecycle, BrokerState, Foundations, start_foundations
from barnabas.broker.process_tuning import (
    freeze_startup_objects,
    raise_descriptor_limit,
    tune_thread_switching,
)
from barnabas.broker.settings.own_listeners import OwnListeners, unauthenticated_listeners
from barnabas.broker.stages.control_stage import ControlStage, build_control
from barnabas.broker.stages.front_stage import AccessRules, BuiltStages, FrontStage, bind_front, start_authorization
from barnabas.broker.stages.replication_stage import start_replication
from barnabas.broker.stages.storage_stage import StorageStage, open_storage
from barnabas.broker.stages.transaction_stage import build_transactions
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import by_reason, kept_settings
from barnabas.config.listeners import EndPoint, inter_broker_listener_name_of
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.transport.channel.authenticator import ChannelBuilder

if TYPE_CHECKING:
    from barnabas.faults.fault_layer import FaultLayer

logger = logging.getLogger(__name__)

CONTROLLER_TIMEOUT_SECONDS = 60
PATIENCE_AT_GATE_SECONDS = 10
"""How long clients may wait for a starting broker before they are disconnected: the controller may need the connections
and the memory that they hold."""
DESCRIPTORS_FOR_LOGS = 0.75
"""Share of the descriptor limit that segment files may hold; sockets and the rest have what is left."""


class BrokerServer:
    """One broker in one process.

    config: the parsed settings. `metrics` names what it counts. After `startup`, `cluster_id` is known.
    authorizer: of a test; None: that of `authorizer.class.name`, without which every client may do everything.
    channel_builders: as in AccessRules.
    faults: of a broker that the test kit started for them; None, as always elsewhere: no request can be hit.
    """

    def __init__(
        self,
        config: KafkaConfig,
        *,
        authorizer: Authorizer | None = None,
        channel_builders: Mapping[str, ChannelBuilder] | None = None,
        faults: FaultLayer | None = None,
    ) -> None:
        self._config = config
        self._access = AccessRules(authorizer, channel_builders=channel_builders)
        self._faults = faults
        self._lifecycle = lifecycle = BrokerLifecycle()
        self._listeners: OwnListeners | None = None
        self.metrics = MetricsRegistry()
        text = "0 not running, 1 starting, 2 recovering logs, 3 running, 6 handing over, 7 shutting down"
        self.metrics.register("kafka.server", "KafkaServer", "BrokerState", text, lambda: lifecycle.state)
        self.broker_id = -1
        self.cluster_id = ""

    @property
    def state(self) -> BrokerState:
        """The state that the gauge BrokerState shows."""
        return self._lifecycle.state

    @property
    def exit_status(self) -> int:
        """The exit status for the process: 0 unless something fatal ended the broker."""
        return self._lifecycle.exit_status

    @property
    def bound_endpoints(self) -> list[EndPoint]:
        """The addresses that clients may use, with the ports that were bound; none before `startup`."""
        return [] if self._listeners is None else list(self._listeners.bound)

    def startup(self) -> None:
        """Start everything; when it returns, requests are being answered.

        Raises ConfigError, OSError, LogDirectoryLocked or InconsistentMetaProperties when the broker cannot start;
        `shutdown` then stops what had been started.
        """
        lifecycle = self._lifecycle
        lifecycle.state = BrokerState.STARTING
        logger.info("barnabas %s (%s)", __version__, build())
        for unknown in self._config.unknown.values():
            logger.warning("%s It is ignored", unknown if unknown.endswith("?") else f"{unknown}.")
        if kept := kept_settings(self._config):
            logger.warning("These settings are kept, and nothing acts on them: %s", by_reason(kept))
        # Before any log is opened: the limit of descriptors decides how many segment files may stay open.
        descriptors = raise_descriptor_limit()
        tune_thread_switching()
        foundations = start_foundations(self._config, self.metrics, lifecycle)
        self._listeners = foundations.listeners
        storage = open_storage(foundations, int(descriptors * DESCRIPTORS_FOR_LOGS))
        self.broker_id, self.cluster_id = storage.identity.broker_id, storage.identity.cluster_id
        replication = start_replication(foundations, storage)
        control = build_control(foundations, storage, replication.connections)
        transactions = build_transactions(foundations, storage, replication)
        stages = BuiltStages(foundations, storage, replication, control, transactions)
        front = bind_front(stages, self._access_rules(foundations, storage), self._faults)
        _serve_controller(stages, front)
        _join_cluster(stages, front)
        storage.features.load()
        _follow_settings(stages, front)
        replication.groups.startup()
        transactions.coordinator.startup()
        front.startup_gate.open()
        front.sockets.enable_request_processing()
        # Registered last and therefore the first stop: other brokers take over while this one still serves.
        lifecycle.on_stop("controlled shutdown", lambda: _shut_down_controlled(stages))
        if self._faults is not None:
            # Before even that: a fault could hold up the requests of the shutdown.
            lifecycle.on_stop("faults", self._faults.stop)
        freeze_startup_objects()
        lifecycle.state = BrokerState.RUNNING
        logger.info("started broker %d of cluster %s", storage.identity.broker_id, self.cluster_id)
        if unprotected := unauthenticated_listeners(self._config):
            logger.warning(
                "Other machines reach %s without authentication, as User:ANONYMOUS. Bind these listeners to 127.0.0.1, "
                "or use SASL_SSL, or SSL with ssl.client.auth=required",
                ", ".join(end_point.connection_string for end_point in unprotected),
            )

    def _access_rules(self, foundations: Foundations, storage: StorageStage) -> AccessRules:
        """Return the rules of a test, or those of the settings, with all access control lists loaded."""
        access = self._access
        if access.authorizer is not None:
            return access
        authorization = start_authorization(foundations, storage.zk_client)
        if authorization is None:
            return access
        return AccessRules(authorization.authorizer, authorization.acls, access.channel_builders)

    def await_shutdown(self) -> None:
        """Wait until the broker has been shut down or something fatal has happened to it."""
        self._lifecycle.await_end()

    def shutdown(self) -> None:
        """Stop in the reverse order of the start; a second call does nothing. Errors are logged, and the rest stops."""
        self._lifecycle.stop()


def _serve_controller(stages: BuiltStages, front: FrontStage) -> None:
    """Read requests. Only the controller's are handled; all others wait until the startup gate opens."""
    lifecycle = stages.foundations.lifecycle
    # Before the handlers, so that the controller stops after them: the requests they finish may still ask it.
    lifecycle.on_stop("controller", stages.control.controller.shutdown)
    front.handlers.start()
    lifecycle.on_stop("request handlers", front.handlers.shutdown)
    front.sockets.enable_controller_requests()
    lifecycle.on_stop("request processing", lambda: _drain(front))


def _drain(front: FrontStage) -> None:
    front.sockets.stop_processing_requests()


def _join_cluster(stages: BuiltStages, front: FrontStage) -> None:
    """Register this broker and stand for controller; wait until the topics of an earlier run are led again.

    Raises ConfigError when another broker has one of the addresses or this id, or when this broker is denied what its
    controller does, OSError when no controller sends this broker its leaderships.
    """
    _expect_metadata_of_another_controller(stages)
    stages.storage.registration.register()
    stages.control.controller.startup()
    # In slices: after each, the clients that have waited at the gate are disconnected. Their connections and memory may
    # be what the controller's requests lack.
    for _ in range(CONTROLLER_TIMEOUT_SECONDS // PATIENCE_AT_GATE_SECONDS):
        if stages.control.ready.wait(PATIENCE_AT_GATE_SECONDS):
            _check_power(stages.control)
            return
        if turned_away := front.startup_gate.disconnect_waiting():
            logger.info("The controller's first requests are late: disconnecting %d waiting clients", turned_away)
    refused = stages.control.refused.last
    raise OSError(
        f"no controller sent this broker the cluster metadata within {CONTROLLER_TIMEOUT_SECONDS} s"
        + (f"; the last order that was refused came from {refused}" if refused else "")
    )


def _check_power(control: ControlStage) -> None:
    """Check that the controller may give this broker orders.

    Raises ConfigError: it reaches the broker as a user whom the authorizer denies them.
    """
    if refused := control.refused.of_own:
        raise ConfigError(
            f"The controller reaches this broker as {refused} Name this user in super.users, or allow it ClusterAction "
            "on the cluster",
            "super.users",
        )


def _expect_metadata_of_another_controller(stages: BuiltStages) -> None:
    """Make this broker ready when the controller, if it is another broker, has told it of the cluster."""
    broker_id = stages.storage.identity.broker_id

    def on_image(_old: MetadataImage, new: MetadataImage) -> None:
        # The first update that a broker gets after its registration has all partitions. Its own leaderships follow in
        # LeaderAndIsr; until then it answers for them as any broker that does not lead.
        if new.controller_id != broker_id and broker_id in new.brokers:
            stages.control.ready.set()

    stages.replication.metadata.subscribe(on_image)


def _follow_settings(stages: BuiltStages, front: FrontStage) -> None:
    """Have the parts of the broker take over the settings that changed since they were made, and later changes."""
    foundations, storage = stages.foundations, stages.storage

    def advertise() -> None:
        foundations.listeners.bound = [acceptor.end_point for acceptor in front.sockets.acceptors]
        storage.registration.update()

    def add_parts() -> None:
        from barnabas.broker.reconfigurable_parts import add_reconfigurable_parts

        add_reconfigurable_parts(stages, front, advertise)

    foundations.dynamic.follow(add_parts)
    foundations.lifecycle.on_stop("following settings", foundations.dynamic.stop)


def _shut_down_controlled(stages: BuiltStages) -> None:
    """Have other brokers lead what this broker leads, unless the broker ends because of a fatal error."""
    from barnabas.broker.controlled_shutdown import ControlledShutdownClient, ShutdownTerms

    config, lifecycle = stages.foundations.dynamic.current, stages.foundations.lifecycle
    terms = ShutdownTerms.from_kafka_config(config)
    is_connected = stages.storage.zk_client.stop_waiting()
    if lifecycle.exit_status or not terms.is_enabled:
        return
    if not is_connected:
        # The controller, which may be this broker, could write no other leader.
        logger.warning("ZooKeeper cannot be reached: the broker stops without giving its leaderships away")
        return
    lifecycle.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
    ControlledShutdownClient(
        stages.replication.connections,
        stages.replication.metadata,
        inter_broker_listener_name_of(config),
        stages.storage.identity.broker_id,
        lambda: stages.storage.registration.epoch,
        terms,
    ).run()
    lifecycle.state = BrokerState.SHUTTING_DOWN
