"""Listeners: parsing, security protocols, what is advertised, which one brokers use."""

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import (
    EndPoint,
    advertised_listeners_of,
    inter_broker_listener_name_of,
    listeners_of,
    parse_listeners,
    parse_protocol_map,
)

MAP = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", EndPoint("", 9092, "PLAINTEXT", "PLAINTEXT")),
        ("plaintext://localhost:0", EndPoint("localhost", 0, "PLAINTEXT", "PLAINTEXT")),
        ("INSIDE://[::1]:9092", EndPoint("::1", 9092, "INSIDE", "PLAINTEXT")),
        ("SSL://0.0.0.0:1", EndPoint("0.0.0.0", 1, "SSL", "SSL")),
    ],
)
def test_parses(text: str, expected: EndPoint) -> None:
    assert parse_listeners(text, MAP) == [expected]


def test_connection_string_brackets_ipv6() -> None:
    end_point = parse_listeners("INSIDE://[fe80::1%eth0]:0", MAP)[0].with_port(4711)
    assert end_point.connection_string == "INSIDE://[fe80::1%eth0]:4711"
    assert end_point.host_and_port == "[fe80::1%eth0]:4711"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PLAINTEXT:9092", "Unable to parse PLAINTEXT:9092 to a broker endpoint"),
        ("PLAINTEXT://h", "Unable to parse"),
        ("PLAINTEXT://h:65536", "port 65536 is not in"),
        ("PLAINTEXT://h:-1", "port -1 is not in"),
        ("OUTSIDE://h:1", "No security protocol defined for listener OUTSIDE"),
        ("PLAINTEXT://a:1,plaintext://b:2", "Each listener must have a different name"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_listeners(text, MAP)


def test_protocol_map() -> None:
    assert parse_protocol_map("inside:plaintext, OUT:SSL") == {"INSIDE": "PLAINTEXT", "OUT": "SSL"}
    for wrong in ("INSIDE", "INSIDE:TLS", "A:SSL,a:SSL"):
        with pytest.raises(ConfigError):
            parse_protocol_map(wrong)


def config(**properties: str) -> KafkaConfig:
    return KafkaConfig.parse({name.replace("_", "."): value for name, value in properties.items()})


def test_advertised_default_to_listeners() -> None:
    both = config(listeners="PLAINTEXT://localhost:0")
    assert advertised_listeners_of(both) == listeners_of(both) == [EndPoint("localhost", 0, "PLAINTEXT", "PLAINTEXT")]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable meta-address"),
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "SSL://h:1"}, "must be equal to or a subset"),
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "SSL://:1"}, "currently configured listeners are SSL"),
        (
            {
                "listeners": "A://h:1,B://h:1",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                "inter.broker.listener.name": "A",
            },
            "one needs to be IPv4 and the other IPv6",
        ),
        ({"listeners": "PLAINTEXT://:1", "inter.broker.listener.name": "OTHER"}, "must be a listener name defined in"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        ({"control.plane.listener.name": "PLAINTEXT"}, "should have a different value"),
        ({"control.plane.listener.name": "CONTROL"}, "but listeners has PLAINTEXT"),
    ],
)
def test_combinations_are_checked(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KafkaConfig.parse(properties)


def test_free_listener_names() -> None:
    parsed = KafkaConfig.parse(
        {
            "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://[::1]:0",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "inside",
        }
    )
    assert [end_point.listener_name for end_point in listeners_of(parsed)] == ["INSIDE", "OUTSIDE"]
    assert inter_broker_listener_name_of(parsed) == "INSIDE"


def test_one_port_for_ipv4_and_ipv6() -> None:
    parsed = KafkaConfig.parse(
        {
            "listeners": "A://127.0.0.1:9092,B://[::1]:9092",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
            "inter.broker.listener.name": "A",
        }
    )
    assert len(listeners_of(parsed)) == 2
