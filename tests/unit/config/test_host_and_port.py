"""Addresses as settings write them."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import parse_host_and_port
from barnabas.config.kafka_config import KafkaConfig


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9404", ("127.0.0.1", 9404)),
        ("[::1]:0", ("::1", 0)),
        (":9404", ("", 9404)),
        ("metrics.example:65535", ("metrics.example", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_host_and_port(text) == address
    assert KafkaConfig.parse({"metrics.listen": text}, "test").optional_string("metrics.listen") == text


@pytest.mark.parametrize("text", ["9404", "::1:9404", "host:", "host:65536", "host:-1", "a b:1", "http://host:1"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listen.*host:port"):
        KafkaConfig.parse({"metrics.listen": text}, "test")
