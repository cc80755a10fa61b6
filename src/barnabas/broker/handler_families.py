"""Builds every handler family from the parts of a broker.

Called by BrokerServer once, during start.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.api.authorize import Authorizer
from barnabas.api.fetch_session_cache import FetchSessionCache
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.api.handlers.alter_configs import AlterConfigsApi
from barnabas.api.handlers.classic_groups import ClassicGroupsApi
from barnabas.api.handlers.cluster import ClusterApi
from barnabas.api.handlers.config_resources import ConfigResourcesApi
from barnabas.api.handlers.configs import ConfigsApi
from barnabas.api.handlers.consumer_groups import ConsumerGroupsApi
from barnabas.api.handlers.controller_requests import ControllerRequestsApi
from barnabas.api.handlers.delete_records import DeleteRecordsApi
from barnabas.api.handlers.describe_topic_partitions import DescribeTopicPartitionsApi
from barnabas.api.handlers.elections import ElectionsApi
from barnabas.api.handlers.features import FeaturesApi
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.handlers.find_coordinator import FindCoordinatorApi
from barnabas.api.handlers.group_admin import GroupAdminApi
from barnabas.api.handlers.inter_broker import InterBrokerApi
from barnabas.api.handlers.list_offsets import ListOffsetsApi
from barnabas.api.handlers.log_dirs import LogDirsApi
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochApi
from barnabas.api.handlers.offsets import OffsetsApi
from barnabas.api.handlers.partitions import PartitionsApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.handlers.producers import ProducersApi
from barnabas.api.handlers.quotas import QuotasApi
from barnabas.api.handlers.reassignments import ReassignmentsApi
from barnabas.api.handlers.scram import ScramApi
from barnabas.api.handlers.telemetry import TelemetryApi
from barnabas.api.handlers.topics import TopicsApi
from barnabas.api.handlers.transactions import InitProducerIdApi
from barnabas.api.topic_changes import TopicChanges
from barnabas.broker.api_table import HandlerFamilies
from barnabas.broker.client_quotas import is_address
from barnabas.broker.dynamic_broker_config import DynamicBrokerConfig
from barnabas.controller.controller import Controller
from barnabas.controller.delayed_elect_leader import LeaderElections
from barnabas.coordinator.group.coordinator import GroupCoordinator
from barnabas.metadata.auto_topic_creation import AutoTopicCreation, InternalTopicsConfig
from barnabas.metadata.client_quota_descriptions import ClientQuotaDescriptions
from barnabas.metadata.client_quota_store import ClientQuotaStore
from barnabas.metadata.client_quotas import ClientQuotaAdmin
from barnabas.metadata.config_admin import ConfigAdmin
from barnabas.metadata.config_repository import ConfigRepository
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.old_consumer_offsets import OldConsumerOffsets
from barnabas.metadata.producer_ids import ProducerIdManager
from barnabas.metadata.topic_admin import TopicAdmin, TopicAdminConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.zk.kafka_zk_client import KafkaZkClient


def build_handler_families(  # noqa: PLR0913, PLR0917 - the parts of a whole broker, once
    dynamic: DynamicBrokerConfig,
    broker_id: int,
    clock: Clock,
    replicas: ReplicaManager,
    metadata: MetadataCache,
    zk_client: KafkaZkClient,
    topic_changes: TopicChanges,
    broker_epoch: Callable[[], int],
    controller: Controller,
    elections: LeaderElections,
    groups: GroupCoordinator,
    *,
    fetch_sessions: FetchSessionCache,
    authorizer: Authorizer | None,
) -> HandlerFamilies:
    """One object per family, each with exactly what it touches. broker_epoch: of the registration in force."""
    config = dynamic.current  # for what cannot change while the broker runs
    topic_admin = TopicAdmin(zk_client, metadata, TopicAdminConfig.from_kafka_config(config, lambda: dynamic.current))
    creation = AutoTopicCreation(topic_admin, metadata, InternalTopicsConfig.from_kafka_config(config))
    repository = ConfigRepository(zk_client)
    quota_store = ClientQuotaStore(zk_client)
    return HandlerFamilies(
        alter_configs=AlterConfigsApi(broker_id, ConfigAdmin(repository, metadata, dynamic), authorizer),
        classic_groups=ClassicGroupsApi(groups.classic, authorizer),
        consumer_groups=ConsumerGroupsApi(groups.consumer if groups.admin.serves_consumer_groups else None, authorizer),
        cluster=ClusterApi(metadata, authorizer),
        config_resources=ConfigResourcesApi(metadata, authorizer),
        configs=ConfigsApi(broker_id, lambda: dynamic.settings, repository.topic_overrides, metadata, authorizer),
        controller_requests=ControllerRequestsApi(controller, authorizer),
        delete_records=DeleteRecordsApi(replicas, metadata, authorizer),
        describe_topic_partitions=DescribeTopicPartitionsApi(
            metadata, authorizer, config.integer("max.request.partition.size.limit")
        ),
        elections=ElectionsApi(elections, metadata, authorizer),
        features=FeaturesApi(broker_id, metadata, authorizer),
        fetch=FetchApi(
            replicas, metadata, FetchSessions(fetch_sessions), config.integer("fetch.max.bytes"), clock, authorizer
        ),
        find_coordinator=FindCoordinatorApi(metadata, groups.partition_for, creation, topic_changes, authorizer),
        group_admin=GroupAdminApi(groups.admin, authorizer),
        inter_broker=InterBrokerApi(replicas, authorizer, broker_epoch),
        list_offsets=ListOffsetsApi(replicas, clock, authorizer),
        log_dirs=LogDirsApi(replicas, authorizer),
        metadata=MetadataApi(metadata, creation, lambda: config.boolean("auto.create.topics.enable"), authorizer),
        offset_for_leader_epoch=OffsetForLeaderEpochApi(replicas, authorizer),
        offsets=OffsetsApi(
            groups,
            OldConsumerOffsets(zk_client, config.integer("offset.metadata.max.bytes")),
            metadata,
            authorizer,
        ),
        partitions=PartitionsApi(topic_admin, topic_changes, controller, authorizer),
        produce=ProduceApi(replicas, metadata, authorizer),
        producers=ProducersApi(replicas, metadata, authorizer),
        quotas=QuotasApi(ClientQuotaAdmin(quota_store, is_address), ClientQuotaDescriptions(quota_store), authorizer),
        reassignments=ReassignmentsApi(controller, authorizer),
        scram=ScramApi(authorizer),
        telemetry=TelemetryApi(),
        topics=TopicsApi(
            topic_admin,
            metadata,
            topic_changes,
            lambda: dynamic.settings,
            authorizer,
            deletion_enabled=config.boolean("delete.topic.enable"),
        ),
        transactions=InitProducerIdApi(ProducerIdManager(broker_id, zk_client), authorizer),
    )
