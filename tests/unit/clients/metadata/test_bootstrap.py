"""Bootstrap servers as canonical names (KIP-235), with a scripted resolver."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.metadata.cluster_metadata import (
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
    USE_ALL_DNS_IPS,
    bootstrap_nodes,
)
from barnabas.clients.producer.producer import Producer
from barnabas.rpc.connection_states import Node
from barnabas.transport.host_addresses import UnknownHost, canonical_host_names

NAMES = {"alias": ("n1.example", "n2.example"), "n1.example": ("n1.example",)}


def names_of(host: str, port: int) -> tuple[str, ...]:
    if host not in NAMES:
        raise UnknownHost("unknown host")
    return NAMES[host]


def canonical(servers: str) -> list[Node]:
    return bootstrap_nodes(servers, RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY, canonical_names=names_of)


def test_an_alias_stands_for_each_machine_behind_it_once() -> None:
    assert canonical("alias:1,n1.example:1,n1.example:2") == [
        Node(-1, "n1.example", 1),
        Node(-2, "n2.example", 1),
        Node(-3, "n1.example", 2),
    ]
    assert bootstrap_nodes("alias:1", USE_ALL_DNS_IPS, canonical_names=names_of) == [Node(-1, "alias", 1)]


def test_a_host_without_address_is_left_out_and_only_such_hosts_are_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert canonical("gone:1,alias:1")[0] == Node(-1, "n1.example", 1)
    assert "gone:1" in caplog.text
    with pytest.raises(ValueError, match="No resolvable bootstrap urls given in bootstrap_servers: gone:1, lost:2"):
        canonical("gone:1,lost:2")


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that knows the addresses of "alias" and the name of the first."""

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in ("10.0.0.1", "10.0.0.2")]

    def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        if address[0] == "10.0.0.2":
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return "n1.example", str(address[1])

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)


@pytest.mark.usefixtures("name_server")
def test_an_address_without_a_name_stands_for_itself() -> None:
    assert canonical_host_names("alias", 9092) == ("n1.example", "10.0.0.2")


def test_the_setting_reaches_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    def knows_nothing(host: str, port: int, **_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", knows_nothing)
    lookup = RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
    with pytest.raises(ValueError, match="No resolvable bootstrap urls given in bootstrap_servers: gone:9092"):
        Producer("gone:9092", client_dns_lookup=lookup)
    with pytest.raises(ValueError, match="No resolvable bootstrap urls given in bootstrap_servers: gone:9092"):
        Consumer("gone:9092", client_dns_lookup=lookup)
