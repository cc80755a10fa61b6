"""The metrics of connections, of clients on a scripted selector: sums, rates, nodes, a consumer's second client."""

from __future__ import annotations

import math

from barnabas.clients.client_metrics import MeasuredNetwork, MetricName, network_metrics
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, all_versions

NODE = Node(7, "a", 9092)


class Setting:
    """A network client that is connected to one node."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.client = NetworkClient(
            self.selector,
            ManualMetadataUpdater([NODE]),
            NetworkClientConfig(client_id="c"),
            self.clock,
            resolve=lambda *_: ("10.0.0.1",),
        )
        self.client.ready(NODE, self.client.now_ms())
        self.poll()
        self.selector.answer(self.selector.take(), all_versions(MetadataRequest))
        self.poll()

    def poll(self) -> None:
        self.client.poll(0, self.client.now_ms())

    def exchange(self, latency_ms: int) -> int:
        """Send a request and receive its answer. Returns the sizes of both frames together."""
        before = self.client.counters.nodes[7].sent.total + self.client.counters.nodes[7].received.total
        self.client.send(self.client.new_request(7, MetadataRequest(topics=[])), self.client.now_ms())
        self.selector.answer(self.selector.take(), MetadataResponse())
        self.clock.advance(latency_ms)
        self.poll()
        self.client.record_latency(7, latency_ms)
        after = self.client.counters.nodes[7].sent.total + self.client.counters.nodes[7].received.total
        return int(after - before)

    def values(self, group: str, *, is_coordinators: bool = False) -> dict[str, float]:
        network = MeasuredNetwork(self.client.counters, is_coordinators)
        measured = network_metrics("consumer", "c", [network], self.client.now_ms())
        return {each.name: value for each, value in measured.items() if each.group == group}


def test_requests_and_latencies_of_a_node() -> None:
    setting = Setting()
    assert math.isnan(setting.values("consumer-node-metrics")["request-latency-avg"])
    setting.exchange(latency_ms=10)
    setting.exchange(latency_ms=30)
    of_node = setting.values("consumer-node-metrics")
    assert (of_node["request-total"], of_node["response-total"]) == (3, 3)  # with ApiVersions
    assert (of_node["request-latency-avg"], of_node["request-latency-max"]) == (20, 30)
    assert of_node["request-size-avg"] == of_node["outgoing-byte-total"] / 3
    of_client = setting.values("consumer-metrics")
    assert of_client["network-io-total"] == 6
    assert of_client["request-size-max"] == of_node["request-size-max"]


def test_a_roll_ends_the_window() -> None:
    setting = Setting()
    size = setting.exchange(latency_ms=50)
    assert size > 40
    for _ in range(3):
        setting.clock.advance(30_000)
        setting.poll()
    of_node = setting.values("consumer-node-metrics")
    assert (of_node["request-rate"], of_node["request-total"]) == (0, 2)
    assert math.isnan(of_node["request-latency-max"])
    assert math.isnan(setting.values("consumer-metrics")["request-size-avg"])


def test_the_totals_of_the_selector_have_rates() -> None:
    setting = Setting()
    counters = setting.selector.counters
    counters.select_calls, counters.idle_ns, counters.io_ns = 10, 15_000_000_000, 3_000_000_000
    counters.connections_created = 6
    measured = setting.values("consumer-metrics")
    assert measured["io-wait-time-ns-avg"] == 1_500_000_000
    assert measured["io-wait-ratio"] == 0.5  # of 30 s, the least that a rate covers
    assert measured["io-ratio"] == 0.1
    assert measured["connection-creation-rate"] == 0.2
    assert math.isnan(measured["reauthentication-latency-avg"])
    counters.sessions.reauthenticated(2_000_000)
    assert setting.values("consumer-metrics")["reauthentication-latency-avg"] == 2


def test_a_coordinator_is_a_node_of_its_own() -> None:
    main, channel = Setting(), Setting()
    networks = [MeasuredNetwork(main.client.counters), MeasuredNetwork(channel.client.counters, is_coordinators=True)]
    measured = network_metrics("consumer", "c", networks, main.client.now_ms())

    def requests_to(node: str) -> float:
        return measured[MetricName("request-total", "consumer-node-metrics", (("client-id", "c"), ("node-id", node)))]

    assert requests_to("node-7") == requests_to(f"node-{2**31 - 1 - 7}") == 1
    assert measured[MetricName("request-total", "consumer-metrics", (("client-id", "c"),))] == 2
