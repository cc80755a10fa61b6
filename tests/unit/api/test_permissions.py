"""What callers may not do is refused, in the place where each API says so, and nothing is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.handlers.alter_configs import AlterConfigsApi
from barnabas.api.handlers.cluster import ClusterApi
from barnabas.api.handlers.configs import ConfigsApi
from barnabas.api.handlers.delete_records import DeleteRecordsApi
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.handlers.find_coordinator import FindCoordinatorApi
from barnabas.api.handlers.inter_broker import InterBrokerApi
from barnabas.api.handlers.list_offsets import ListOffsetsApi, OffsetForLeaderEpochApi
from barnabas.api.handlers.log_dirs import LogDirsApi
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.handlers.topics import TopicsApi
from barnabas.api.handlers.transaction_admin import ProducersApi, TransactionAdminApi
from barnabas.api.handlers.transactions import TransactionsApi
from barnabas.api.registry import HandlerFamily, Registry
from barnabas.api.request import ConnectionContext
from barnabas.api.request_parser import RequestParser
from barnabas.api.topic_changes import TopicChanges
from barnabas.api.transaction_verification import TransactionVerification, VerificationMetrics
from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.config.kafka_config import KafkaConfig
from barnabas.coordinator.transaction.held_back_answers import PatientAdditions
from barnabas.coordinator.transaction.transaction_admin import TransactionAdmin
from barnabas.coordinator.transaction.transaction_service import TransactionService
from barnabas.metadata.auto_topic_creation import AutoTopicCreation, InternalTopicsConfig
from barnabas.metadata.config_admin import ConfigAdmin
from barnabas.metadata.topic_admin import CreateTopicResult, TopicToCreate
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import ConfigResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.topics import DeleteRecordsRequest
from barnabas.protocol.messages.transactions import DescribeProducersRequest
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.broker_origins import broker_origin, controller_origin
from tests.support.fetch_sessions import fetch_sessions
from tests.support.no_transaction_coordinator import BuiltVerifier, NoTransactionCoordinator
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.coordinator.transaction_environment import transaction_environment
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import Broker as StoredLogs

Permission = tuple[AclOperation, ResourceType, str]
CLUSTER = "kafka-cluster"
MINE, THEIRS = "mine", "theirs"
IDS = {MINE: b"m" * 16, THEIRS: b"t" * 16}


class Permissions(Authorizer):
    """Allows what is listed, and remembers what was asked for."""

    def __init__(self, *allowed: Permission) -> None:
        self.allowed = set(allowed)
        self.asked: list[Action] = []

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        assert connection.principal == "User:ANONYMOUS"
        self.asked += actions
        return [(each.operation, each.resource_type, each.resource_name) in self.allowed for each in actions]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        return any((operation, resource_type) == allowed[:2] for allowed in self.allowed)


class Nothing:
    """A store that must not be touched, but for the settings of topics that may be seen."""

    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, str]]] = []

    def topic_overrides(self, topic: str) -> dict[str, str]:
        return {"retention.ms": "5"}

    def change_topic_config(self, topic: str, overrides: Any) -> None:
        self.written.append((topic, dict(overrides)))


class Topics:
    """A TopicAdmin that remembers what it was told to do. No producer id is ever given but 7."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.deleted: list[str] = []

    def create_topics(self, topics: Sequence[TopicToCreate], **_: Any) -> list[CreateTopicResult]:
        self.created += [topic.name for topic in topics]
        return [CreateTopicResult(topic.name, None, bytes(range(16)), 1, 1) for topic in topics]

    def delete_topics(self, names: Sequence[str], quota: Any) -> dict[str, None]:
        self.deleted += names
        return dict.fromkeys(names)

    def generate(self) -> int:
        return 7


class Broker:
    """Broker 0 leads partition 0 of two topics; the caller has `permissions`."""

    def __init__(self, *permissions: Permission) -> None:
        self.replicas = Replicas(StoredLogs(manager_config=LogManagerConfig()))
        for topic in (MINE, THEIRS):
            self.replicas.lead(topic, topic_id=IDS[topic])
            self._tell_of(topic)
        self.permissions = Permissions(*permissions)
        self.store = Nothing()
        dynamic = DynamicBrokerConfig(KafkaConfig.parse({}))
        metadata, manager = self.replicas.metadata, self.replicas.manager
        orders = InterBrokerApi(manager, controller_origin(self.permissions), lambda: 7)
        alter = AlterConfigsApi(0, ConfigAdmin(self.store, metadata, dynamic), self.permissions)  # type: ignore[arg-type]
        describe = ConfigsApi(0, lambda: dynamic.settings, self.store.topic_overrides, metadata, self.permissions)
        records = DeleteRecordsApi(manager, metadata, self.permissions)
        epochs = OffsetForLeaderEpochApi(manager, self.permissions)
        log_dirs = LogDirsApi(manager, self.permissions)
        producers = ProducersApi(manager, metadata, self.permissions)
        self.topics = Topics()
        families: list[HandlerFamily] = [orders, alter, describe, records, epochs, log_dirs, producers]
        families += self._for_clients(dynamic)
        registry = Registry(handler for family in families for handler in family.handlers())
        self._parser = RequestParser(registry)
        self._apis = Apis(self.replicas.actions, lambda: 1)

    def _for_clients(self, dynamic: DynamicBrokerConfig) -> list[HandlerFamily]:
        metadata, manager, clock = self.replicas.metadata, self.replicas.manager, self.replicas.clock
        admin: Any = self.topics
        verification = TransactionVerification(
            manager, BuiltVerifier(NoTransactionCoordinator()), VerificationMetrics(clock)
        )
        produce = ProduceApi(manager, metadata, self.permissions, verification)
        fetch = FetchApi(
            manager, metadata, fetch_sessions(), 1 << 20, clock, self.permissions, broker_origin(self.permissions)
        )
        offsets = ListOffsetsApi(manager, clock, self.permissions)
        creation = AutoTopicCreation(admin, metadata, InternalTopicsConfig(50, 1, 1 << 20))
        known = MetadataApi(metadata, lambda: creation, lambda: True, self.permissions)
        changes = TopicChanges(metadata, DelayedOperationPurgatory("topic", self.replicas.timer))
        coordinator = FindCoordinatorApi(metadata, len, len, creation, changes, self.permissions)
        # No partition of its log is led here: who gets past the permissions is told so.
        transactions = transaction_environment(self.replicas, admin.generate)
        service = TransactionService(transactions, lambda _: None)
        origin = broker_origin(self.permissions)
        additions = PatientAdditions(service, self.replicas.broker.scheduler, clock)
        ids = TransactionsApi(service, admin, len, metadata, origin, self.permissions, additions)
        transaction_admin = TransactionAdminApi(TransactionAdmin(transactions), self.permissions)
        cluster = ClusterApi(metadata, self.permissions)
        topics = TopicsApi(
            admin,
            metadata,
            changes,
            lambda: dynamic.settings,
            self.permissions,
            is_controller=lambda: True,
            deletion_enabled=True,
        )
        return [produce, fetch, offsets, known, coordinator, ids, transaction_admin, cluster, topics]

    def _tell_of(self, topic: str) -> None:
        state = UpdateMetadataRequest.UpdateMetadataPartitionState(leader=0, isr=[0], replicas=[0])
        told = UpdateMetadataRequest.UpdateMetadataTopicState(topic, IDS[topic], [state])
        self.replicas.metadata.update_metadata(UpdateMetadataRequest(topic_states=[told]))

    def call(self, body: Message, version: int) -> Any:
        channel = RecordingChannel()
        frame = encode_request_header(body.api_key, version, 1, "me") + b"".join(map(bytes, body.encode(version)))
        self._apis.handle(self._parser.parse(frame, connection(), channel=channel, received_ns=1))
        self.events = channel.events
        return channel.answer() if channel.frames else None


def leader_and_isr(version: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=7, leader_epoch=9, isr=[7], replicas=[7, 0])
    if version < 2:
        state.topic_name = MINE
        return LeaderAndIsrRequest(controller_epoch=9, ungrouped_partition_states=[state])
    told = LeaderAndIsrRequest.LeaderAndIsrTopicState(MINE, partition_states=[state])
    return LeaderAndIsrRequest(controller_epoch=9, topic_states=[told])


@pytest.mark.parametrize("version", range(8))
def test_only_who_may_act_for_the_cluster_moves_leadership(version: int) -> None:
    broker = Broker()
    refused = broker.call(leader_and_isr(version), version)
    errors = refused.partition_errors if version < 5 else refused.topics[0].partition_errors
    codes = [refused.error_code, *(each.error_code for each in errors)]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader
    broker.permissions.allowed.add((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER))
    assert broker.call(leader_and_isr(version), version).error_code == ErrorCode.NONE
    assert not broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader


def test_only_who_may_act_for_the_cluster_stops_replicas_and_tells_metadata() -> None:
    broker = Broker()
    stopped = StopReplicaRequest.StopReplicaPartitionState(0, delete_partition=True)
    stop = StopReplicaRequest(
        controller_epoch=9, topic_states=[StopReplicaRequest.StopReplicaTopicState(MINE, [stopped])]
    )
    refused = broker.call(stop, 4)
    assert [refused.error_code, refused.partition_errors[0].error_code] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    before = broker.replicas.metadata.image
    told = broker.call(UpdateMetadataRequest(controller_epoch=9), 8)
    assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.replicas.metadata.image is before
    assert broker.replicas.manager.hosted.partition_or_error(MINE, 0).is_leader


def test_records_are_deleted_where_that_is_allowed() -> None:
    broker = Broker((AclOperation.DELETE, ResourceType.TOPIC, MINE))
    place = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name, [place]) for name in (THEIRS, MINE, "unknown", THEIRS)]
    answer = broker.call(DeleteRecordsRequest(topics, 1000), 2)
    assert [(each.name, each.partitions[0].error_code, each.partitions[0].low_watermark) for each in answer.topics] == [
        (THEIRS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
        (MINE, ErrorCode.NONE, 0),
        ("unknown", ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
    ]


def test_epochs_are_told_to_brokers_and_to_who_may_describe_a_topic() -> None:
    asked = [
        OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            name, [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, leader_epoch=0)]
        )
        for name in (MINE, THEIRS)
    ]

    def codes(broker: Broker) -> list[int]:
        answer = broker.call(OffsetForLeaderEpochRequest(topics=asked), 4)
        return [topic.partitions[0].error_code for topic in answer.topics]

    client = Broker((AclOperation.DESCRIBE, ResourceType.TOPIC, MINE))
    assert codes(client) == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    follower = Broker((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER))
    assert codes(follower) == [ErrorCode.NONE, ErrorCode.NONE]


def test_log_directories_are_for_who_may_describe_the_cluster() -> None:
    refused = Broker().call(DescribeLogDirsRequest(None), 4)
    assert (refused.error_code, refused.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    assert Broker().call(DescribeLogDirsRequest(None), 2).results == [], "before v3 there is no place for an error"
    allowed = Broker((AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER)).call(DescribeLogDirsRequest(None), 4)
    assert allowed.error_code == ErrorCode.NONE
    assert {topic.name for topic in allowed.results[0].topics} == {MINE, THEIRS}


def test_producers_are_shown_to_who_may_read() -> None:
    topics = [DescribeProducersRequest.TopicRequest(name, [0]) for name in (MINE, THEIRS)]
    answer = Broker((AclOperation.READ, ResourceType.TOPIC, MINE)).call(DescribeProducersRequest(topics), 0)
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


RESOURCES = [(ConfigResourceType.TOPIC, MINE), (ConfigResourceType.TOPIC, THEIRS), (ConfigResourceType.BROKER, "0")]
CODES = [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


def test_settings_are_shown_to_who_may_see_them() -> None:
    broker = Broker((AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, MINE))
    asked = [DescribeConfigsRequest.DescribeConfigsResource(*each, None) for each in RESOURCES]
    results = broker.call(DescribeConfigsRequest(asked), 4).results
    assert [each.error_code for each in results] == CODES
    assert [bool(each.configs) for each in results] == [True, False, False]


def replace(settings: dict[str, str]) -> Message:
    configs = [AlterConfigsRequest.AlterableConfig(*each) for each in settings.items()]
    return AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(*each, configs) for each in RESOURCES])


def change(settings: dict[str, str]) -> Message:
    configs = [IncrementalAlterConfigsRequest.AlterableConfig(name, 0, value) for name, value in settings.items()]
    return IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequest.AlterConfigsResource(*each, configs) for each in RESOURCES]
    )


@pytest.mark.parametrize(
    ("request_of", "written"),
    [(replace, {"flush.ms": "9"}), (change, {"retention.ms": "5", "flush.ms": "9"})],
)
def test_settings_are_changed_by_who_may(
    request_of: Callable[[dict[str, str]], Message], written: dict[str, str]
) -> None:
    broker = Broker((AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, MINE))
    codes = [each.error_code for each in broker.call(request_of({"flush.ms": "9"}), 1).responses]
    assert codes == CODES
    assert broker.store.written == [(MINE, written)]
    codes = [each.error_code for each in broker.call(request_of({}), 1).responses]
    assert codes == CODES
