"""Broker 0 with two topics, of which the caller has permissions for some, and every handler that asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.messages.message import Message
from barnabas.security.acl.acl_authorizer import Action
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
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
        known = MetadataApi(metadata, creation, lambda: True, self.permissions)
        changes = TopicChanges(metadata, self.replicas.timer)
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
