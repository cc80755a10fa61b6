"""Several brokers and their controllers on one store, all on the test's thread.

Each broker obeys whoever is the controller, remembers what it was told, and answers when the cluster settles.
"""

from __future__ import annotations

from typing import Any

from barnabas.config.listeners import EndPoint
from barnabas.controller.controller import Controller
from barnabas.controller.controller_channel_manager import (
    OnLeaderAndIsrResponse,
    OnReachabilityChange,
    OnStopReplicaResponse,
    OnUpdateMetadataResponse,
)
from barnabas.controller.controller_context import ControllerConfig
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from barnabas.zk.znodes.topic_zk_data import LeaderIsrAndControllerEpoch
from tests.support.inline_store import InlineSession, InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

LISTENER = "PLAINTEXT"


class RecordingChannel:
    """A broker that obeys: it remembers requests, applies metadata, and answers when the cluster settles."""

    def __init__(self, broker: RecordingBroker) -> None:
        self.broker = broker
        self.closed = False

    def start(self, on_reachability_change: OnReachabilityChange) -> None:
        self.broker.channels.append((self, on_reachability_change))

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        self.broker.requests.append(request)
        errors = [
            LeaderAndIsrResponse.LeaderAndIsrTopicError(
                topic.topic_id,
                [
                    LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                        "",
                        state.partition_index,
                        ErrorCode.KAFKA_STORAGE_ERROR
                        if TopicPartition(topic.topic_name, state.partition_index) in self.broker.failed
                        else ErrorCode.NONE,
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        self.broker.answer(self, lambda: on_response(LeaderAndIsrResponse(topics=errors)))

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        self.broker.requests.append(request)
        self.broker.cache.update_metadata(request)
        self.broker.answer(self, lambda: on_response(UpdateMetadataResponse()))

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        self.broker.requests.append(request)
        errors = [
            StopReplicaResponse.StopReplicaPartitionError(
                topic.topic_name, state.partition_index, self.broker.stop_replica_error
            )
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        self.broker.answer(self, lambda: on_response(StopReplicaResponse(partition_errors=errors)))

    def close(self) -> None:
        self.closed = True


class RecordingBroker:
    """One broker: its session, its controller, and what any controller sent it."""

    def __init__(self, cluster: Cluster, broker_id: int, **settings: Any) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.requests: list[Any] = []
        self.failed: set[TopicPartition] = set()
        self.stop_replica_error = ErrorCode.NONE
        self.topics_when_ready: list[set[str]] = []
        self.channels: list[tuple[RecordingChannel, OnReachabilityChange]] = []
        self.cache = MetadataCache(broker_id)
        self.session: InlineSession = cluster.store.new_session()
        self.zk = KafkaZkClient(self.session, cluster.clock)
        self.zk.make_sure_persistent_paths_exist()
        self.info = BrokerInfo(broker_id, (EndPoint("localhost", 9092 + broker_id, LISTENER, "PLAINTEXT"),))
        self.epoch = self.register()
        self.controller = Controller(
            ControllerConfig(broker_id, LISTENER, **settings),
            self.zk,
            self.register,
            cluster.channel_to,
            cluster.scheduler,
            on_ready=self.became_ready,
            threaded=False,
        )
        self.controller.startup()

    def became_ready(self) -> None:
        self.topics_when_ready.append(set(self.cache.image.topics))

    def register(self) -> int:
        self.epoch = self.zk.register_broker(self.info)
        return self.epoch

    def answer(self, channel: RecordingChannel, callback: Any) -> None:
        self.cluster.store.pending.append(lambda: None if channel.closed else callback())

    def become_reachable(self, is_reachable: bool) -> None:
        """Tell every controller that has a channel to this broker, as the channel's thread does."""
        for channel, on_reachability_change in self.channels:
            if not channel.closed:
                on_reachability_change(is_reachable)

    def take(self) -> list[Any]:
        taken, self.requests = self.requests, []
        return taken

    def stop(self) -> None:
        """What a crash looks like to the others."""
        self.session.close()
        self.controller.shutdown()
        del self.cluster.brokers[self.id]


class Cluster:
    """Brokers on one store, run on the test's thread."""

    def __init__(self, *broker_ids: int, **settings: Any) -> None:
        self.clock = MockClock()
        self.store = InlineStore(self.clock)
        self.scheduler = MockScheduler(self.clock)
        self.brokers: dict[int, RecordingBroker] = {}
        self.settings = settings
        for broker_id in broker_ids:
            self.start(broker_id)
        self.settle()

    def start(self, broker_id: int) -> RecordingBroker:
        broker = self.brokers[broker_id] = RecordingBroker(self, broker_id, **self.settings)
        return broker

    def channel_to(self, info: BrokerInfo) -> RecordingChannel:
        return RecordingChannel(self.brokers[info.id])

    def settle(self) -> None:
        """Run everything that is waiting, and what that causes."""
        while self.store.deliver() + sum(broker.controller.run_pending() for broker in list(self.brokers.values())):
            pass

    @property
    def active(self) -> RecordingBroker:
        return next(broker for broker in self.brokers.values() if broker.controller.is_active)

    def create_topic(self, name: str, assignment: dict[int, list[int]], **configs: str) -> bytes:
        topic_id = random_uuid()
        self.active.zk.topics.create(name, topic_id, assignment, configs)
        self.settle()
        return topic_id

    def state(self, topic: str, partition: int = 0) -> LeaderIsrAndControllerEpoch:
        tp = TopicPartition(topic, partition)
        return self.active.zk.topics.partition_states([tp])[tp]

    def leadership(self, topic: str, partition: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """(leader, leader epoch, in-sync replicas) in the store."""
        found = self.state(topic, partition).leader_and_isr
        return found.leader, found.leader_epoch, found.isr
