"""The table of APIs: one line each. A new API is one handler method and one line here.

Called by BrokerServer once, at start. Version floors are those of Kafka 3.9, ceilings those of 4.x (mission A4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.api.emulation import narrowed
from barnabas.api.handlers.alter_configs import AlterConfigsApi
from barnabas.api.handlers.api_versions import ApiVersionsApi
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
from barnabas.api.registry import Handler, Registry
from barnabas.protocol.api_keys import ApiKey

MAX_REQUEST_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HandlerFamilies:
    """Every handler family, built."""

    alter_configs: AlterConfigsApi
    classic_groups: ClassicGroupsApi
    consumer_groups: ConsumerGroupsApi
    cluster: ClusterApi
    config_resources: ConfigResourcesApi
    configs: ConfigsApi
    controller_requests: ControllerRequestsApi
    delete_records: DeleteRecordsApi
    describe_topic_partitions: DescribeTopicPartitionsApi
    elections: ElectionsApi
    features: FeaturesApi
    fetch: FetchApi
    find_coordinator: FindCoordinatorApi
    group_admin: GroupAdminApi
    inter_broker: InterBrokerApi
    list_offsets: ListOffsetsApi
    log_dirs: LogDirsApi
    metadata: MetadataApi
    offset_for_leader_epoch: OffsetForLeaderEpochApi
    offsets: OffsetsApi
    partitions: PartitionsApi
    produce: ProduceApi
    producers: ProducersApi
    quotas: QuotasApi
    reassignments: ReassignmentsApi
    scram: ScramApi
    telemetry: TelemetryApi
    topics: TopicsApi
    transactions: InitProducerIdApi


def build_registry(api: HandlerFamilies, emulated_release: str | None = None) -> Registry:
    """The table, or the part of it that a release of Apache Kafka has (`broker.emulate.version`).

    `brief` marks what may run at once on the processor's thread: it never blocks, never works long.
    """
    registry: Registry
    versions = ApiVersionsApi(lambda: registry)
    handlers = [
        Handler(ApiKey.API_VERSIONS, 0, 4, versions.api_versions, versions.error, brief=True),
        *_record_apis(api),
        *_group_apis(api),
        *_inter_broker_apis(api),
        *_topic_apis(api),
        *_cluster_apis(api),
    ]
    registry = Registry(handlers if emulated_release is None else narrowed(handlers, emulated_release))
    return registry


def _record_apis(api: HandlerFamilies) -> list[Handler]:
    """Producing and reading."""
    return [
        Handler(
            ApiKey.PRODUCE,
            0,
            13,
            api.produce.produce,
            api.produce.error,
            brief=True,
            brief_from=3,
            brief_limit_bytes=MAX_REQUEST_BYTES,  # records, mostly: the handler looks how much work they are
        ),
        Handler(ApiKey.FETCH, 0, 18, api.fetch.fetch, api.fetch.error, brief=True, brief_from=4),
        Handler(ApiKey.LIST_OFFSETS, 0, 11, api.list_offsets.list_offsets, api.list_offsets.error, brief=True),
        Handler(ApiKey.METADATA, 0, 13, api.metadata.metadata, api.metadata.error, brief=True),
        Handler(ApiKey.DELETE_RECORDS, 0, 2, api.delete_records.delete_records, api.delete_records.error),
        Handler(ApiKey.INIT_PRODUCER_ID, 0, 5, api.transactions.init_producer_id, api.transactions.error),
        Handler(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            0,
            4,
            api.offset_for_leader_epoch.offset_for_leader_epoch,
            api.offset_for_leader_epoch.error,
            brief=True,
        ),
        Handler(ApiKey.DESCRIBE_PRODUCERS, 0, 0, api.producers.describe_producers, api.producers.error),
    ]


def _group_apis(api: HandlerFamilies) -> list[Handler]:
    """Groups and their offsets."""
    find, offsets, admin = api.find_coordinator, api.offsets, api.group_admin
    classic, consumer = api.classic_groups, api.consumer_groups
    return [
        Handler(ApiKey.FIND_COORDINATOR, 0, 6, find.find_coordinator, find.error, brief=True),
        Handler(ApiKey.OFFSET_COMMIT, 0, 10, offsets.offset_commit, offsets.commit_error, brief=True, brief_from=1),
        Handler(ApiKey.OFFSET_FETCH, 0, 10, offsets.offset_fetch, offsets.fetch_error, brief=True, brief_from=1),
        Handler(ApiKey.OFFSET_DELETE, 0, 0, offsets.offset_delete, offsets.delete_error),
        Handler(ApiKey.JOIN_GROUP, 0, 9, classic.join_group, classic.join_error, brief=True),
        Handler(ApiKey.SYNC_GROUP, 0, 5, classic.sync_group, classic.sync_error, brief=True),
        Handler(ApiKey.HEARTBEAT, 0, 4, classic.heartbeat, classic.heartbeat_error, brief=True),
        Handler(ApiKey.LEAVE_GROUP, 0, 5, classic.leave_group, classic.leave_error, brief=True),
        Handler(ApiKey.LIST_GROUPS, 0, 5, admin.list_groups, admin.listing_error),
        Handler(ApiKey.DESCRIBE_GROUPS, 0, 6, admin.describe_groups, admin.description_error),
        Handler(ApiKey.DELETE_GROUPS, 0, 2, admin.delete_groups, admin.deletion_error),
        Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, consumer.heartbeat, consumer.heartbeat_error, brief=True),
        Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, admin.consumer_group_describe, admin.consumer_group_error),
    ]


def _inter_broker_apis(api: HandlerFamilies) -> list[Handler]:
    """What the controller tells brokers, and they ask it."""
    ask = api.controller_requests
    return [
        Handler(ApiKey.LEADER_AND_ISR, 0, 7, api.inter_broker.leader_and_isr, api.inter_broker.leader_and_isr_error),
        Handler(ApiKey.STOP_REPLICA, 0, 4, api.inter_broker.stop_replica, api.inter_broker.stop_replica_error),
        Handler(ApiKey.UPDATE_METADATA, 0, 8, api.inter_broker.update_metadata, api.inter_broker.update_metadata_error),
        Handler(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, ask.controlled_shutdown, ask.controlled_shutdown_error),
        Handler(ApiKey.ALTER_PARTITION, 0, 3, ask.alter_partition, ask.alter_partition_error),
        Handler(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, ask.allocate_producer_ids, ask.allocate_producer_ids_error),
    ]


def _topic_apis(api: HandlerFamilies) -> list[Handler]:
    """Topics and settings."""
    return [
        Handler(ApiKey.CREATE_TOPICS, 0, 7, api.topics.create_topics, api.topics.creation_error),
        Handler(ApiKey.DELETE_TOPICS, 0, 6, api.topics.delete_topics, api.topics.deletion_error),
        Handler(ApiKey.CREATE_PARTITIONS, 0, 3, api.partitions.create_partitions, api.partitions.error),
        Handler(ApiKey.ELECT_LEADERS, 0, 2, api.elections.elect_leaders, api.elections.error),
        Handler(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            1,
            api.reassignments.alter_partition_reassignments,
            api.reassignments.alteration_error,
        ),
        Handler(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            0,
            api.reassignments.list_partition_reassignments,
            api.reassignments.listing_error,
        ),
        Handler(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            0,
            api.describe_topic_partitions.describe_topic_partitions,
            api.describe_topic_partitions.error,
        ),
        Handler(ApiKey.DESCRIBE_CONFIGS, 0, 4, api.configs.describe_configs, api.configs.error),
        Handler(ApiKey.ALTER_CONFIGS, 0, 2, api.alter_configs.alter_configs, api.alter_configs.error),
        Handler(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            api.alter_configs.incremental_alter_configs,
            api.alter_configs.incremental_error,
        ),
        Handler(
            ApiKey.LIST_CONFIG_RESOURCES,
            0,
            1,
            api.config_resources.list_config_resources,
            api.config_resources.error,
        ),
    ]


def _cluster_apis(api: HandlerFamilies) -> list[Handler]:
    """The cluster and its brokers."""
    return [
        Handler(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, api.log_dirs.describe_log_dirs, api.log_dirs.error),
        Handler(ApiKey.DESCRIBE_CLUSTER, 0, 2, api.cluster.describe_cluster, api.cluster.describe_error, brief=True),
        Handler(
            ApiKey.UNREGISTER_BROKER, 0, 0, api.cluster.unregister_broker, api.cluster.unregister_error, brief=True
        ),
        Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, api.quotas.describe_client_quotas, api.quotas.describe_error),
        Handler(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, api.quotas.alter_client_quotas, api.quotas.alter_error),
        Handler(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            0,
            api.scram.describe_user_scram_credentials,
            api.scram.error,
            brief=True,
        ),
        Handler(ApiKey.UPDATE_FEATURES, 0, 2, api.features.update_features, api.features.error),
        Handler(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            0,
            0,
            api.telemetry.get_telemetry_subscriptions,
            api.telemetry.subscriptions_error,
            brief=True,
            listed=False,
        ),
        Handler(
            ApiKey.PUSH_TELEMETRY,
            0,
            0,
            api.telemetry.push_telemetry,
            api.telemetry.push_error,
            brief=True,
            listed=False,
        ),
    ]
