"""The broker: builds every object, starts them in order, stops them in reverse.

Made by the command line (or a test) on the main thread, which also calls `startup` and `shutdown`. Any thread may
report a fatal error, which asks for a stop with a non-zero exit status: `_ended` is an event, `exit_status` is set
before it. What `startup` builds belongs to the main thread and does not change afterwards.

Kafka: kafka.server.KafkaServer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.fetch_session_cache import FetchSessionCache
from barnabas.api.request_log import REFRESH_INTERVAL_MS, RequestLog
from barnabas.api.request_parser import RequestParser
from barnabas.api.startup_gate import StartupGate
from barnabas.api.topic_changes import TopicChanges
from barnabas.broker.api_table import build_registry
from barnabas.broker.broker_channels import BrokerConnections
from barnabas.broker.broker_identity import establish_identity
from barnabas.broker.broker_metrics import register_broker_metrics
from barnabas.broker.broker_state import BrokerState
from barnabas.broker.client_quotas import ClientQuotas
from barnabas.broker.controlled_shutdown import ControlledShutdown, ShutdownTerms
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.broker.group_coordination import build_group_coordinator
from barnabas.broker.handler_families import build_handler_families
from barnabas.broker.handler_pools import HandlerPools
from barnabas.broker.log_dir_failures import LogDirFailures
from barnabas.broker.process_tuning import (
    raise_descriptor_limit,
    settle_garbage_collection,
    tune_memory_allocation,
    tune_thread_switching,
)
from barnabas.broker.reconfigurable_parts import add_reconfigurable_parts
from barnabas.broker.stray_logs import stray_check
from barnabas.broker.topic_log_configs import TopicLogConfigs, on_unclean_election_allowed
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import kept_settings
from barnabas.config.listeners import (
    EndPoint,
    advertised_listeners_of,
    inter_broker_listener_name_of,
    listeners_of,
)
from barnabas.config.log_config import LogConfig
from barnabas.controller.controller import Controller
from barnabas.controller.controller_config import ControllerConfig, ElectionConfig
from barnabas.controller.controller_metrics import register_controller_metrics
from barnabas.controller.delayed_elect_leader import LeaderElections
from barnabas.metadata.broker_registration import NOT_REGISTERED, BrokerRegistration
from barnabas.metadata.config_change_listener import ConfigChangeListener
from barnabas.metadata.config_repository import ConfigRepository
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.network.host_name import canonical_host_name
from barnabas.network.network_config import NetworkConfig
from barnabas.network.network_metrics import NetworkMetrics, register_network_metrics
from barnabas.network.request_metrics import RequestMetrics
from barnabas.network.socket_server import SocketServer
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.expiration_executor import ExpirationExecutor
from barnabas.purgatory.timer import SystemTimer
from barnabas.replica.alter_partition_manager import ZkAlterPartitionManager
from barnabas.replica.replica_config import ReplicaConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_purgatory
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.runtime.scheduler import ThreadScheduler
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_manager_config import LogManagerConfig
from barnabas.transport.selector import ChannelBuilder
from barnabas.zk.embedded_store import EmbeddedStore
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.zk_data import BrokerInfo, ConfigType

logger = logging.getLogger(__name__)

FATAL_EXIT_STATUS = 1
CONTROLLER_TIMEOUT_SECONDS = 60
PATIENCE_AT_GATE_SECONDS = 10
"""So long clients wait for a broker that starts before they are hung up on: their connections may be what the
controller's is missing."""
UNROUTABLE_HOSTS = ("", "0.0.0.0", "::")
DESCRIPTORS_FOR_LOGS = 0.75
"""Share of the descriptor limit that segment files may hold; sockets and the rest have what is left."""


class BrokerServer:
    """One broker in one process.

    config: the parsed settings. After `startup`, `bound_endpoints` are the addresses clients may use and `cluster_id`
    is known. `metrics` names what it counts. `exit_status` is 0 unless something fatal ended the broker.
    authorizer: who may do what; None: everybody everything. channel_builders: see SocketServer.
    """

    def __init__(
        self,
        config: KafkaConfig,
        *,
        authorizer: Authorizer | None = None,
        channel_builders: Mapping[str, ChannelBuilder] | None = None,
    ) -> None:
        self._config = config
        self._authorizer = authorizer
        self._channel_builders = channel_builders
        self._dynamic = DynamicBrokerConfig(config)
        self._clock = SystemClock()
        self._files = OperatingSystemFiles()
        self._actions = ActionQueue()
        self._ended = threading.Event()
        self._stops: list[tuple[str, Callable[[], None]]] = []
        self._broker_epoch: Callable[[], int] = lambda: NOT_REGISTERED
        self.metrics = MetricsRegistry()
        self.state = BrokerState.NOT_RUNNING
        self.metrics.gauge("kafka.server", "KafkaServer", "BrokerState", lambda: self.state)
        self.exit_status = 0
        self.bound_endpoints: list[EndPoint] = []
        self.cluster_id = ""

    def startup(self) -> None:
        """Start everything; when it returns, requests are being answered.

        Order (article-facts N13, KafkaServer): descriptors, store and identity, logs, replicas, sockets bound, the
        controller's requests, registration, controller, and only then everybody's requests. Raises ConfigError or
        OSError where it cannot start; `shutdown` then stops what had been started.
        """
        self.state = BrokerState.STARTING
        if kept := kept_settings(self._config):
            logger.warning("These settings are kept, and nothing acts on them: %s", ", ".join(kept))
        descriptors = raise_descriptor_limit()
        tune_thread_switching()
        tune_memory_allocation()
        self._start_background_threads()
        self._open_store_and_logs(int(descriptors * DESCRIPTORS_FOR_LOGS))
        self._start_replicas()
        self._build_controller()
        self._bind_sockets()
        self._serve_controller()
        self._join_cluster()
        self._follow_settings()
        self._groups.startup()
        self._startup_gate.open()
        self._sockets.enable_request_processing()
        self._on_stop("controlled shutdown", self._shut_down_controlled)
        settle_garbage_collection()
        self.state = BrokerState.RUNNING
        logger.info("started broker %d of cluster %s", self._broker_id, self.cluster_id)

    def await_shutdown(self) -> None:
        """Wait until the broker has been shut down or something fatal has happened to it."""
        self._ended.wait()

    def shutdown(self) -> None:
        """Stop in the reverse order of the start; a second call does nothing. Errors are logged, and the rest stops."""
        self.state = BrokerState.SHUTTING_DOWN
        while self._stops:
            what, stop = self._stops.pop()
            try:
                stop()
            except Exception:
                logger.exception("stopping %s failed", what)
        self.state = BrokerState.NOT_RUNNING
        self._ended.set()

    def fail(self, error: BaseException) -> None:
        """Something the broker cannot go on without has failed: have whoever waits for it shut it down."""
        logger.critical("the broker cannot go on: %s", error)
        self.state = BrokerState.SHUTTING_DOWN
        self.exit_status = FATAL_EXIT_STATUS
        self._ended.set()

    def _on_stop(self, what: str, stop: Callable[[], None]) -> None:
        self._stops.append((what, stop))

    def _start_background_threads(self) -> None:
        executor = ExpirationExecutor(self._actions)
        executor.start()
        self._on_stop("expiration executor", executor.shutdown)
        self._timer = SystemTimer(self._clock, executor.execute)
        self._timer.start()
        self._on_stop("timer", self._timer.shutdown)
        self._scheduler = ThreadScheduler(self._config.integer("background.threads"), self._clock)
        self._scheduler.start()
        self._on_stop("scheduler", self._scheduler.shutdown)

    def _new_cleaner(self, log_dirs: Sequence[str], logs: CleanerLogs) -> LogCleaner:
        config = CleanerConfig.from_kafka_config(self._dynamic.current)
        return LogCleaner(config, log_dirs, logs, self._files, self._clock)

    def _open_store_and_logs(self, open_files: int) -> None:
        config = self._config
        timeout_ms = config.integer("log.dir.failure.timeout.ms")
        self._log_dir_failures = LogDirFailures(self.fail, self._clock, timeout_ms=timeout_ms)
        self._directories = LogDirectories(config.log_dirs, self._files, self._log_dir_failures.notify)
        self._directories.open()
        self._on_stop("log directories", self._directories.release)
        self._metadata_dir = os.path.abspath(config.optional_string("metadata.log.dir") or config.log_dirs[0])
        if self._metadata_dir in self._directories.offline_paths():
            raise OSError(f"Shutdown broker because the metadata log dir {self._metadata_dir} has failed")
        store = EmbeddedStore(self._metadata_dir, self._clock, self.fail)
        store.start()
        self._on_stop("metadata store", store.close)
        self._zk_client = KafkaZkClient(store.new_session(), self._clock)
        self._zk_client.make_sure_persistent_paths_exist()
        identity = establish_identity(config, self._zk_client, self._directories)
        self._broker_id, self.cluster_id = identity.broker_id, identity.cluster_id
        repository = ConfigRepository(self._zk_client)
        self._dynamic.load(repository.broker_overrides, self._broker_id)
        self._topic_configs = topic_configs = TopicLogConfigs(repository, lambda: self._dynamic.current)
        self._log_manager = LogManager(
            self._directories,
            self._files,
            self._scheduler,
            self._clock,
            LogManagerConfig.from_kafka_config(config, open_files=open_files),
            LogConfig.of(config),
            topic_config=topic_configs.log_config,
        )
        self._on_stop("logs", lambda: self._log_manager.shutdown(self._broker_epoch()))
        topic_configs.begin_loading()
        is_cleaning = config.boolean("log.cleaner.enable")
        is_stray = stray_check(self._zk_client)
        self.state = BrokerState.RECOVERY
        self._log_manager.startup(is_stray, make_cleaner=self._new_cleaner if is_cleaning else None)
        topic_configs.end_loading()
        self._config_changes = ConfigChangeListener(self._zk_client, self._scheduler, self._clock)
        self._config_changes.register(ConfigType.TOPIC, topic_configs.updater(self._log_manager.update_log_config))
        self._config_changes.register(ConfigType.BROKER, self._dynamic.entity_changed)
        self._config_changes.start()
        self._on_stop("settings", self._config_changes.stop)

    def _start_replicas(self) -> None:
        self._metadata = MetadataCache(self._broker_id, self.cluster_id)
        alter_partitions = ZkAlterPartitionManager(self._zk_client, self._scheduler, self._clock)
        alter_partitions.start()
        self._replicas = ReplicaManager(
            ReplicaConfig.from_kafka_config(self._dynamic.current, broker_id=self._broker_id),
            self._log_manager,
            self._scheduler,
            self._timer,
            self._actions,
            self._files,
            self._metadata,
            self._clock,
            alter_partitions,
        )
        self._replicas.startup()
        self._on_stop("replicas", self._replicas.shutdown)
        self._groups = build_group_coordinator(
            self._dynamic.current,
            self._clock,
            self._timer,
            self._scheduler,
            self._actions,
            self._replicas,
            self._metadata,
            self.metrics,
        )
        self._on_stop("group coordinator", self._groups.shutdown)
        register_broker_metrics(self.metrics, self._replicas, self._log_manager, self._scheduler, self._clock)
        self._log_dir_failures.start(
            self._replicas.handle_log_dir_failure,
            lambda: self._log_manager.live_log_dirs,
            lambda: self._zk_client.propagate_log_dir_event(self._broker_id),
            needed_dir=self._metadata_dir,
        )
        self._on_stop("log directory failures", self._log_dir_failures.shutdown)

    def _bind_sockets(self) -> None:
        """Bind every listener: from here on clients can connect, and wait until the broker is ready for them."""
        config = self._dynamic.current
        topic_changes = TopicChanges(self._metadata, self._timer)
        self._metadata.subscribe(topic_changes.metadata_changed)
        register_purgatory(self.metrics, topic_changes.purgatory)
        elections = LeaderElections(self._controller, self._metadata, self._timer, self._clock)
        self._metadata.subscribe(elections.metadata_changed)
        register_purgatory(self.metrics, elections.purgatory)
        slots = config.integer("max.incremental.fetch.session.cache.slots")
        fetch_sessions = FetchSessionCache(slots, self._clock, Random())
        fetch_sessions.register(self.metrics)
        families = build_handler_families(
            self._dynamic,
            self._broker_id,
            self._clock,
            self._replicas,
            self._metadata,
            self._zk_client,
            topic_changes,
            lambda: self._broker_epoch(),  # noqa: PLW0108 - registration comes later
            self._controller,
            elections,
            self._groups,
            fetch_sessions=fetch_sessions,
            authorizer=self._authorizer,
        )
        registry = build_registry(families, config.optional_string("broker.emulate.version"))
        request_log = RequestLog()
        self._scheduler.schedule("request-log-level", request_log.refresh, period_ms=REFRESH_INTERVAL_MS)
        parser = RequestParser(registry, request_log)
        apis = Apis(self._actions, self._clock.nanoseconds)
        self._startup_gate = StartupGate(parser, registry, apis.handle_moved)
        network = NetworkConfig.from_kafka_config(
            config,
            broker_id=self._broker_id,  # it may have been generated, and names the threads
            inter_broker_listener=inter_broker_listener_name_of(config),
        )
        requests = RequestMetrics(request_log)
        self._sockets = SocketServer(
            network,
            listeners_of(config),
            parser.parse,
            apis.handle,
            self._clock,
            self.fail,
            on_complete=requests.record,
            channel_builders=self._channel_builders,
        )
        quotas = ClientQuotas(config, registry, self._timer, self._scheduler, self.metrics, self._clock)
        address_quotas = self._sockets.connection_quotas
        quotas.start(self._zk_client, self._config_changes, address_quotas.update_ip_connection_rate_quota)
        self._handlers = HandlerPools(
            self._sockets, apis, registry, self._clock, config.integer("num.io.threads"), self.fail
        )
        self.bound_endpoints = self._sockets.bind()
        self._on_stop("sockets", self._sockets.shutdown)
        pools = [pool for pool in (self._handlers.data_plane, self._handlers.control_plane) if pool is not None]
        register_network_metrics(self.metrics, NetworkMetrics(self._sockets, pools, requests, self._clock), requests)
        self._on_stop("topic purgatory", topic_changes.purgatory.shutdown)
        self._on_stop("election purgatory", elections.purgatory.shutdown)

    def _build_controller(self) -> None:
        """Make this broker's candidate for controller, which requests may ask as soon as they are read."""
        self._ready = threading.Event()
        self._controller = Controller(
            ControllerConfig.from_kafka_config(
                self._dynamic.current,
                broker_id=self._broker_id,
                inter_broker_listener_name=inter_broker_listener_name_of(self._dynamic.current),
                unclean_leader_election_enable=lambda: (
                    ElectionConfig.from_kafka_config(self._dynamic.current).unclean_leader_election_enable
                ),
            ),
            self._zk_client,
            lambda: self._registration.register(),  # noqa: PLW0108 - it exists once the sockets are bound
            lambda broker: self._connections.new_channel(broker),  # noqa: PLW0108 - so do these
            self._scheduler,
            on_ready=self._ready.set,
            clock=self._clock,
        )
        register_controller_metrics(self.metrics, self._controller)
        self._config_changes.register(
            ConfigType.TOPIC, on_unclean_election_allowed(self._controller.enable_unclean_leader_election)
        )

    def _serve_controller(self) -> None:
        """Read requests. Only the controller's are handled; all others wait until the startup gate opens."""
        self._on_stop("controller", self._controller.shutdown)
        self._handlers.start()
        self._on_stop("request handlers", self._handlers.shutdown)
        self._sockets.enable_controller_requests()
        self._on_stop("request processing", self._drain)

    def _join_cluster(self) -> None:
        """Register this broker and stand for controller; wait until the topics of an earlier run are led again."""
        self._connections = BrokerConnections(
            self._dynamic.current, self._broker_id, self.bound_endpoints, self._clock, self.metrics
        )
        self._registration = BrokerRegistration(self._zk_client, self._broker_info())
        self._registration.register()
        self._broker_epoch = lambda: self._registration.epoch
        self._controller.startup()
        for _ in range(CONTROLLER_TIMEOUT_SECONDS // PATIENCE_AT_GATE_SECONDS):
            if self._ready.wait(PATIENCE_AT_GATE_SECONDS):
                return
            if turned_away := self._startup_gate.turn_away():
                logger.info("The controller's requests take long: %d clients that wait are turned away", turned_away)
        raise OSError(f"no controller told this broker of the cluster within {CONTROLLER_TIMEOUT_SECONDS} s")

    def _follow_settings(self) -> None:
        """Have the parts of the broker take over what was changed since they were made, and what will be."""
        add_reconfigurable_parts(
            self._dynamic,
            self._config,
            self._broker_id,
            self._log_manager,
            self._topic_configs,
            self._scheduler,
            self._sockets,
            self._handlers,
            self._controller,
            self._advertise,
        )
        self._on_stop("following settings", self._dynamic.stop)

    def _advertise(self) -> None:
        self.bound_endpoints = [acceptor.end_point for acceptor in self._sockets.acceptors]
        self._registration.update(self._broker_info())

    def _broker_info(self) -> BrokerInfo:
        rack = self._config.optional_string("broker.rack")
        return BrokerInfo(self._broker_id, tuple(self._advertised()), rack)

    def _advertised(self) -> list[EndPoint]:
        """What clients are told: the advertised listeners, with the ports that were bound and a host they can use.

        Only of listeners that are open, and the address they have: one given while the broker runs may not be it.
        """
        bound = {end_point.listener_name: end_point for end_point in self.bound_endpoints}
        config = self._dynamic.current
        as_bound = not config.optional_string("advertised.listeners")
        advertised = []
        for end_point in advertised_listeners_of(config):
            listener = bound.get(end_point.listener_name)
            if listener is None:
                continue
            named = listener if as_bound else end_point if end_point.port else end_point.with_port(listener.port)
            if named.host in UNROUTABLE_HOSTS:
                named = replace(named, host=canonical_host_name())
            advertised.append(named)
        return advertised

    def _shut_down_controlled(self) -> None:
        """Let others lead what this broker leads; not when something it can't go on without has failed."""
        config = self._dynamic.current
        if self.exit_status or not config.boolean("controlled.shutdown.enable"):
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        ControlledShutdown(
            self._connections,
            self._metadata,
            inter_broker_listener_name_of(config),
            self._broker_id,
            self._broker_epoch,
            ShutdownTerms.from_kafka_config(config),
        ).run()
        self.state = BrokerState.SHUTTING_DOWN

    def _drain(self) -> None:
        self._sockets.stop_processing_requests()
