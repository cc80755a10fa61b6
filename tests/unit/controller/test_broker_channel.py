"""The channel to a broker: in order, on its own thread, again and again; and a single node on its real threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.controller import network_broker_channel
from barnabas.controller.controller import Controller
from barnabas.controller.controller_context import ControllerConfig
from barnabas.controller.controller_event_manager import ControllerEventManager
from barnabas.controller.controller_events import ControllerEvent, PartitionModifications, Signal
from barnabas.controller.network_broker_channel import NetworkBrokerChannel
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_admin import TopicAdmin, TopicAdminConfig, TopicToCreate
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.protocol.messages.message import Message
from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import PeerConnection
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from tests.support.in_process_broker_channel import InProcessBrokerChannel
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.scripted_selector import ScriptedSelector, SentRequest

WAIT_SECONDS = 10
NODE = Node(7, "127.0.0.1", 9092)


class ScriptedBroker:
    """The broker at the other end of a channel: it answers at once, as long as `answers` says so."""

    def __init__(self, *, is_watched: bool = False) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.passes_time = True
        self.selector.responder = self.respond
        self.served: list[tuple[str, int]] = []
        self.failures = 0
        self.dies_with_failure = False
        self.lost: set[int] = set()
        self.taken_ns: list[int] = []
        self.closed = 0
        self.channel = NetworkBrokerChannel(
            0,
            NODE,
            PeerConnection(NODE, self.selector, NetworkClientConfig(), self.clock),
            30_000,
            on_taken=self.taken_ns.append,
            on_closed=self.count_closing,
            refuses_connections=(lambda: str(NODE.id) in self.selector.refused) if is_watched else None,
        )

    def count_closing(self) -> None:
        self.closed += 1

    def respond(self, request: SentRequest) -> Message | None:
        if request.header.correlation_id in self.lost:
            return None
        self.served.append((type(request.body).__name__, request.header.api_version))
        if self.failures:
            self.failures -= 1
            self.lost.add(request.header.correlation_id)
            if self.dies_with_failure:
                self.selector.refused.add(request.connection_id)
            self.selector.disconnect(request.connection_id)
            return None
        return {
            "LeaderAndIsrRequest": LeaderAndIsrResponse(error_code=11),
            "UpdateMetadataRequest": UpdateMetadataResponse(),
            "StopReplicaRequest": StopReplicaResponse(),
        }[type(request.body).__name__]


def ignore_reachability(is_reachable: bool) -> None:
    raise AssertionError("nobody looks at this connection")


def test_requests_are_sent_in_order_in_the_versions_of_3_9_on_the_channels_thread() -> None:
    broker = ScriptedBroker()
    channel = broker.channel
    answers: queue.Queue[tuple[Message, str]] = queue.Queue()

    def answered(response: Message) -> None:
        answers.put((response, threading.current_thread().name))

    def fail(response: Message) -> None:
        raise RuntimeError("a fault in a callback stops nothing")

    channel.update_metadata(UpdateMetadataRequest(), fail)
    channel.leader_and_isr(LeaderAndIsrRequest(), answered)
    channel.update_metadata(UpdateMetadataRequest(), answered)
    channel.stop_replica(StopReplicaRequest(), answered)
    assert channel.queue_size == 4
    channel.start(ignore_reachability)
    got = [answers.get(timeout=WAIT_SECONDS) for _ in range(3)]
    channel.close()
    assert broker.served == [
        ("UpdateMetadataRequest", 8),
        ("LeaderAndIsrRequest", 7),
        ("UpdateMetadataRequest", 8),
        ("StopReplicaRequest", 4),
    ]
    assert [type(response) for response, _ in got] == [
        LeaderAndIsrResponse,
        UpdateMetadataResponse,
        StopReplicaResponse,
    ]
    assert {name for _, name in got} == {"Controller-0-to-broker-7-send-thread"}
    assert got[0][0] == LeaderAndIsrResponse(error_code=11)  # an error is an answer, too
    assert len(broker.taken_ns) == 4
    assert broker.closed == 1
    assert broker.selector.channels == {}


def test_a_request_is_sent_again_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_broker_channel, "BACKOFF_SECONDS", 0)
    broker = ScriptedBroker()
    broker.failures = 3
    answers: queue.Queue[Message] = queue.Queue()
    broker.channel.leader_and_isr(LeaderAndIsrRequest(), answers.put)
    broker.channel.stop_replica(StopReplicaRequest(), answers.put)
    broker.channel.start(ignore_reachability)
    assert isinstance(answers.get(timeout=WAIT_SECONDS), LeaderAndIsrResponse)
    assert isinstance(answers.get(timeout=WAIT_SECONDS), StopReplicaResponse)
    broker.channel.close()
    assert [name for name, _ in broker.served] == ["LeaderAndIsrRequest"] * 4 + ["StopReplicaRequest"]
    assert len(broker.selector.attempts) == 4


def test_a_connection_lost_between_requests_is_made_anew_without_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    broker = ScriptedBroker()
    answers: queue.Queue[Message] = queue.Queue()
    broker.channel.start(ignore_reachability)
    for _ in range(2):
        broker.channel.stop_replica(StopReplicaRequest(), answers.put)
        answers.get(timeout=WAIT_SECONDS)
        broker.selector.disconnect(str(NODE.id))  # as an idle connection is after ten minutes
    broker.channel.close()
    assert len(broker.served) == 2
    assert len(broker.selector.attempts) == 2
    assert not caplog.records


def test_closing_gives_up_a_broker_that_can_not_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_broker_channel, "BACKOFF_SECONDS", 0)
    broker = ScriptedBroker()
    broker.selector.refused.add(str(NODE.id))
    tried = threading.Event()
    connect = broker.selector.connect

    def counted_connect(*arguments: Any) -> None:
        if len(broker.selector.attempts) > 20:
            tried.set()
        connect(*arguments)

    monkeypatch.setattr(broker.selector, "connect", counted_connect)
    answers: list[Message] = []
    broker.channel.leader_and_isr(LeaderAndIsrRequest(), answers.append)
    broker.channel.update_metadata(UpdateMetadataRequest(), answers.append)
    broker.channel.start(ignore_reachability)
    assert tried.wait(WAIT_SECONDS)
    broker.channel.close()
    assert answers == []
    assert broker.served == []


def test_a_broker_that_dies_while_nothing_is_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_broker_channel, "WATCH_SECONDS", 0.001)
    broker = ScriptedBroker(is_watched=True)
    answers: queue.Queue[Message] = queue.Queue()
    told: queue.Queue[bool] = queue.Queue()
    broker.channel.start(told.put)
    broker.channel.stop_replica(StopReplicaRequest(), answers.put)
    answers.get(timeout=WAIT_SECONDS)
    broker.selector.refused.add(str(NODE.id))
    broker.selector.disconnect(str(NODE.id))
    assert told.get(timeout=WAIT_SECONDS) is False
    # An order for the broker that is gone must not reach one that accepts connections again.
    broker.channel.stop_replica(StopReplicaRequest(), answers.put)
    broker.selector.refused.clear()
    assert told.get(timeout=WAIT_SECONDS) is True
    broker.channel.close()
    assert len(broker.served) == 1
    assert told.empty()


def test_a_broker_that_dies_while_a_request_is_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_broker_channel, "BACKOFF_SECONDS", 0)
    broker = ScriptedBroker(is_watched=True)
    told: queue.Queue[bool] = queue.Queue()
    broker.failures = 1
    broker.dies_with_failure = True
    broker.channel.leader_and_isr(LeaderAndIsrRequest(), lambda _: None)
    broker.channel.start(told.put)
    assert told.get(timeout=WAIT_SECONDS) is False
    broker.channel.close()
    assert len(broker.served) == 1


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
    results = node.admin.create_topics([TopicToCreate("orders", 3, 1), TopicToCreate("gone", 1, 1)])
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
