"""Which settings of TLS hold for a listener."""

from __future__ import annotations

import pytest

from barnabas.broker.channels.listener_channels import tls_config_of
from barnabas.config.kafka_config import KafkaConfig


@pytest.mark.parametrize(
    ("listener", "settings", "client_auth"),
    [
        ("SSL", {}, "none"),
        ("SSL", {"ssl.client.auth": "required"}, "required"),
        ("SSL", {"ssl.client.auth": "required", "listener.name.ssl.ssl.client.auth": "requested"}, "requested"),
        ("SASL_SSL", {"ssl.client.auth": "required"}, "none"),
        ("SASL_SSL", {"listener.name.sasl_ssl.ssl.client.auth": "required"}, "required"),
    ],
)
def test_who_is_asked_for_a_certificate(listener: str, settings: dict[str, str], client_auth: str) -> None:
    assert tls_config_of(KafkaConfig.parse(settings), listener).client_auth == client_auth
