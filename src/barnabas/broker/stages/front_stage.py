"""The sixth and last stage of a broker's start: the authorizer, the table of APIs, the sockets, the request handlers.

Built by BrokerServer on the main thread. The lists of the authorizer are loaded first: no request is answered before.
From here on clients can connect; their requests are read when the handlers have started, and wait at the startup gate
until the broker is ready for them. A broker without an authorizer, logins or tokens imports nothing of them.

Kafka: the part of KafkaServer.startup about the authorizer, DelegationTokenManager, SocketServer, KafkaApis and
KafkaRequestHandlerPool.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.fetch.fetch_session_cache import FetchSessionCache
from barnabas.api.gates import ControlPlaneApis, StartupGate
from barnabas.api.handlers.api_versions import ApiVersionsApi
from barnabas.api.registry import Registry
from barnabas.api.request_log import REFRESH_INTERVAL_MS, RequestLog
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import VerificationMetrics
from barnabas.broker.channels.inter_broker_security import broker_logins_of, create_missing_credentials
from barnabas.broker.channels.listener_channels import ListenerChannels
from barnabas.broker.foundations import Foundations
from barnabas.broker.settings.client_quotas import ClientQuotas
from barnabas.broker.settings.server_config import RequestHandlerConfig, ServerConfig
from barnabas.broker.stages.api_table import ServedParts, build_registry
from barnabas.broker.stages.control_stage import ControlStage
from barnabas.broker.stages.replication_stage import ReplicationStage
from barnabas.broker.stages.storage_stage import StorageStage
from barnabas.broker.stages.transaction_stage import TransactionStage
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigType, parse_value
from barnabas.config.config_values import ConfigValues
from barnabas.config.listeners import inter_broker_listener_name_of, listeners_of
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.scram_credential_cache import ScramCredentialCache
from barnabas.network.connections.channel_builders import CONTROL_PLANE
from barnabas.network.network_config import NetworkConfig
from barnabas.network.network_metrics import NetworkMetrics, register_network_metrics
from barnabas.network.request_handler import RequestHandlerPool
from barnabas.network.requests.request_channel import RequestHandling
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.network.server_thread import FatalHandler
from barnabas.network.socket_server import SocketServer
from barnabas.purgatory.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory
from barnabas.replica.replica_metrics import register_purgatory
from barnabas.runtime.clock import Clock
from barnabas.runtime.lazy import Lazy
from barnabas.transport.channel.authenticator import ChannelBuilder
from barnabas.zk.kafka_zk_client import KafkaZkClient

if TYPE_CHECKING:
    from barnabas.api.topic_changes import DelayedTopicChange, TopicChanges
    from barnabas.controller.delayed_elect_leader import DelayedElectLeader, LeaderElections
    from barnabas.faults.fault_layer import FaultLayer
    from barnabas.metadata.acl_admin import AclAdmin
    from barnabas.metadata.delegation_token_manager import DelegationTokenManager
    from barnabas.security.acl.acl_authorizer import AclAuthorizer
    from barnabas.security.sasl.sasl_server import LoginParts


authorizer_logger = logging.getLogger("kafka.authorizer.logger")
if authorizer_logger.level == logging.NOTSET:
    authorizer_logger.setLevel(logging.INFO)  # as Kafka ships it: not with everything else at DEBUG

CONTROL_PLANE_HANDLERS: Final = 1
TOKEN_SECRETS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The settings of which one makes delegation tokens possible: the new name of KIP-681, and the old one."""
_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


# -- the authorizer


def _super_users(config: ConfigValues) -> frozenset[str]:
    text = config.originals.get(_SUPER_USERS)
    if not text:
        return frozenset()
    from barnabas.security.acl.acl_authorizer import parse_super_users

    try:
        return parse_super_users(text)
    except ValueError as error:
        raise ConfigError(f"Invalid value for configuration {_SUPER_USERS}: {error}", _SUPER_USERS) from error


def _allow_if_none(config: ConfigValues) -> bool:
    return parse_value(_ALLOW_EVERYONE, ConfigType.BOOLEAN, config.originals.get(_ALLOW_EVERYONE, "false")) is True


class AuthorizerConfig(Settings):
    """The settings of the authorizer. class_name: empty without one."""

    class_name: str = setting("authorizer.class.name")
    super_users: frozenset[str] = computed(_super_users)
    allow_if_none: bool = computed(_allow_if_none)


class Authorization(NamedTuple):
    """The authorizer, and the keeper of its lists."""

    authorizer: AclAuthorizer
    acls: AclAdmin


def start_authorization(foundations: Foundations, zk_client: KafkaZkClient) -> Authorization | None:
    """Make the authorizer, load its lists and follow their changes; None if the settings ask for none.

    Raises ConfigError: a setting of the authorizer is wrong. Raises ZnodeFormatError: a list cannot be understood.
    """
    settings = AuthorizerConfig.from_kafka_config(foundations.static)
    if not settings.class_name:
        return None
    from barnabas.metadata.acl_admin import AclAdmin
    from barnabas.security.acl.acl_authorizer import AclAuthorizer

    authorizer = AclAuthorizer(settings.super_users, allow_if_none=settings.allow_if_none)
    acls = AclAdmin(zk_client, authorizer, foundations.scheduler, foundations.clock)
    acls.start()
    foundations.lifecycle.on_stop("access control lists", acls.stop)
    return Authorization(authorizer, acls)


# -- the stage


class AccessRules(NamedTuple):
    """The rules of access: how clients connect and what they may do."""

    authorizer: Authorizer | None = None
    """None: every client may do everything."""
    acls: AclAdmin | None = None
    """The keeper of the lists that the authorizer decides by; None when it has none."""
    channel_builders: Mapping[str, ChannelBuilder] | None = None
    """The builders of channels by security protocol, for tests; None: those of each listener's settings."""


class BuiltStages(NamedTuple):
    """The stages below this one."""

    foundations: Foundations
    storage: StorageStage
    replication: ReplicationStage
    control: ControlStage
    transactions: TransactionStage


class HandlerPools:
    """The request handlers of both planes, started and stopped together.

    `control_plane` is None unless the controller has a listener of its own. count: of the data plane's handlers.
    """

    def __init__(
        self,
        sockets: SocketServer,
        apis: Apis,
        control_plane_apis: ControlPlaneApis,
        clock: Clock,
        count: int,
        on_fatal: FatalHandler,
    ) -> None:
        self.data_plane = RequestHandlerPool(sockets.data_plane_request_channel, apis.handle, clock, count, on_fatal)
        self.control_plane: RequestHandlerPool | None = None
        if sockets.control_plane_request_channel is not None:
            self.control_plane = RequestHandlerPool(
                sockets.control_plane_request_channel,
                control_plane_apis.handle,
                clock,
                CONTROL_PLANE_HANDLERS,
                on_fatal,
                prefix=CONTROL_PLANE,
            )

    def start(self) -> None:
        """Start the threads, the control plane's first."""
        if self.control_plane is not None:
            self.control_plane.start()
        self.data_plane.start()

    def shutdown(self) -> None:
        """Let the threads handle the queued requests, and end them."""
        self.data_plane.shutdown()
        if self.control_plane is not None:
            self.control_plane.shutdown()


class FrontStage(NamedTuple):
    """The parts between clients and the stages below; the sockets are bound and nothing is read yet."""

    sockets: SocketServer
    channels: ListenerChannels
    handlers: HandlerPools
    startup_gate: StartupGate


def bind_front(stages: BuiltStages, access: AccessRules, faults: FaultLayer | None = None) -> FrontStage:
    """Build the table of APIs and bind every listener. faults: of a broker that the test kit started for them.

    Raises ConfigError or OSError when a listener cannot be bound, ConfigError for faults that cannot be installed.
    """
    foundations, storage = stages.foundations, stages.storage
    config, clock, lifecycle = foundations.dynamic.current, foundations.clock, foundations.lifecycle
    waiting_changes: DelayedOperationPurgatory[DelayedTopicChange] = DelayedOperationPurgatory(
        "topic", foundations.timer
    )
    topic_changes = _late_topic_changes(stages, waiting_changes)
    waiting_elections: DelayedOperationPurgatory[DelayedElectLeader] = DelayedOperationPurgatory(
        "ElectLeader", foundations.timer
    )
    elections = _late_elections(stages, waiting_elections)
    tokens = _start_delegation_tokens(foundations, storage.zk_client)
    acl_changes = DelayedFuturePurgatory("AlterAcls", foundations.timer)
    register_purgatory(foundations.metrics, acl_changes.operations)
    registry = _build_registry(stages, topic_changes, elections, acl_changes, tokens, access)
    request_log = RequestLog()
    foundations.scheduler.schedule("request-log-level", request_log.refresh, period_ms=REFRESH_INTERVAL_MS)
    apis = Apis(foundations.actions, clock.nanoseconds)
    # Requests are parsed by the table with faults in front of it; all else (quotas, ApiVersions) is about the real one.
    served = registry if faults is None else _intercepted(stages, registry, apis, faults)
    parser = RequestParser(served, request_log)
    startup_gate = StartupGate(parser, served, apis.handle_moved)
    requests = RequestMetrics(request_log)
    versions = ApiVersionsApi(lambda: served, storage.features)
    credentials = ScramCredentialCache(storage.zk_client, None if tokens is None else tokens.credential)
    create_missing_credentials(broker_logins_of(config), storage.zk_client.configs)
    credentials.start(storage.config_changes)

    def logins() -> LoginParts:
        from barnabas.security.sasl.sasl_server import LoginParts

        return LoginParts(credentials, versions.before_login, clock, foundations.scheduler)

    channels = ListenerChannels(lambda: foundations.dynamic.current, clock, logins, access.channel_builders)
    sockets = SocketServer(
        NetworkConfig.from_kafka_config(
            config,
            # The id may have been generated, and is part of the threads' names.
            broker_id=storage.identity.broker_id,
            inter_broker_listener=inter_broker_listener_name_of(config),
        ),
        listeners_of(config),
        RequestHandling(parser, apis, requests),
        clock,
        lifecycle.fail,
        channel_builders=channels,
    )
    quotas = ClientQuotas(config, registry, foundations.timer, foundations.scheduler, foundations.metrics, clock)
    address_quotas = sockets.connection_quotas
    # Before the sockets are bound: the first connection already counts against the quotas in the store.
    quotas.start(storage.zk_client, storage.config_changes, address_quotas.update_ip_connection_rate_quota)
    control_plane_apis = ControlPlaneApis(registry, apis.handle, parser.large_requests)
    handlers = HandlerPools(
        sockets, apis, control_plane_apis, clock, RequestHandlerConfig.from_kafka_config(config).threads, lifecycle.fail
    )
    # From here on the ports are known, which the registration and the controller's channel to this broker need.
    foundations.listeners.bound = sockets.bind()
    lifecycle.on_stop("sockets", sockets.shutdown)
    pools = [pool for pool in (handlers.data_plane, handlers.control_plane) if pool is not None]
    register_network_metrics(foundations.metrics, NetworkMetrics(sockets, pools, requests, clock), requests)
    # Registered after the sockets and so stopped before them: the pending requests are answered on open connections.
    lifecycle.on_stop("topic purgatory", waiting_changes.shutdown)
    lifecycle.on_stop("election purgatory", waiting_elections.shutdown)
    lifecycle.on_stop("AlterAcls purgatory", acl_changes.operations.shutdown)
    return FrontStage(sockets, channels, handlers, startup_gate)


def _intercepted(stages: BuiltStages, registry: Registry, apis: Apis, faults: FaultLayer) -> Registry:
    from barnabas.faults.fault_layer import BrokerParts

    metadata = stages.replication.metadata
    broker = BrokerParts(
        stages.foundations.timer,
        apis.handle_moved,
        lambda: metadata.image.topic_names,
        own_client_id=str(stages.storage.identity.broker_id),
    )
    return faults.intercept(registry, broker)


def _tell_of_metadata(stages: BuiltStages, part: Lazy[TopicChanges] | Lazy[LeaderElections]) -> None:
    """Tell a part of changed metadata, once it is made: before that no request waits."""

    def metadata_changed(old: MetadataImage, new: MetadataImage) -> None:
        if part.made is not None:
            part.made.metadata_changed(old, new)

    stages.replication.metadata.subscribe(metadata_changed)


def _late_topic_changes(
    stages: BuiltStages, waiting: DelayedOperationPurgatory[DelayedTopicChange]
) -> Lazy[TopicChanges]:
    """Return what has requests wait for changed topics, which is imported with the first such request."""

    def new_topic_changes() -> TopicChanges:
        from barnabas.api.topic_changes import TopicChanges

        return TopicChanges(stages.replication.metadata, waiting)

    topic_changes = Lazy(new_topic_changes)
    _tell_of_metadata(stages, topic_changes)
    register_purgatory(stages.foundations.metrics, waiting)
    return topic_changes


def _late_elections(
    stages: BuiltStages, waiting: DelayedOperationPurgatory[DelayedElectLeader]
) -> Lazy[LeaderElections]:
    """Return what serves requests for elections, which is imported with the first one."""
    foundations = stages.foundations

    def new_elections() -> LeaderElections:
        from barnabas.controller.delayed_elect_leader import LeaderElections

        return LeaderElections(stages.control.controller, stages.replication.metadata, waiting, foundations.clock)

    elections = Lazy(new_elections)
    _tell_of_metadata(stages, elections)
    register_purgatory(foundations.metrics, waiting)
    return elections


def _start_delegation_tokens(foundations: Foundations, zk_client: KafkaZkClient) -> DelegationTokenManager | None:
    """Load the tokens in the store and follow their changes, before the first connection is accepted.

    Returns their manager, with a cache that holds SCRAM credentials for logins by token; None without
    `delegation.token.secret.key`.
    """
    if not any(map(foundations.static.optional_string, TOKEN_SECRETS)):
        return None
    from barnabas.metadata.delegation_token_manager import DelegationTokenManager, TokenConfig
    from barnabas.security.delegation_token import TokenCache, credentials_of_token

    config = TokenConfig.from_kafka_config(foundations.static)
    manager = DelegationTokenManager(config, zk_client.tokens, TokenCache(credentials_of_token), foundations.clock)
    manager.start(foundations.scheduler)
    foundations.lifecycle.on_stop("delegation tokens", manager.stop)
    return manager


def _build_registry(
    stages: BuiltStages,
    topic_changes: Lazy[TopicChanges],
    elections: Lazy[LeaderElections],
    acl_changes: DelayedFuturePurgatory,
    tokens: DelegationTokenManager | None,
    access: AccessRules,
) -> Registry:
    foundations, storage, replication = stages.foundations, stages.storage, stages.replication
    settings = ServerConfig.from_kafka_config(foundations.dynamic.current)
    fetch_sessions = FetchSessionCache(
        settings.fetch_session_slots, foundations.clock, Random(), replication.replicas.waiting.sessions
    )
    fetch_sessions.register(foundations.metrics)
    verifications = VerificationMetrics(foundations.clock)
    verifications.register(foundations.metrics)
    parts = ServedParts(
        dynamic=foundations.dynamic,
        broker_id=storage.identity.broker_id,
        broker_epoch=lambda: storage.registration.epoch,
        inter_broker_listener=inter_broker_listener_name_of(foundations.dynamic.current),
        own_principal=replication.connections.security.principal_at,
        brokers_principals=AuthorizerConfig.from_kafka_config(foundations.static).super_users,
        refused_orders=stages.control.refused,
        require_room=storage.log_manager.require_room,
        clock=foundations.clock,
        replicas=replication.replicas,
        metadata=replication.metadata,
        zk_client=storage.zk_client,
        topic_changes=topic_changes,
        controller=stages.control.controller,
        elections=elections,
        groups=replication.groups,
        fetch_sessions=fetch_sessions,
        producer_ids=stages.transactions.producer_ids,
        features=storage.features,
        transactions=stages.transactions.coordinator,
        verifications=verifications,
        delegation_tokens=tokens,
        acls=access.acls,
        acl_changes=acl_changes,
    )
    return build_registry(parts, access.authorizer, settings.emulated_release)
