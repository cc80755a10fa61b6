"""Which listeners the log names at the start: reachable from elsewhere, and open to anybody."""

from __future__ import annotations

import pytest

from barnabas.broker.settings.own_listeners import unauthenticated_listeners
from barnabas.config.kafka_config import KafkaConfig

OWN = "PLAINTEXT://127.0.0.1:9091"
"""The listener of the brokers themselves."""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, []),
        ({"listeners": "PLAINTEXT://localhost:9092"}, []),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, []),
        ({"listeners": "PLAINTEXT://:9092"}, ["PLAINTEXT"]),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, ["PLAINTEXT"]),
        ({"listeners": "PLAINTEXT://[::]:9092"}, ["PLAINTEXT"]),
        ({"listeners": "PLAINTEXT://broker.example:9092"}, ["PLAINTEXT"]),
        ({"listeners": f"{OWN},SASL_SSL://:9092"}, []),
        ({"listeners": f"{OWN},SASL_PLAINTEXT://:9092"}, []),
        ({"listeners": f"{OWN},SSL://:9092"}, ["SSL"]),
        ({"listeners": f"{OWN},SSL://:9092", "ssl.client.auth": "requested"}, ["SSL"]),
        ({"listeners": f"{OWN},SSL://:9092", "ssl.client.auth": "required"}, []),
        ({"listeners": f"{OWN},SSL://:9092", "listener.name.ssl.ssl.client.auth": "required"}, []),
        (
            {
                "listeners": f"{OWN},OUTSIDE://:9093,INSIDE://:9094",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL,INSIDE:SSL",
                "listener.name.inside.ssl.client.auth": "required",
            },
            ["OUTSIDE"],
        ),
    ],
)
def test_listeners_that_are_open_to_anybody(settings: dict[str, str], named: list[str]) -> None:
    config = KafkaConfig.parse(settings)
    assert [end_point.listener_name for end_point in unauthenticated_listeners(config)] == named
