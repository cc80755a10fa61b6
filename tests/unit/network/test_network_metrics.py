"""The network layer's metrics over parts that a test moves by hand: shares of time, rates, planes, threads that go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.api.request import ConnectionContext
from barnabas.network.connections.channel_builders import CONTROL_PLANE, DATA_PLANE, ServedListener
from barnabas.network.connections.connection_quotas import RateSample
from barnabas.network.network_metrics import TIMES, TOTALS, NetworkMetrics
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.transport.channel.open_channels import SessionCounters
from barnabas.transport.memory_pool import NONE
from tests.support.mock_clock import MockClock
from tests.unit.network.network_harness import PRODUCE, finished

SECOND_NS = 1_000_000_000
SOCKETS = "kafka.server:type=socket-server-metrics"


class Thread:
    """A Processor as its metrics see it."""

    def __init__(self, number: int, plane: str = DATA_PLANE) -> None:
        self.processor_id = number
        name = "CONTROLLER" if plane == CONTROL_PLANE else "PLAINTEXT"
        self.listener = ServedListener(name, "PLAINTEXT", plane=plane)
        self.counters = SimpleNamespace(
            **{counter: 0 for _, counter, _ in (*TOTALS, *TIMES)}, sessions=SessionCounters()
        )
        self.contexts: list[ConnectionContext] = []
        self.connection_count = 0

    def connection_contexts(self) -> list[ConnectionContext]:
        return self.contexts


def channel(prefix: str, *numbers: int) -> Any:
    sizes = {number: number + 1 for number in numbers}
    return SimpleNamespace(metric_prefix=prefix, request_queue_size=7, response_queue_sizes=sizes)


class Network:
    """A SocketServer and its handler pools, likewise."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.threads = [Thread(0), Thread(1), Thread(2, CONTROL_PLANE)]
        self.acceptor = SimpleNamespace(listener=self.threads[0].listener, blocked_ns=0)
        self.pool = _Pool(8)
        self.sockets = SimpleNamespace(
            processors=self.threads,
            acceptors=[_Hashable(self.acceptor)],
            data_plane_request_channel=channel("", 0, 1),
            control_plane_request_channel=channel("ControlPlane", 2),
            memory_pool=NONE,
            connection_quotas=SimpleNamespace(
                rate_samples=lambda: [RateSample("connection-accept-rate", (("ip", "10.0.0.1"),), 2.5, "")]
            ),
        )
        self.requests = RequestMetrics()
        sockets: Any = self.sockets
        pools: list[Any] = [self.pool]
        self.metrics = NetworkMetrics(sockets, pools, self.requests, self.clock)

    def pass_seconds(self, seconds: int) -> None:
        """Let time pass, and everybody's clock tick every five seconds."""
        for _ in range(seconds // 5):
            self.clock.advance(5000)
            self.metrics.tick(5)

    def values(self) -> dict[str, float]:
        return {sample.name.mbean: sample.value for sample in self.metrics.samples()}


class _Pool:
    def __init__(self, size: int) -> None:
        self.size = size
        self.idle_ns = 0


class _Hashable:
    """An acceptor: a namespace compares by value, and so cannot be a key."""

    def __init__(self, of: SimpleNamespace) -> None:
        self.__dict__ = of.__dict__


def test_shares_of_time_are_those_of_the_last_half_minute() -> None:
    network = Network()
    for _ in range(6):
        network.pass_seconds(5)
        network.threads[0].counters.idle_ns += 5 * SECOND_NS
        network.threads[2].counters.idle_ns += SECOND_NS
        network.pool.idle_ns += 20 * SECOND_NS
        network.acceptor.blocked_ns += SECOND_NS // 2
    values = network.values()
    assert values["kafka.network:type=Processor,name=IdlePercent,networkProcessor=0"] == pytest.approx(1)
    assert values["kafka.network:type=Processor,name=IdlePercent,networkProcessor=1"] == 0
    assert values["kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"] == pytest.approx(0.5)
    control = values["kafka.network:type=SocketServer,name=ControlPlaneNetworkProcessorAvgIdlePercent"]
    assert control == pytest.approx(0.2, rel=0.3)
    handlers = values["kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"]
    assert handlers == pytest.approx(0.5, rel=0.3)  # 20 s of 8 threads in 5 s
    blocked = values["kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=PLAINTEXT"]
    assert blocked == pytest.approx(0.1, rel=0.3)
    network.pass_seconds(60)
    assert network.values()["kafka.network:type=Processor,name=IdlePercent,networkProcessor=0"] == 0


def test_queues_tell_of_each_plane_and_processor() -> None:
    values = Network().values()
    kind = "kafka.network:type=RequestChannel"
    assert values[f"{kind},name=RequestQueueSize"] == values[f"{kind},name=ControlPlaneRequestQueueSize"] == 7
    assert values[f"{kind},name=ResponseQueueSize"] == 3
    assert values[f"{kind},name=ResponseQueueSize,processor=1"] == 2
    assert values[f"{kind},name=ControlPlaneResponseQueueSize,processor=2"] == 3
    assert values[f"{SOCKETS},ip=10.0.0.1/connection-accept-rate"] == 2.5


def test_totals_have_rates_and_never_fall() -> None:
    network = Network()
    name = f"{SOCKETS},listener=PLAINTEXT,networkProcessor=0/incoming-byte"
    network.pass_seconds(10)
    network.threads[0].counters.bytes_received = 3000
    network.pass_seconds(5)
    assert network.values()[f"{name}-total"] == 3000
    assert network.values()[f"{name}-rate"] == pytest.approx(200)
    network.threads[0].counters.bytes_received = 100  # read while a connection goes: its part is nowhere
    assert network.values()[f"{name}-total"] == 3000
    network.threads[0].counters.bytes_received = 3100
    assert network.values()[f"{name}-total"] == 3100


def test_frames_have_the_names_of_kafkas_selector() -> None:
    """What a Selector sends is a request, the broker's too; a produce with acks=0 is received and not answered."""
    network = Network()
    network.pass_seconds(10)
    for answer_bytes in (50, 1000, 0):
        network.requests.record(finished(PRODUCE, sizes=(100, answer_bytes)))
        network.threads[0].counters.bytes_sent += answer_bytes
    network.pass_seconds(5)
    values = network.values()
    where = f"{SOCKETS},listener=PLAINTEXT,networkProcessor=0/"
    totals = {name: values[f"{where}{name}-total"] for name in ("request", "response", "network-io")}
    assert totals == {"request": 2, "response": 3, "network-io": 5}
    assert values[f"{where}response-rate"] == pytest.approx(0.2)
    assert values[f"{where}request-size-avg"] == pytest.approx(525)
    assert values[f"{where}request-size-max"] == pytest.approx(1000, rel=1 / 8)


def test_connections_are_told_by_client_software() -> None:
    network = Network()
    for software in ("java", "java", "librdkafka"):
        context = ConnectionContext("id", "127.0.0.1", "PLAINTEXT", "PLAINTEXT")
        context.client_software_name, context.client_software_version = software, "1"
        network.threads[1].contexts.append(context)
    values = network.values()
    where = "listener=PLAINTEXT,networkProcessor=1"
    assert values[f"{SOCKETS},clientSoftwareName=java,clientSoftwareVersion=1,{where}/connections"] == 2
    assert values[f"{SOCKETS},clientSoftwareName=librdkafka,clientSoftwareVersion=1,{where}/connections"] == 1


def test_a_thread_that_goes_takes_its_metrics_along_and_leaves_its_requests() -> None:
    network = Network()
    for number in (0, 1):
        network.requests.record(finished(PRODUCE, processor_id=number))
    del network.threads[1]
    network.pass_seconds(5)
    assert not [name for name in network.values() if "networkProcessor=1" in name]
    network.threads.append(Thread(3))
    network.pass_seconds(5)
    network.requests.record(finished(PRODUCE, processor_id=3))
    produces = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"
    assert {sample.name.mbean: sample.value for sample in network.requests.samples()}[produces] == 3
