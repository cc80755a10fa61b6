"""What `/metrics` says of a broker, against traffic that is known; `/healthz`; and both at the edges."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.lifecycle import BrokerState
from barnabas.console import console_server
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.v2.walk import Record
from tests.architecture.source_tree import ROOT
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.raw_group_member import await_coordinator, classic_member, consumer_member
from tests.support.server_fixtures import AGAINST_KAFKA, make_server

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka has JMX")

REQUESTS = "kafka_network_requestmetrics"
TOPICS = "kafka_server_brokertopicmetrics"
SOCKETS = "kafka_server_socket_server_metrics"


class Scrape:
    """One look at the page: values by name and labels."""

    def __init__(self, server: Any) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http']}/metrics", timeout=30) as page:
            assert page.headers["Content-Type"].startswith("text/plain")
            families = list(text_string_to_metric_families(page.read().decode()))
        assert len({family.name for family in families}) == len(families)
        self.samples = [sample for family in families for sample in family.samples]
        self.types = {family.name: family.type for family in families}

    def values(self, name: str, **labels: str) -> list[float]:
        """Of every sample of that name that has these labels."""
        return [each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """The sum over the samples of that name that have these labels."""
        return sum(self.values(name, **labels))

    def since(self, earlier: Scrape, name: str, **labels: str) -> float:
        """How much more there is than there was."""
        return self.value(name, **labels) - earlier.value(name, **labels)


@pytest.fixture(scope="module")
def inline_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for all tests of this module: each looks at what changed."""
    server = make_server("inline", tmp_path_factory.mktemp("inline"), metrics_listen="127.0.0.1:0")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def queue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    server = make_server("queue", tmp_path_factory.mktemp("queue"), metrics_listen="127.0.0.1:0")
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["inline", "queue"])
def measured(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """A server, and how requests go there."""
    return request.getfixturevalue(f"{request.param}_server"), request.param


def scrape_when(server: Any, name: str, at_least: float, **labels: str) -> Scrape:
    """Requests are counted when their answer has left: the client may be faster."""
    deadline = time.monotonic() + 30
    while (scrape := Scrape(server)).value(name, **labels) < at_least:
        assert time.monotonic() < deadline, (name, labels, scrape.values(name))
        time.sleep(0.01)
    return scrape


def test_known_traffic_is_what_the_page_says(measured: Any) -> None:
    server, mode = measured
    batch = make_batch([b"v" * 100] * 3)
    with RawClient(server) as client, RawClient(server) as second:
        client.create_topic("t")
        before = Scrape(server)
        for _ in range(7):
            assert client.produce("t", batch, version=9, acks=1).error_code == 0
        for _ in range(2):
            assert client.produce("t", batch, version=7).error_code == 0
        assert client.produce("nowhere", batch, version=9).error_code == 3
        client.send(client.produce_request("t", batch, 9, acks=0), 9)
        for offset in (0, 3, 6):
            assert client.fetch("t", offset, 12).error_code == 0
        waited = client.call(
            client.fetch_request("t", 30, 11, max_wait_ms=300, min_bytes=1), 11, FetchResponse
        )  # nothing is there: it waits in the purgatory
        assert waited.responses[0].partitions[0].error_code == 0
        follower = FetchRequest(replica_id=5, max_wait_ms=0, min_bytes=0)
        client.call(follower, 12, FetchResponse)
        second.call(ApiVersionsRequest("raw-software", "1.2"), 3, ApiVersionsResponse)
        second.call(ApiVersionsRequest("raw-software", "1.2"), 3, ApiVersionsResponse)
        after = scrape_when(server, f"{REQUESTS}_requests_total", 2, request="ApiVersions", version="3")

        def more(name: str, **labels: str) -> float:
            return after.since(before, name, **labels)

        requests = f"{REQUESTS}_requests_total"
        assert more(requests, request="Produce", version="9") == 9
        assert more(requests, request="Produce", version="7") == 2
        assert more(requests, request="Fetch") == 5
        assert more(requests, request="FetchConsumer", version="12") == 3
        assert more(requests, request="FetchConsumer", version="11") == 1
        assert more(requests, request="FetchFollower") == 1
        errors = f"{REQUESTS}_errors_total"
        assert more(errors, request="Produce", error="NONE") == 9  # but for acks=0, which has no answer
        assert more(errors, request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert more(errors, request="Fetch", error="NONE") == 5 + 4  # of the whole, and of each partition
        for stage in ("requestqueuetimems", "localtimems", "remotetimems", "totaltimems", "requestbytes"):
            assert more(f"{REQUESTS}_{stage}_count", request="Produce") == 11
        assert more(f"{REQUESTS}_remotetimems_sum", request="Fetch") > 250
        assert after.value(f"{REQUESTS}_remotetimems_max", request="FetchConsumer") < 10_000
        assert after.value(f"{REQUESTS}_totaltimems", request="Fetch", quantile="0.999") > 250
        sent = sum(len(client.encode(client.produce_request("t", batch, 9, 1), 9)) - 4 for _ in range(11))
        assert more(f"{REQUESTS}_requestbytes_sum", request="Produce") == pytest.approx(sent, rel=1 / 8)

        path = "barnabas_network_requestpath_requests_total"
        other = "queue" if mode == "inline" else "inline"
        assert more(path, request="Produce", plane="data-plane", listener="PLAINTEXT", path=mode) == 11
        assert more(path, request="Produce", path=other) == 0

        assert more(f"{TOPICS}_messagesin_total", topic="t") == 30
        assert more(f"{TOPICS}_bytesin_total", topic="t") == 10 * len(batch)
        assert more(f"{TOPICS}_totalproducerequests_total", topic="t") == 10
        assert more(f"{TOPICS}_totalfetchrequests_total", topic="t") == 4

        clients = f"{SOCKETS}_connections"
        assert after.value(clients, clientSoftwareName="raw-software", clientSoftwareVersion="1.2") == 1
        assert after.value(f"{SOCKETS}_connection_count", listener="PLAINTEXT") >= 2
        assert more(f"{SOCKETS}_incoming_byte_total") > 10 * len(batch)
        assert after.types[f"{SOCKETS}_incoming_byte"] == "counter"


def test_conversions_of_old_formats_have_their_time_and_memory(measured: Any) -> None:
    server, mode = measured
    topic = f"old-{mode}"
    old = encode_message_set(1, [Record(0, 1_700_000_000_000, b"key", b"v" * 500, ())], Codec.NONE)
    with RawClient(server) as client:
        client.create_topic(topic)
        before = Scrape(server)
        assert client.produce(topic, old, version=2).error_code == 0
        assert client.fetch(topic, 0, 3).error_code == 0
        after = scrape_when(
            server,
            f"{REQUESTS}_messageconversionstimems_sum",
            before.value(f"{REQUESTS}_messageconversionstimems_sum", request="Fetch") + 0.001,
            request="Fetch",
        )
    for api in ("Produce", "Fetch"):
        assert after.since(before, f"{REQUESTS}_messageconversionstimems_sum", request=api) > 0
        assert after.since(before, f"{REQUESTS}_temporarymemorybytes_sum", request=api) > 450
        assert after.since(before, f"{REQUESTS}_messageconversionstimems_count", request=api) == 1


def test_gauges_of_threads_queues_and_the_broker(measured: Any) -> None:
    server, _ = measured
    scrape = Scrape(server)
    assert scrape.value("kafka_server_kafkaserver_brokerstate") == 3
    assert scrape.values("kafka_network_requestchannel_requestqueuesize") == [0]
    processors = scrape.values("kafka_network_requestchannel_responsequeuesize")
    assert len(processors) == 1 + 3  # in all, and of each
    idle = scrape.values("kafka_network_processor_idlepercent")
    assert len(idle) == 3
    assert all(0 <= share <= 1 for share in idle)
    assert 0 <= scrape.value("kafka_network_socketserver_networkprocessoravgidlepercent") <= 1
    assert 0 <= scrape.value("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent") <= 1
    assert scrape.values("kafka_network_acceptor_acceptorblockedpercent", listener="PLAINTEXT") == [
        pytest.approx(0, abs=0.5)
    ]


def test_errors_of_a_client_that_waits_for_no_answer_are_counted(measured: Any) -> None:
    server, _ = measured
    labels = {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    before = Scrape(server).value(f"{REQUESTS}_errors_total", **labels)
    with RawClient(server) as client:
        client.send(client.produce_request("nowhere", make_batch([b"v"]), 9, acks=0), 9)
        with pytest.raises(ConnectionClosed):
            client.receive_frame()
    scrape_when(server, f"{REQUESTS}_errors_total", before + 1, **labels)


def test_groups_and_their_offsets_are_counted(inline_server: Any) -> None:
    groups, rates = "kafka_coordinator_group_groupmetadatamanager", "kafka_server_group_coordinator_metrics"
    with RawClient(inline_server) as client:
        client.create_topic("counted")
        await_coordinator(client, "counts")
        before = Scrape(inline_server)
        with (
            classic_member(inline_server, "stable", [TopicPartition("counted", 0)]),
            consumer_member(inline_server, "modern", ["counted"]),
        ):
            partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="")
            topic = OffsetCommitRequest.OffsetCommitRequestTopic("counted", partitions=[partition])
            client.call(OffsetCommitRequest("counts", topics=[topic]), 8, OffsetCommitResponse)
            scrape = Scrape(inline_server)
    now = {name: scrape.since(before, f"{groups}_num{name}") for name in ("offsets", "groups", "groupsstable")}
    assert now == {"offsets": 1, "groups": 3, "groupsstable": 1}
    assert scrape.since(before, f"{rates}_group_count", protocol="consumer") == 1
    assert scrape.value(f"{rates}_consumer_group_count", state="Stable") == 1
    assert scrape.since(before, f"{rates}_offset_commit_count_total") == 1
    assert scrape.since(before, f"{rates}_group_completed_rebalance_count_total") == 1
    assert scrape.since(before, f"{rates}_consumer_group_rebalance_count_total") >= 1
    assert scrape.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Heartbeat") >= 1


def test_the_request_log_is_switched_on_while_the_broker_runs(inline_server: Any) -> None:
    change = IncrementalAlterConfigsRequest.AlterableConfig("kafka.request.logger", 0, "DEBUG")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(8, "0", [change])
    with RawClient(inline_server) as client:
        client.create_topic("logged")
        answer = client.call(IncrementalAlterConfigsRequest([resource]), 1, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer
        deadline = time.monotonic() + 30
        while "Completed request:" not in inline_server.log_text():  # it follows within a second
            assert time.monotonic() < deadline
            assert client.produce("logged", make_batch([b"v"])).error_code == 0
        lines = inline_server.log_text().splitlines()
    line = next(line for line in lines if "Completed request:" in line)
    text = line.partition("Completed request:")[2].rpartition(" (")[0]
    described = json.loads(text)
    assert described["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    assert described["request"]["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] > 60


def test_health_and_what_is_no_page(inline_server: Any) -> None:
    server = inline_server
    base = f"http://127.0.0.1:{server.ports['http']}"
    with urllib.request.urlopen(f"{base}/healthz", timeout=30) as page:
        assert (page.status, json.load(page)) == (200, {"state": "RUNNING"})
    for path, method, status in (("/", "GET", 404), ("/healthz", "POST", 405), ("/metrics", "POST", 405)):
        request = urllib.request.Request(base + path, method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == status
        refused.value.close()


def test_clients_that_do_not_ask_for_anything_do_not_pile_up(inline_server: Any) -> None:
    address = ("127.0.0.1", inline_server.ports["http"])
    silent = [socket.create_connection(address, 30) for _ in range(20)]
    closed = 0
    for each in silent[8:]:  # the first 8 have a thread each, for 10 seconds
        each.settimeout(30)
        closed += each.recv(1) == b""
    assert closed == 12
    for each in silent:
        each.close()
    # Until a thread has seen that its client is gone, the next client is hung up on like the 12.
    deadline = time.monotonic() + 60
    while True:
        try:
            scrape_when(inline_server, "kafka_server_kafkaserver_brokerstate", 3)
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_who_sends_a_byte_now_and_then_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, the request never."""
    monkeypatch.setattr(console_server, "SLOWEST_SECONDS", 0)
    console = console_server.ConsoleServer("127.0.0.1", 0, MetricsRegistry(), lambda: BrokerState.RUNNING)
    console.start()
    try:
        with contextlib.ExitStack() as stack:
            address = ("127.0.0.1", int(console.url.rpartition(":")[2]))
            slow = [
                stack.enter_context(socket.create_connection(address, 30)) for _ in range(console_server.MOST_REQUESTS)
            ]
            for client in slow:
                client.sendall(b"G")
            for client in slow:
                with contextlib.suppress(ConnectionResetError):
                    assert client.recv(1) == b""
    finally:
        console.stop()


def test_an_address_that_cannot_be_had_ends_the_start(tmp_path: Path) -> None:
    from barnabas.testing import BrokerFailed, broker

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BrokerFailed, match=r"metrics\.listen=127\.0\.0\.1:\d+: .*in use"),
        broker(metrics_listen=f"127.0.0.1:{taken.getsockname()[1]}"),
    ):
        pass
    with broker(metrics_listen="[::1]:0") as running:
        assert running.console_url is not None
        assert running.console_url.startswith("http://[::1]:")


@pytest.fixture(scope="module")
def made_page() -> subprocess.CompletedProcess[str]:
    """The page, made anew, and on stderr the series of the exporter's example that a broker has not."""
    program = [sys.executable, "-m", "tests.architecture.metrics_page", "--print"]
    return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)


def test_the_page_in_docs_is_what_a_running_broker_has(made_page: subprocess.CompletedProcess[str]) -> None:
    assert made_page.stdout == (ROOT / "docs" / "metrics.md").read_text(), "make docs"
    undescribed = [line for line in made_page.stdout.splitlines() if line.endswith("|  |")]
    assert not undescribed, "these are registered with an empty description"


def test_the_names_are_those_of_the_exporters_example_for_kafka(made_page: subprocess.CompletedProcess[str]) -> None:
    counted, *missing = made_page.stderr.splitlines()
    assert missing == []
    assert int(counted.split()[0]) > 200, counted
