"""A controlled shutdown asks the controller as often as the settings say, and one that is alone does not wait long."""

from __future__ import annotations

from typing import Any

from barnabas.broker.controlled_shutdown import ControlledShutdownClient, ShutdownTerms
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    UpdateMetadataRequest,
)
from barnabas.protocol.messages.message import Message
from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import PeerConnection
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest

MOVED = ControlledShutdownResponse()
LEFT = ControlledShutdownResponse(remaining_partitions=[ControlledShutdownResponse.RemainingPartition("orders", 0)])
REFUSED = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
TERMS = ShutdownTerms()


class Stop:
    """Broker 0, which stops, and a controller that answers as it is told to; no answer at all once it runs out."""

    def __init__(self, brokers: int, *answers: Message) -> None:
        self.clock = MockClock()
        self.answers = list(answers)
        self.asked: list[ControlledShutdownRequest] = []
        self.slept_seconds: list[float] = []
        self.nodes: list[Node] = []
        metadata = MetadataCache(0)
        endpoints = [UpdateMetadataRequest.UpdateMetadataEndpoint(9092, "127.0.0.1", "PLAINTEXT", 0)]
        live = [UpdateMetadataRequest.UpdateMetadataBroker(id=b, endpoints=endpoints) for b in range(brokers)]
        metadata.update_metadata(UpdateMetadataRequest(controller_id=brokers - 1, live_brokers=live))
        connections: Any = self
        self.started_ms = self.clock.milliseconds()
        self.succeeded = ControlledShutdownClient(
            connections, metadata, "PLAINTEXT", 0, lambda: 7, TERMS, sleep=self.slept_seconds.append
        ).run()

    def node(self, broker_id: int, addresses: dict[str, tuple[str, int]], listener_name: str) -> Node:
        return Node(broker_id, *addresses[listener_name])

    def client_config(self, listener_name: str) -> NetworkClientConfig:
        assert listener_name == "PLAINTEXT"
        return NetworkClientConfig()

    def connection(self, node: Node, config: NetworkClientConfig) -> PeerConnection:
        self.nodes.append(node)
        selector = ScriptedSelector(self.clock)
        selector.passes_time = True
        selector.responder = self.respond
        return PeerConnection(node, selector, config, self.clock)

    def respond(self, request: SentRequest) -> Message | None:
        if not self.answers:
            return None
        self.asked.append(request.body)
        return self.answers.pop(0)


def test_it_asks_until_nothing_is_left() -> None:
    stop = Stop(2, LEFT, REFUSED, MOVED)
    assert stop.succeeded
    assert [(asked.broker_id, asked.broker_epoch) for asked in stop.asked] == [(0, 7)] * 3
    assert stop.slept_seconds == [5, 5]
    assert {node.id for node in stop.nodes} == {1}


def test_it_gives_up_after_as_many_attempts_as_set() -> None:
    stop = Stop(2, LEFT, LEFT, LEFT, MOVED)
    assert not stop.succeeded
    assert len(stop.asked) == 3


def test_one_that_is_alone_asks_itself_once_and_waits_a_second_at_most() -> None:
    assert Stop(1, MOVED).succeeded
    silent = Stop(1)
    assert not silent.succeeded
    assert silent.slept_seconds == []
    assert {node.id for node in silent.nodes} == {0}
    assert silent.clock.milliseconds() - silent.started_ms <= 2_100


def test_without_a_controller_there_is_nobody_to_ask() -> None:
    stop = Stop(0)
    assert not stop.succeeded
    assert stop.nodes == []
