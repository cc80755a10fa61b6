"""The table of APIs, composed of the handler families, with the parts of the broker and the settings that they get.

Built by `front_stage` once, at start; each family lists its own lines. What nearly every broker answers is imported
here: ApiVersions, Metadata, Produce, Fetch and the controller's orders. All other families are late: imported, with
what only they need, when the first of their requests comes (`api.registry`). A new API is its messages with their
row in `protocol.message_index`, a method of a family with its line in `handlers()`, and, for a new family, a line here.
Version floors are those of Kafka 3.9, ceilings those of 4.x, as the messages have them; a family says where it serves
fewer.

Kafka: KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.api.authorize import Authorizer
from barnabas.api.fetch.fetch_session_cache import FetchSessionCache
from barnabas.api.fetch.fetch_sessions import FetchSessions
from barnabas.api.handlers.api_versions import ApiVersionsApi
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.handlers.inter_broker import InterBrokerApi
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.origins import BrokerOrigin, BrokerSenders, ControllerOrigin, RefusedOrders
from barnabas.api.registry import HandlerFamily, LateFamilies, Registry, narrowed
from barnabas.api.transaction_verification import TransactionVerification, VerificationMetrics
from barnabas.broker.settings.client_quotas import is_address
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import validate_topic_config
from barnabas.config.setting import Settings, setting
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.metadata.cluster_features import ClusterFeatures
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.stored_configs import ConfigRepository
from barnabas.protocol.api_keys import ApiKey
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.runtime.lazy import Lazy
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

if TYPE_CHECKING:
    from barnabas.api.topic_changes import TopicChanges
    from barnabas.controller.controller import Controller
    from barnabas.controller.delayed_elect_leader import LeaderElections
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator
    from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from barnabas.metadata.acl_admin import AclAdmin
    from barnabas.metadata.auto_topic_creation import AutoTopicCreation
    from barnabas.metadata.delegation_token_manager import DelegationTokenManager
    from barnabas.metadata.producer_ids import ProducerIdManager
    from barnabas.metadata.registered_addresses import RegisteredAddresses
    from barnabas.metadata.topic_admin import TopicAdmin
    from barnabas.purgatory.purgatory import DelayedFuturePurgatory

FIRST_TWO_VERSIONS: Final = (0, 1)


class ApiConfig(Settings):
    """Limits of requests and answers, and what clients may do. None of them changes while the broker runs."""

    auto_create_topics: bool = setting("auto.create.topics.enable")
    connections_max_idle_ms: int = setting("connections.max.idle.ms")
    control_plane_listener: str | None = setting("control.plane.listener.name")
    delete_topics: bool = setting("delete.topic.enable")
    fetch_max_bytes: int = setting("fetch.max.bytes")
    max_partitions_per_description: int = setting("max.request.partition.size.limit")
    max_offset_metadata_size: int = setting("offset.metadata.max.bytes")
    request_timeout_ms: int = setting("request.timeout.ms")


class ServedParts(NamedTuple):
    """The parts of a broker that requests reach.

    broker_epoch: of the registration in force. inter_broker_listener: the name of the brokers' own listener.
    own_principal: the one that this broker has at a listener, as a client. brokers_principals: those that other brokers
    may have there. refused_orders: of controllers. require_room: checks that new logs find room.
    delegation_tokens: None without their secret. acls: None without an authorizer that keeps lists.
    """

    dynamic: DynamicBrokerConfig
    broker_id: int
    broker_epoch: Callable[[], int]
    inter_broker_listener: str
    own_principal: Callable[[str], str]
    brokers_principals: frozenset[str]
    refused_orders: RefusedOrders
    require_room: Callable[[], None]
    clock: Clock
    replicas: ReplicaManager
    metadata: MetadataCache
    zk_client: KafkaZkClient
    topic_changes: Lazy[TopicChanges]
    controller: Controller
    elections: Lazy[LeaderElections]
    groups: LateCoordinator[GroupCoordinator]
    fetch_sessions: FetchSessionCache
    producer_ids: Lazy[ProducerIdManager]
    features: ClusterFeatures
    transactions: LateCoordinator[TransactionCoordinator]
    verifications: VerificationMetrics
    delegation_tokens: DelegationTokenManager | None
    acls: AclAdmin | None
    acl_changes: DelayedFuturePurgatory


def build_registry(
    parts: ServedParts, authorizer: Authorizer | None = None, emulated_release: str | None = None
) -> Registry:
    """Build the table, or the part of it that a release of Apache Kafka has (`broker.emulate.version`).

    Raises ValueError when two families serve the same API.
    """
    registry: Registry
    config = parts.dynamic.current
    settings = ApiConfig.from_kafka_config(config)
    # One for Metadata and FindCoordinator: it knows which topics are being created.
    creation = Lazy(lambda: _topic_creation(parts, config))
    addresses = Lazy(lambda: _registered_addresses(parts))
    senders = BrokerSenders(
        parts.own_principal, parts.brokers_principals, lambda address: addresses().includes(address)
    )
    brokers = BrokerOrigin(authorizer, senders, listener_name=parts.inter_broker_listener)
    # With a control plane the controller's requests are taken there alone: elsewhere any client could send them.
    origin = ControllerOrigin(
        authorizer, senders, parts.refused_orders, has_control_plane=settings.control_plane_listener is not None
    )
    early: Sequence[HandlerFamily] = (
        # A callable, since the registry is made of the handlers of this very family.
        ApiVersionsApi(lambda: registry, parts.features),
        MetadataApi(parts.metadata, lambda: creation().on_first_use, lambda: settings.auto_create_topics, authorizer),
        ProduceApi(parts.replicas, parts.metadata, authorizer, _verification(parts)),
        FetchApi(
            parts.replicas,
            parts.metadata,
            FetchSessions(parts.fetch_sessions),
            settings.fetch_max_bytes,
            parts.clock,
            authorizer,
            brokers,
        ),
        InterBrokerApi(parts.replicas, origin, parts.broker_epoch),
    )
    late = LateTable(parts, authorizer, settings, creation, brokers)
    handlers = [handler for family in early for handler in family.handlers()]
    for families in late.families({handler.api_key for handler in handlers}):
        handlers += families.handlers()
    registry = Registry(handlers if emulated_release is None else narrowed(handlers, emulated_release))
    return registry


class TopicCreation(NamedTuple):
    """What creates topics: on request, and on first use."""

    admin: TopicAdmin
    on_first_use: AutoTopicCreation


def _topic_creation(parts: ServedParts, config: KafkaConfig) -> TopicCreation:
    """Import and make what creates topics, with the settings of the start."""
    from barnabas.metadata.auto_topic_creation import AutoTopicCreation, InternalTopicsConfig
    from barnabas.metadata.topic_admin import TopicAdmin, TopicAdminConfig

    new_topics = TopicAdminConfig.from_kafka_config(
        # Read at each creation: the defaults of the broker are dynamic settings.
        config,
        validate_topic_config=lambda topic: validate_topic_config(topic, parts.dynamic.current),
    )
    admin = TopicAdmin(parts.zk_client, parts.metadata, new_topics, require_room=parts.require_room)
    return TopicCreation(
        admin, AutoTopicCreation(admin, parts.metadata, InternalTopicsConfig.from_kafka_config(config))
    )


def _registered_addresses(parts: ServedParts) -> RegisteredAddresses:
    """Import and make the addresses from which other brokers send requests."""
    from barnabas.metadata.registered_addresses import RegisteredAddresses

    zk_client = parts.zk_client

    def registrations() -> list[BrokerInfo]:
        return [info for info, _ in zk_client.brokers_and_epochs().values()]

    return RegisteredAddresses(registrations, parts.inter_broker_listener, parts.clock)


def _verification(parts: ServedParts) -> TransactionVerification:
    return TransactionVerification(parts.replicas, parts.transactions, parts.verifications)


class LateTable:
    """The late families; each method imports what it makes. The methods have the names of the messages' modules."""

    def __init__(
        self,
        parts: ServedParts,
        authorizer: Authorizer | None,
        settings: ApiConfig,
        creation: Lazy[TopicCreation],
        brokers: BrokerOrigin,
    ) -> None:
        self._parts = parts
        self._authorizer = authorizer
        self._settings = settings
        self._creation = creation
        self._brokers = brokers

    def families(self, early: Collection[ApiKey]) -> Sequence[LateFamilies]:
        """Return all of them. early: the APIs that are in the table already."""
        return (
            LateFamilies(("acls",), self.acls),
            LateFamilies(("classic_groups",), self.classic_groups),
            LateFamilies(("cluster",), self.cluster),
            LateFamilies(("configs",), self.configs),
            LateFamilies(("find_coordinator",), self.find_coordinator),
            LateFamilies(("group_admin", "consumer_groups"), self.group_admin),
            LateFamilies(
                ("inter_broker",), self.inter_broker, early=early, served={ApiKey.WRITE_TXN_MARKERS: FIRST_TWO_VERSIONS}
            ),
            LateFamilies(("list_offsets",), self.list_offsets),
            LateFamilies(("log_dirs",), self.log_dirs),
            LateFamilies(("metadata",), self.metadata, early=early),
            LateFamilies(("offsets",), self.offsets),
            LateFamilies(("quotas",), self.quotas),
            LateFamilies(("reassignments",), self.reassignments),
            LateFamilies(("sasl",), self.sasl),
            LateFamilies(("telemetry",), self.telemetry, unlisted=True),
            LateFamilies(("tokens",), self.tokens),
            LateFamilies(("topics",), self.topics),
            LateFamilies(
                ("transactions",),
                self.transactions,
                served={ApiKey.INIT_PRODUCER_ID: (0, 5), ApiKey.LIST_TRANSACTIONS: FIRST_TWO_VERSIONS},
            ),
        )

    def acls(self) -> Sequence[HandlerFamily]:
        """Make what describes and changes access control lists."""
        from barnabas.api.handlers.acls import AclsApi

        parts, timeout_ms = self._parts, self._settings.connections_max_idle_ms
        return (AclsApi(parts.acls, self._authorizer, parts.acl_changes, timeout_ms),)

    def classic_groups(self) -> Sequence[HandlerFamily]:
        """Make what serves the members of classic groups."""
        from barnabas.api.handlers.classic_groups import ClassicGroupsApi

        return (ClassicGroupsApi(self._parts.groups().classic, self._authorizer),)

    def cluster(self) -> Sequence[HandlerFamily]:
        """Make what describes the cluster."""
        from barnabas.api.handlers.cluster import ClusterApi

        return (ClusterApi(self._parts.metadata, self._authorizer),)

    def configs(self) -> Sequence[HandlerFamily]:
        """Make what describes and changes settings."""
        from barnabas.api.handlers.alter_configs import AlterConfigsApi
        from barnabas.api.handlers.configs import ConfigResourcesApi, ConfigsApi
        from barnabas.metadata.config_admin import ConfigAdmin

        parts, authorizer = self._parts, self._authorizer
        repository = ConfigRepository(parts.zk_client)
        admin = ConfigAdmin(repository, parts.metadata, parts.dynamic)
        return (
            ConfigsApi(
                parts.broker_id,
                lambda: parts.dynamic.settings,
                repository.topic_overrides,
                parts.metadata,
                authorizer,
            ),
            AlterConfigsApi(parts.broker_id, admin, authorizer),
            ConfigResourcesApi(parts.metadata, authorizer),
        )

    def find_coordinator(self) -> Sequence[HandlerFamily]:
        """Make what names the coordinators of groups and of transactions."""
        from barnabas.api.handlers.find_coordinator import FindCoordinatorApi

        parts = self._parts
        return (
            FindCoordinatorApi(
                parts.metadata,
                parts.groups.partitions.partition_for,
                parts.transactions.partitions.partition_for,
                self._creation().on_first_use,
                parts.topic_changes(),
                self._authorizer,
            ),
        )

    def group_admin(self) -> Sequence[HandlerFamily]:
        """Make what describes and deletes groups of both kinds, and what serves the members of consumer groups."""
        from barnabas.api.handlers.consumer_groups import ConsumerGroupsApi
        from barnabas.api.handlers.group_admin import GroupAdminApi

        groups = self._parts.groups()
        return (
            GroupAdminApi(groups.admin, self._authorizer),
            ConsumerGroupsApi(groups.consumer if groups.admin.serves_consumer_groups else None, self._authorizer),
        )

    def inter_broker(self) -> Sequence[HandlerFamily]:
        """Make what brokers ask of the controller and of each other, besides the controller's orders."""
        from barnabas.api.handlers.controller_requests import ControllerRequestsApi
        from barnabas.api.handlers.features import FeaturesApi
        from barnabas.api.handlers.transaction_markers import TransactionMarkersApi

        parts, brokers = self._parts, self._brokers
        return (
            ControllerRequestsApi(parts.controller, brokers),
            FeaturesApi(parts.broker_id, parts.metadata, parts.features, self._authorizer),
            TransactionMarkersApi(
                parts.replicas,
                brokers,
                parts.clock,
                self._settings.request_timeout_ms,
                # Looked up for each: the stop of a broker alone asks this family, and needs no coordinator of groups.
                lambda *ended: parts.groups().transactional_offsets.end_transaction(*ended),  # noqa: PLW0108 as it says
            ),
        )

    def list_offsets(self) -> Sequence[HandlerFamily]:
        """Make what looks offsets up."""
        from barnabas.api.handlers.list_offsets import ListOffsetsApi, OffsetForLeaderEpochApi

        parts, authorizer = self._parts, self._authorizer
        return (
            ListOffsetsApi(parts.replicas, parts.clock, authorizer),
            OffsetForLeaderEpochApi(parts.replicas, authorizer),
        )

    def log_dirs(self) -> Sequence[HandlerFamily]:
        """Make what describes log directories and moves replicas between them."""
        from barnabas.api.handlers.log_dirs import LogDirsApi

        return (LogDirsApi(self._parts.replicas, self._authorizer),)

    def metadata(self) -> Sequence[HandlerFamily]:
        """Make what describes topics in pages."""
        from barnabas.api.handlers.describe_topic_partitions import DescribeTopicPartitionsApi

        most = self._settings.max_partitions_per_description
        return (DescribeTopicPartitionsApi(self._parts.metadata, self._authorizer, most),)

    def offsets(self) -> Sequence[HandlerFamily]:
        """Make what commits, fetches and deletes the offsets of groups."""
        from barnabas.api.handlers.offsets import OffsetsApi
        from barnabas.metadata.old_consumer_offsets import OldConsumerOffsets

        parts = self._parts
        old_offsets = OldConsumerOffsets(parts.zk_client, self._settings.max_offset_metadata_size)
        return (OffsetsApi(parts.groups().offsets, old_offsets, parts.metadata, self._authorizer),)

    def quotas(self) -> Sequence[HandlerFamily]:
        """Make what describes and changes client quotas, and the passwords of users."""
        from barnabas.api.handlers.quotas import QuotasApi
        from barnabas.api.handlers.scram import ScramApi
        from barnabas.metadata.client_quota_admin import ClientQuotaAdmin, ClientQuotaDescriptions
        from barnabas.metadata.client_quota_store import ClientQuotaStore
        from barnabas.metadata.scram_credential_admin import ScramCredentialAdmin

        store, authorizer = ClientQuotaStore(self._parts.zk_client), self._authorizer
        return (
            QuotasApi(ClientQuotaAdmin(store, is_address), ClientQuotaDescriptions(store), authorizer),
            ScramApi(ScramCredentialAdmin(store), authorizer),
        )

    def reassignments(self) -> Sequence[HandlerFamily]:
        """Make what moves partitions to other brokers."""
        from barnabas.api.handlers.reassignments import ReassignmentsApi

        return (ReassignmentsApi(self._parts.controller, self._authorizer),)

    def sasl(self) -> Sequence[HandlerFamily]:
        """Make what answers logins where nobody has to log in."""
        from barnabas.api.handlers.sasl import SaslApi

        return (SaslApi(),)

    def telemetry(self) -> Sequence[HandlerFamily]:
        """Make what takes the metrics of clients."""
        from barnabas.api.handlers.telemetry import TelemetryApi

        return (TelemetryApi(),)

    def tokens(self) -> Sequence[HandlerFamily]:
        """Make what creates and renews delegation tokens."""
        from barnabas.api.handlers.delegation_tokens import DelegationTokensApi

        return (DelegationTokensApi(self._parts.delegation_tokens, self._authorizer),)

    def topics(self) -> Sequence[HandlerFamily]:
        """Make what creates, grows and deletes topics, deletes records, and elects leaders."""
        from barnabas.api.handlers.delete_records import DeleteRecordsApi
        from barnabas.api.handlers.elections import ElectionsApi
        from barnabas.api.handlers.topics import PartitionsApi, TopicsApi

        parts, authorizer, admin = self._parts, self._authorizer, self._creation().admin
        return (
            TopicsApi(
                admin,
                parts.metadata,
                parts.topic_changes(),
                lambda: parts.dynamic.settings,
                authorizer,
                is_controller=lambda: parts.controller.is_active,
                deletion_enabled=self._settings.delete_topics,
            ),
            PartitionsApi(admin, parts.topic_changes(), parts.controller, authorizer),
            DeleteRecordsApi(parts.replicas, parts.metadata, authorizer),
            ElectionsApi(parts.elections(), parts.metadata, authorizer),
        )

    def transactions(self) -> Sequence[HandlerFamily]:
        """Make what serves producers with ids, and describes them and their transactions."""
        from barnabas.api.handlers.transaction_admin import ProducersApi, TransactionAdminApi
        from barnabas.api.handlers.transactional_offsets import TransactionalOffsetsApi
        from barnabas.api.handlers.transactions import TransactionsApi
        from barnabas.coordinator.transaction.held_back_answers import DelayedAdditions

        parts, authorizer = self._parts, self._authorizer
        coordinator = parts.transactions()
        service = coordinator.transactions
        return (
            TransactionsApi(
                service,
                parts.producer_ids(),
                parts.groups.partitions.partition_for,
                parts.metadata,
                self._brokers,
                authorizer,
                DelayedAdditions(service, coordinator.scheduler, parts.clock),
            ),
            TransactionalOffsetsApi(
                parts.groups().transactional_offsets, _verification(parts), parts.metadata, authorizer
            ),
            TransactionAdminApi(coordinator.admin, authorizer),
            ProducersApi(parts.replicas, parts.metadata, authorizer),
        )
