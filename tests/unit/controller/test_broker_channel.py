"""The channel to the own broker: in order, on its own thread, errors become answers; and the whole on real threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.controller.broker_channel import InProcessBrokerChannel
from barnabas.controller.controller import Controller
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_event_manager import ControllerEventManager
from barnabas.controller.controller_events import ControllerEvent, PartitionModifications, Signal
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_admin import NewTopic, TopicAdmin, TopicAdminConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.zk.embedded_store import EmbeddedStore
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.zk_data import BrokerInfo
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

WAIT_SECONDS = 10


def refuse(error: Exception) -> Any:
    def call(request: Any) -> Any:
        raise error

    return call


def stop_request() -> StopReplicaRequest:
    state = StopReplicaRequest.StopReplicaPartitionState(3, -2, True)
    return StopReplicaRequest(topic_states=[StopReplicaRequest.StopReplicaTopicState("orders", [state])])


def test_requests_are_served_in_order_on_the_channels_thread() -> None:
    served: list[tuple[str, str]] = []
    answers: queue.Queue[Any] = queue.Queue()

    def serve(answer: Any) -> Any:
        def call(request: Any) -> Any:
            served.append((type(request).__name__, threading.current_thread().name))
            return answer

        return call

    channel = InProcessBrokerChannel(
        7, serve(LeaderAndIsrResponse()), serve(UpdateMetadataResponse()), serve(StopReplicaResponse())
    )
    channel.start()
    channel.leader_and_isr(LeaderAndIsrRequest(), answers.put)
    channel.update_metadata(UpdateMetadataRequest(), answers.put)
    channel.stop_replica(StopReplicaRequest(), answers.put)
    assert [type(answers.get(timeout=WAIT_SECONDS)) for _ in range(3)] == [
        LeaderAndIsrResponse,
        UpdateMetadataResponse,
        StopReplicaResponse,
    ]
    assert served == [
        ("LeaderAndIsrRequest", "broker-channel-7"),
        ("UpdateMetadataRequest", "broker-channel-7"),
        ("StopReplicaRequest", "broker-channel-7"),
    ]
    channel.close()
    channel.update_metadata(UpdateMetadataRequest(), answers.put)
    assert answers.empty()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.STALE_CONTROLLER_EPOCH), ErrorCode.STALE_CONTROLLER_EPOCH),
        (OSError("disk"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_is_raised_becomes_the_answer(error: Exception, code: ErrorCode) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    channel = InProcessBrokerChannel(0, refuse(error), refuse(error), refuse(error))
    channel.start()
    channel.leader_and_isr(LeaderAndIsrRequest(), refuse(RuntimeError("a fault in a callback stops nothing")))
    channel.leader_and_isr(LeaderAndIsrRequest(), answers.put)
    channel.update_metadata(UpdateMetadataRequest(), answers.put)
    channel.stop_replica(stop_request(), answers.put)
    got = [answers.get(timeout=WAIT_SECONDS) for _ in range(3)]
    channel.close()
    assert [answer.error_code for answer in got] == [code] * 3
    assert [(e.topic_name, e.partition_index, e.error_code) for e in got[2].partition_errors] == [("orders", 3, code)]


def test_event_manager_handles_in_order_survives_failures_and_preempts_the_rest() -> None:
    handled: queue.Queue[ControllerEvent] = queue.Queue()
    preempted: list[ControllerEvent] = []
    busy, go_on = threading.Event(), threading.Event()

    def process(event: ControllerEvent) -> None:
        handled.put(event)
        if event is Signal.REELECT:
            raise RuntimeError("on purpose")
        if event is Signal.TOPIC_CHANGE:
            busy.set()
            go_on.wait(WAIT_SECONDS)

    manager = ControllerEventManager(process, preempted.append)
    manager.start()
    for event in (Signal.STARTUP, Signal.REELECT, Signal.TOPIC_CHANGE):
        manager.put(event)
    assert busy.wait(WAIT_SECONDS)
    manager.put(PartitionModifications("a"))
    manager.clear_and_put(Signal.EXPIRE)
    assert preempted == [PartitionModifications("a")]
    closing = threading.Thread(target=manager.close)
    go_on.set()
    closing.start()
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    manager.put(Signal.BROKER_CHANGE)
    assert preempted[-1] is Signal.BROKER_CHANGE
    seen = [handled.get(timeout=WAIT_SECONDS) for _ in range(3)]
    assert seen == [Signal.STARTUP, Signal.REELECT, Signal.TOPIC_CHANGE]


class SingleNode:
    """Store, controller, channel and metadata on their real threads; the replica side answers yes to everything."""

    def __init__(self, directory: str) -> None:
        clock = MockClock()
        self.store = EmbeddedStore(directory, clock)
        self.store.start()
        self.zk = KafkaZkClient(self.store.new_session(), clock)
        self.zk.make_sure_persistent_paths_exist()
        info = BrokerInfo(0, (EndPoint("localhost", 9092, "PLAINTEXT", "PLAINTEXT"),))
        self.zk.register_broker(info)
        self.cache = MetadataCache(0)
        self.changed = threading.Condition()
        self.cache.subscribe(self.on_change)
        self.admin = TopicAdmin(self.zk, self.cache, TopicAdminConfig())
        self.ready = threading.Event()
        self.controller = Controller(
            ControllerConfig(0, "PLAINTEXT"),
            self.zk,
            lambda: self.zk.register_broker(info),
            lambda broker: InProcessBrokerChannel(
                broker.id, self.leader_and_isr, self.update_metadata, self.stop_replicas
            ),
            MockScheduler(clock),
            on_ready=self.ready.set,
        )
        self.controller.startup()

    def on_change(self, old: MetadataImage, new: MetadataImage) -> None:
        with self.changed:
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[MetadataImage], bool]) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: condition(self.cache.image), WAIT_SECONDS)

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse()

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        self.cache.update_metadata(request)
        return UpdateMetadataResponse()

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        errors = [
            StopReplicaResponse.StopReplicaPartitionError(topic.topic_name, state.partition_index, 0)
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        return StopReplicaResponse(partition_errors=errors)

    def close(self) -> None:
        self.controller.shutdown()
        self.store.close()


def test_a_single_node_on_its_real_threads(tmp_path: Path) -> None:
    node = SingleNode(str(tmp_path))
    assert node.ready.wait(WAIT_SECONDS)
    results = node.admin.create_topics([NewTopic("orders", 3, 1), NewTopic("gone", 1, 1)])
    assert [result.error for result in results] == [None, None]
    assert node.wait_for(lambda image: {"orders", "gone"} <= set(image.topics))
    node.admin.delete_topics(["gone"])
    assert node.wait_for(lambda image: "gone" not in image.topics)
    node.close()

    again = SingleNode(str(tmp_path))
    assert again.ready.wait(WAIT_SECONDS)
    assert [found.leader for found in again.cache.image.topics["orders"].partitions] == [0, 0, 0]
    assert set(again.cache.image.topics) == {"orders"}
    assert again.controller.epoch == 2
    again.close()
    assert not [t.name for t in threading.enumerate() if t.name.startswith(("store", "controller", "broker-channel"))]
