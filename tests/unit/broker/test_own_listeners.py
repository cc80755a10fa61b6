"""What a broker advertises follows from its settings and from the listeners that are open."""

from __future__ import annotations

import pytest

from barnabas.broker.settings.own_listeners import OwnListeners
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import EndPoint
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.transport.host_addresses import canonical_host_name


def listeners(**settings: str) -> OwnListeners:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = KafkaConfig.parse(SERVER_DEFAULTS | named, "a test")
    return OwnListeners(lambda: config)


def test_without_advertised_listeners_the_bound_addresses_are_told() -> None:
    own = listeners(listeners="PLAINTEXT://127.0.0.1:0")
    assert own.advertised() == []
    own.bound = [EndPoint("127.0.0.1", 40_001, "PLAINTEXT", "PLAINTEXT")]
    assert [(each.host, each.port) for each in own.advertised()] == [("127.0.0.1", 40_001)]
    assert own.bound_end_point("PLAINTEXT").port == 40_001
    with pytest.raises(KeyError):
        own.bound_end_point("INTERNAL")


def test_every_address_is_told_as_this_hosts_name() -> None:
    own = listeners(listeners="PLAINTEXT://0.0.0.0:0")
    own.bound = [EndPoint("0.0.0.0", 40_001, "PLAINTEXT", "PLAINTEXT")]
    assert [(each.host, each.port) for each in own.advertised()] == [(canonical_host_name(), 40_001)]


def test_an_advertised_listener_has_its_own_host_and_the_bound_port_unless_it_names_one() -> None:
    own = listeners(
        listeners="PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0",
        advertised_listeners="PLAINTEXT://inside:0,OUT://outside:19092",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
        broker_rack="r1",
    )
    own.bound = [
        EndPoint("127.0.0.1", 40_001, "PLAINTEXT", "PLAINTEXT"),
        EndPoint("127.0.0.1", 40_002, "OUT", "PLAINTEXT"),
    ]
    assert [(each.host, each.port) for each in own.advertised()] == [("inside", 40_001), ("outside", 19_092)]
    own.bound = own.bound[:1]
    info = own.broker_info(7)
    assert (info.id, info.rack) == (7, "r1")
    assert [each.listener_name for each in info.endpoints] == ["PLAINTEXT"]
