"""The table of APIs, composed of the handler families: each of them lists its own lines.

Called by BrokerServer once, at start. A new API is its messages, a method of a family with its line in `handlers()`,
and, for a new family, a line here. Version floors are those of Kafka 3.9, ceilings those of 4.x, as the messages have
them; a family says where it serves fewer.

Kafka: KafkaApis.

The settings that request handlers act on. Frozen, so any thread reads them.

Made by `broker`, once: none of them changes while the broker runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.api.authorize import Authorizer
from barnabas.api.fetch_session_cache import FetchSessionCache
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.api.handlers.acls import AclsApi
from barnabas.api.handlers.alter_configs import AlterConfigsApi
from barnabas.api.handlers.api_versions import ApiVersionsApi
from barnabas.api.handlers.classic_groups import ClassicGroupsApi
from barnabas.api.handlers.cluster import ClusterApi
from barnabas.api.handlers.configs import ConfigResourcesApi, ConfigsApi
from barnabas.api.handlers.consumer_groups import ConsumerGroupsApi
from barnabas.api.handlers.controller_requests import ControllerRequestsApi
from barnabas.api.handlers.delegation_tokens import DelegationTokensApi
from barnabas.api.handlers.delete_records import DeleteRecordsApi
from barnabas.api.handlers.describe_topic_partitions import DescribeTopicPartitionsApi
from barnabas.api.handlers.elections import ElectionsApi
from barnabas.api.handlers.features import FeaturesApi
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.handlers.find_coordinator import FindCoordinatorApi
from barnabas.api.handlers.group_admin import GroupAdminApi
from barnabas.api.handlers.inter_broker import InterBrokerApi
from barnabas.api.handlers.list_offsets import ListOffsetsApi, OffsetForLeaderEpochApi
from barnabas.api.handlers.log_dirs import LogDirsApi
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.handlers.offsets import OffsetsApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.handlers.quotas import QuotasApi
from barnabas.api.handlers.reassignments import ReassignmentsApi
from barnabas.api.handlers.sasl import SaslApi
from barnabas.api.handlers.scram import ScramApi
from barnabas.api.handlers.telemetry import TelemetryApi
from barnabas.api.handlers.topics import PartitionsApi, TopicsApi
from barnabas.api.handlers.transaction_admin import ProducersApi, TransactionAdminApi
from barnabas.api.handlers.transaction_markers import TransactionMarkersApi
from barnabas.api.handlers.transactional_offsets import TransactionalOffsetsApi
from barnabas.api.handlers.transactions import TransactionsApi
from barnabas.api.origins import BrokerOrigin, BrokerSenders, ControllerOrigin, RefusedOrders
from barnabas.api.registry import HandlerFamily, Registry, narrowed
from barnabas.api.topic_changes import TopicChanges
from barnabas.api.transaction_verification import TransactionVerification, VerificationMetrics
from barnabas.broker.client_quotas import is_address
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.config.log_config import validate_topic_config
from barnabas.config.setting import Settings, setting
from barnabas.controller.controller import Controller
from barnabas.controller.delayed_elect_leader import LeaderElections
from barnabas.coordinator.group.coordinator import GroupCoordinator
from barnabas.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.coordinator.transaction.held_back_answers import PatientAdditions
from barnabas.metadata.acl_admin import AclAdmin
from barnabas.metadata.auto_topic_creation import AutoTopicCreation, InternalTopicsConfig
from barnabas.metadata.client_quota_descriptions import ClientQuotaDescriptions
from barnabas.metadata.client_quota_store import ClientQuotaStore
from barnabas.metadata.client_quotas import ClientQuotaAdmin
from barnabas.metadata.cluster_features import ClusterFeatures
from barnabas.metadata.config_admin import ConfigAdmin
from barnabas.metadata.config_repository import ConfigRepository
from barnabas.metadata.delegation_tokens import DelegationTokenManager
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.old_consumer_offsets import OldConsumerOffsets
from barnabas.metadata.producer_ids import ProducerIdManager
from barnabas.metadata.registered_addresses import RegisteredAddresses
from barnabas.metadata.scram_credential_admin import ScramCredentialAdmin
from barnabas.metadata.topic_admin import TopicAdmin, TopicAdminConfig
from barnabas.purgatory.purgatory import DelayedFuturePurgatory
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.zk.broker_zk_data import BrokerInfo
from barnabas.zk.kafka_zk_client import KafkaZkClient


@dataclass(frozen=True, slots=True)
class ApiConfig(Settings):
    """Limits of requests and answers, and what clients may do."""

    auto_create_topics: bool = setting("auto.create.topics.enable")
    connections_max_idle_ms: int = setting("connections.max.idle.ms")
    control_plane_listener: str | None = setting("control.plane.listener.name")
    delete_topics: bool = setting("delete.topic.enable")
    fetch_max_bytes: int = setting("fetch.max.bytes")
    max_partitions_per_description: int = setting("max.request.partition.size.limit")
    max_offset_metadata_size: int = setting("offset.metadata.max.bytes")
    request_timeout_ms: int = setting("request.timeout.ms")


@dataclass(frozen=True, slots=True)
class ServedParts:
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
    topic_changes: TopicChanges
    controller: Controller
    elections: LeaderElections
    groups: GroupCoordinator
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIdManager
    features: ClusterFeatures
    transactions: TransactionCoordinator
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
    config, dynamic = parts.dynamic.current, parts.dynamic
    settings = ApiConfig.from_kafka_config(config)
    new_topics = TopicAdminConfig.from_kafka_config(
        # Read at each creation: the defaults of the broker are dynamic settings.
        config,
        validate_topic_config=lambda topic: validate_topic_config(topic, dynamic.current),
    )
    admin = TopicAdmin(parts.zk_client, parts.metadata, new_topics, require_room=parts.require_room)
    # One for Metadata and FindCoordinator: it knows which topics are being created.
    creation = AutoTopicCreation(admin, parts.metadata, InternalTopicsConfig.from_kafka_config(config))
    senders = BrokerSenders(parts.own_principal, parts.brokers_principals, _registered_addresses(parts).includes)
    brokers = BrokerOrigin(authorizer, senders, listener_name=parts.inter_broker_listener)
    families: Sequence[HandlerFamily] = (
        # A callable, since the registry is made of the handlers of this very family.
        ApiVersionsApi(lambda: registry, parts.features),
        MetadataApi(parts.metadata, creation, lambda: settings.auto_create_topics, authorizer),
        *_record_families(parts, authorizer, brokers),
        *_group_families(parts, creation, authorizer),
        *_topic_families(parts, admin, authorizer),
        *_cluster_families(parts, authorizer, senders, brokers),
    )
    handlers = [handler for family in families for handler in family.handlers()]
    registry = Registry(handlers if emulated_release is None else narrowed(handlers, emulated_release))
    return registry


def _registered_addresses(parts: ServedParts) -> RegisteredAddresses:
    zk_client = parts.zk_client

    def registrations() -> list[BrokerInfo]:
        return [info for info, _ in zk_client.brokers_and_epochs().values()]

    return RegisteredAddresses(registrations, parts.inter_broker_listener, parts.clock)


def _record_families(
    parts: ServedParts, authorizer: Authorizer | None, brokers: BrokerOrigin
) -> Sequence[HandlerFamily]:
    """Return the families that write, read and delete records."""
    replicas, metadata, clock = parts.replicas, parts.metadata, parts.clock
    settings = ApiConfig.from_kafka_config(parts.dynamic.current)
    sessions = FetchSessions(parts.fetch_sessions)
    return (
        ProduceApi(
            replicas, metadata, authorizer, TransactionVerification(replicas, parts.transactions, parts.verifications)
        ),
        FetchApi(replicas, metadata, sessions, settings.fetch_max_bytes, clock, authorizer, brokers),
        ListOffsetsApi(replicas, clock, authorizer),
        OffsetForLeaderEpochApi(replicas, authorizer),
        DeleteRecordsApi(replicas, metadata, authorizer),
        ProducersApi(replicas, metadata, authorizer),
        TransactionMarkersApi(
            replicas, brokers, clock, settings.request_timeout_ms, parts.groups.transactional_offsets.end_transaction
        ),
        TransactionsApi(
            parts.transactions.transactions,
            parts.producer_ids,
            parts.groups.partitions.partition_for,
            metadata,
            brokers,
            authorizer,
            PatientAdditions(parts.transactions.transactions, parts.transactions.scheduler, clock),
        ),
        TransactionAdminApi(parts.transactions.admin, authorizer),
    )


def _group_families(
    parts: ServedParts, creation: AutoTopicCreation, authorizer: Authorizer | None
) -> Sequence[HandlerFamily]:
    """Return the families of groups and their offsets."""
    groups, metadata = parts.groups, parts.metadata
    settings = ApiConfig.from_kafka_config(parts.dynamic.current)
    old_offsets = OldConsumerOffsets(parts.zk_client, settings.max_offset_metadata_size)
    return (
        FindCoordinatorApi(
            metadata,
            groups.partitions.partition_for,
            parts.transactions.partitions.partition_for,
            creation,
            parts.topic_changes,
            authorizer,
        ),
        OffsetsApi(groups.offsets, old_offsets, metadata, authorizer),
        TransactionalOffsetsApi(
            groups.transactional_offsets,
            TransactionVerification(parts.replicas, parts.transactions, parts.verifications),
            metadata,
            authorizer,
        ),
        ClassicGroupsApi(groups.classic, authorizer),
        ConsumerGroupsApi(groups.consumer if groups.admin.serves_consumer_groups else None, authorizer),
        GroupAdminApi(groups.admin, authorizer),
    )


def _topic_families(parts: ServedParts, admin: TopicAdmin, authorizer: Authorizer | None) -> Sequence[HandlerFamily]:
    """Return the families of topics and settings."""
    dynamic, metadata, changes = parts.dynamic, parts.metadata, parts.topic_changes
    settings = ApiConfig.from_kafka_config(dynamic.current)
    repository = ConfigRepository(parts.zk_client)
    return (
        DescribeTopicPartitionsApi(metadata, authorizer, settings.max_partitions_per_description),
        TopicsApi(
            admin,
            metadata,
            changes,
            lambda: dynamic.settings,
            authorizer,
            is_controller=lambda: parts.controller.is_active,
            deletion_enabled=settings.delete_topics,
        ),
        PartitionsApi(admin, changes, parts.controller, authorizer),
        ElectionsApi(parts.elections, metadata, authorizer),
        ReassignmentsApi(parts.controller, authorizer),
        ConfigsApi(parts.broker_id, lambda: dynamic.settings, repository.topic_overrides, metadata, authorizer),
        AlterConfigsApi(parts.broker_id, ConfigAdmin(repository, metadata, dynamic), authorizer),
        ConfigResourcesApi(metadata, authorizer),
    )


def _cluster_families(
    parts: ServedParts, authorizer: Authorizer | None, senders: BrokerSenders, brokers: BrokerOrigin
) -> Sequence[HandlerFamily]:
    """Return the families of the cluster, its brokers and its controller."""
    quota_store = ClientQuotaStore(parts.zk_client)
    settings = ApiConfig.from_kafka_config(parts.dynamic.current)
    # With a control plane the controller's requests are taken there alone: elsewhere any client could send them.
    origin = ControllerOrigin(
        authorizer, senders, parts.refused_orders, has_control_plane=settings.control_plane_listener is not None
    )
    return (
        InterBrokerApi(parts.replicas, origin, parts.broker_epoch),
        ControllerRequestsApi(parts.controller, brokers),
        ClusterApi(parts.metadata, authorizer),
        LogDirsApi(parts.replicas, authorizer),
        QuotasApi(ClientQuotaAdmin(quota_store, is_address), ClientQuotaDescriptions(quota_store), authorizer),
        FeaturesApi(parts.broker_id, parts.metadata, parts.features, authorizer),
        ScramApi(ScramCredentialAdmin(quota_store), authorizer),
        SaslApi(),
        DelegationTokensApi(parts.delegation_tokens, authorizer),
        AclsApi(parts.acls, authorizer, parts.acl_changes, settings.connections_max_idle_ms),
        TelemetryApi(),
    )
