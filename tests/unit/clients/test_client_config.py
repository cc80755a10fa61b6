"""ClientConfig: what reaches the connections, and the bounds of its settings."""

from __future__ import annotations

import pytest

from barnabas.clients.client_config import ClientConfig


def test_set_up_timeouts_reach_the_connections() -> None:
    config = ClientConfig(socket_connection_setup_timeout_ms=5, socket_connection_setup_timeout_max_ms=7)
    network = config.network_config()
    assert (network.connection_setup_timeout_ms, network.connection_setup_timeout_max_ms) == (5, 7)
    defaults = ClientConfig().network_config()
    assert (defaults.connection_setup_timeout_ms, defaults.connection_setup_timeout_max_ms) == (10_000, 30_000)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("socket_connection_setup_timeout_ms", 0, "socket_connection_setup_timeout_ms must be at least 1, not 0"),
        ("socket_connection_setup_timeout_max_ms", 0, "must be at least 1, not 0"),
        (
            "client_dns_lookup",
            "default",
            "client_dns_lookup must be use_all_dns_ips or resolve_canonical_bootstrap_servers_only, not 'default'",
        ),
    ],
)
def test_a_value_out_of_bounds_is_named(name: str, value: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ClientConfig(**{name: value})  # type: ignore[arg-type]
