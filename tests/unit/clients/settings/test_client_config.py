"""ClientConfig: the idle time that reaches the selector, and the bounds of its settings."""

from __future__ import annotations

import pytest

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.rpc.client_selector import ClientSelector
from barnabas.runtime.clock import Clock


class FactoryCalled(Exception):
    """Ends the construction of a client at its selector."""


def refuse_to_make(clock: Clock, *, max_idle_ms: float) -> ClientSelector:
    raise FactoryCalled(max_idle_ms)


def test_a_blocking_client_gives_its_selector_the_idle_time() -> None:
    config = ClientConfig(connections_max_idle_ms=7)
    with pytest.raises(FactoryCalled, match=r"^7$"):
        BlockingClient("a:1", config.network_config(), config.metadata_config(), make_selector=refuse_to_make)


def test_a_producer_gives_its_selector_the_idle_time() -> None:
    with pytest.raises(FactoryCalled, match=r"^540000$"):
        Producer("a:1", make_selector=refuse_to_make)
    with pytest.raises(FactoryCalled, match=r"^-1$"):
        Producer("a:1", connections_max_idle_ms=-1, make_selector=refuse_to_make)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("socket_connection_setup_timeout_ms", 0, "socket_connection_setup_timeout_ms must be at least 1, not 0"),
        ("socket_connection_setup_timeout_max_ms", 0, "must be at least 1, not 0"),
        ("send_buffer_bytes", -2, "send_buffer_bytes must be at least -1, not -2"),
        ("receive_buffer_bytes", -2, "receive_buffer_bytes must be at least -1, not -2"),
        ("connections_max_idle_ms", -2, "connections_max_idle_ms must be at least -1, not -2"),
        (
            "client_dns_lookup",
            "default",
            "client_dns_lookup must be use_all_dns_ips or resolve_canonical_bootstrap_servers_only, not 'default'$",
        ),
        (
            "metadata_recovery_strategy",
            "re-bootstrap",
            "metadata_recovery_strategy must be rebootstrap or none, not 're-bootstrap'; did you mean 'rebootstrap'",
        ),
    ],
)
def test_a_value_out_of_bounds_is_named(name: str, value: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ClientConfig(**{name: value})  # type: ignore[arg-type]
