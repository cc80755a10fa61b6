"""Several listeners: clients are told the address of the one they came by; IPv6; settings of one listener."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.barnabas_process import BarnabasProcess
from tests.support.listener_servers import ListenerServer
from tests.support.raw_client import RawClient
from tests.support.requirements import need
from tests.support.server_fixtures import AGAINST_KAFKA, MODES
from tests.support.server_process import ServerFailed

SMALLEST = 1000
"""Bytes that a request to SMALL may have."""
ours_only = pytest.mark.skipif(AGAINST_KAFKA, reason="how ours is started")


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module", params=MODES)
def listening(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListenerServer]:
    need(has_ipv6(), "IPv6 on the loopback interface")
    hosts = {"CLIENTS": "127.0.0.1", "SIX": "::1"}
    server = ListenerServer(
        request.param,
        tmp_path_factory.mktemp("listening"),
        hosts,
        listener_name_clients_num_network_threads="2",
    )
    with server.running():
        yield server


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CLIENTS", "SIX"])
def test_clients_are_told_the_address_of_their_listener(listening: ListenerServer, listener: str) -> None:
    with listening.connect(listener) as client:
        answer = client.call(MetadataRequest([]), 9, MetadataResponse)
    assert [(broker.host, broker.port) for broker in answer.brokers] == [listening.address(listener)]


def test_all_listeners_serve_the_same_topics(listening: ListenerServer, topic: str) -> None:
    with listening.connect("CLIENTS") as client:
        client.create_topic(topic)
        assert client.produce_values(topic, b"one", b"two") == 0
    with listening.connect("SIX") as client:
        assert client.end_offset(topic) == 2
        assert client.fetch(topic, 0).error_code == ErrorCode.NONE


@ours_only
def test_a_listener_has_settings_of_its_own(tmp_path: Path) -> None:
    server = ListenerServer(
        MODES[0], tmp_path, {"SMALL": "127.0.0.1"}, listener_name_small_socket_request_max_bytes=str(SMALLEST)
    )
    with server.running():
        for listener, is_refused in (("SMALL", True), ("PLAINTEXT", False)):
            with server.connect(listener) as client:
                topics = [MetadataRequest.MetadataRequestTopic(name="x" * 100) for _ in range(SMALLEST // 100)]
                client.send(MetadataRequest(topics, False), 9)
                if is_refused:
                    assert client.is_closed_by_broker()
                else:
                    client.receive_frame()


@ours_only
def test_all_addresses_of_both_families_by_one_listener(tmp_path: Path) -> None:
    need(has_ipv6() and socket.has_dualstack_ipv6(), "sockets of both families")
    server = BarnabasProcess(tmp_path, {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"})
    server.host = ""
    with server.running():
        for host in ("127.0.0.1", "::1"):
            with RawClient(server, address=(host, server.port)) as client:
                (broker,) = client.call(MetadataRequest([]), 9, MetadataResponse).brokers
                assert (broker.host, broker.port) == ("127.0.0.1", server.port)


@ours_only
@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        (
            {"inter_broker_listener_name": "MISSING"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners.",
        ),
        (
            {"control_plane_listener_name": "MISSING"},
            "control.plane.listener.name",
        ),
        (
            {"control_plane_listener_name": "PLAINTEXT"},
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener",
        ),
        (
            {"early_start_listeners": "CLIENTS,MISSING"},
            "early.start.listeners contains listener MISSING, but this is not contained in listeners",
        ),
        (
            {"max_connections_per_ip_overrides": "no.such.host.invalid:3"},
            "max.connections.per.ip.overrides: the host no.such.host.invalid is not known",
        ),
    ],
)
def test_listeners_that_cannot_be_keep_the_broker_from_starting(
    tmp_path: Path, properties: dict[str, str], complaint: str
) -> None:
    server = ListenerServer(MODES[0], tmp_path, {"CLIENTS": "127.0.0.1"}, **properties)
    with pytest.raises(ServerFailed), server.running():
        pass
    assert complaint in server.server.log_text()
