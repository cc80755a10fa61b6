"""Counts of connections, and who is refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from barnabas.network.connections.connection_quotas import ConnectionQuotas, ConnectionThrottled, TooManyConnections
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from tests.support.mock_clock import MockClock


def make_quotas(*listeners: str, listener_max: int = 1000, **limits: Any) -> ConnectionQuotas:
    quotas = ConnectionQuotas(NetworkConfig(**limits), MockClock())
    for listener in listeners or ("A",):
        quotas.add_listener(listener, ListenerConfig(max_connections=listener_max))
    return quotas


def test_an_address_has_its_limit_or_its_own() -> None:
    quotas = make_quotas("A", "B", max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.2": 2})
    quotas.increment("A", "10.0.0.1")
    quotas.increment("A", "10.0.0.2")
    quotas.increment("B", "10.0.0.2")
    for address in ("10.0.0.1", "10.0.0.2"):
        with pytest.raises(TooManyConnections, match=address):
            quotas.increment("A", address)
    assert quotas.total == 3
    quotas.decrement("A", "10.0.0.1")
    quotas.increment("B", "10.0.0.1")
    assert (quotas.count("10.0.0.1"), quotas.count("10.0.0.2"), quotas.count("10.0.0.3")) == (1, 2, 0)
    assert (quotas.listener_count("A"), quotas.listener_count("B")) == (1, 2)


def test_counting_down_what_was_not_counted_is_a_bug() -> None:
    quotas = make_quotas("A", "B")
    quotas.increment("A", "10.0.0.1")
    with pytest.raises(ValueError, match="listener B"):
        quotas.decrement("B", "10.0.0.1")
    with pytest.raises(ValueError, match=r"10\.0\.0\.2"):
        quotas.decrement("A", "10.0.0.2")


@pytest.mark.parametrize("role", ["inter_broker_listener", "control_plane_listener"])
def test_the_brokers_listener_is_never_refused_and_others_make_room(role: str) -> None:
    roles: dict[str, Any] = {role: "INTERNAL"}
    quotas = make_quotas("A", "INTERNAL", max_connections=1, **roles)
    quotas.increment("A", "10.0.0.1")
    assert not quotas.exceeded("A")
    quotas.increment("INTERNAL", "10.0.0.9")
    assert quotas.exceeded("A")
    assert not quotas.exceeded("INTERNAL")
    quotas.decrement("A", "10.0.0.1")
    assert not quotas.exceeded("A")


def test_the_brokers_listener_is_not_protected_when_clients_use_it_too() -> None:
    quotas = make_quotas("A", max_connections=1, inter_broker_listener="A")
    quotas.increment("A", "10.0.0.1")
    quotas.reconfigure(NetworkConfig(max_connections=0, inter_broker_listener="A"))
    assert quotas.exceeded("A")


class Waiting:
    """A thread that wants one more connection."""

    def __init__(self, quotas: ConnectionQuotas, listener: str = "A") -> None:
        self._thread = threading.Thread(target=quotas.increment, args=(listener, "10.0.0.2"))
        self._thread.start()

    def has_gone_on(self) -> bool:
        self._thread.join(30)
        return not self._thread.is_alive()


def test_a_full_broker_lets_the_acceptor_wait_until_one_has_gone() -> None:
    quotas = make_quotas(max_connections=1)
    quotas.increment("A", "10.0.0.1")
    waiting = Waiting(quotas)
    quotas.decrement("A", "10.0.0.1")
    assert waiting.has_gone_on()
    assert quotas.count("10.0.0.2") == 1


def test_a_full_listener_lets_its_own_acceptor_wait_and_no_other() -> None:
    quotas = make_quotas("A", "INTERNAL", listener_max=1, inter_broker_listener="INTERNAL")
    quotas.increment("A", "10.0.0.1")
    quotas.increment("INTERNAL", "10.0.0.1")
    waiting, protected = Waiting(quotas), Waiting(quotas, "INTERNAL")
    quotas.decrement("INTERNAL", "10.0.0.1")
    assert protected.has_gone_on()
    assert quotas.listener_count("A") == 1
    quotas.reconfigure(NetworkConfig(listeners={"A": ListenerConfig(max_connections=2)}))
    assert waiting.has_gone_on()
    assert quotas.listener_count("A") == 2


def test_the_end_of_a_listener_ends_the_wait() -> None:
    quotas = make_quotas("A", "B", max_connections=1)
    quotas.increment("A", "10.0.0.1")
    waiting, other = Waiting(quotas), Waiting(quotas, "B")
    quotas.remove_listener("A")
    assert waiting.has_gone_on()
    quotas.decrement("A", "10.0.0.1")
    quotas.stop()
    assert other.has_gone_on()


def test_a_listener_that_comes_back_takes_over_the_connections_it_had() -> None:
    """Those of its removed network threads close later than it is added again."""
    quotas = make_quotas("A", "B", listener_max=2)
    quotas.increment("A", "10.0.0.1")
    quotas.increment("A", "10.0.0.1")
    quotas.remove_listener("A")
    quotas.decrement("A", "10.0.0.1")
    quotas.add_listener("A", ListenerConfig(max_connections=2))
    quotas.increment("A", "10.0.0.2")
    quotas.decrement("A", "10.0.0.1")
    quotas.decrement("A", "10.0.0.2")
    assert (quotas.total, quotas.listener_count("A")) == (0, 0)
    with pytest.raises(ValueError, match="listener A"):
        quotas.decrement("A", "10.0.0.2")


def test_no_address_is_refused_while_the_broker_starts() -> None:
    """With a limit of nothing its own controller could not reach it, and nobody could raise the limit again."""
    quotas = make_quotas("A", max_connections_per_ip=0)
    quotas.update_ip_connection_rate_quota("10.0.0.1", 0)
    quotas.starting(True)
    quotas.increment("A", "10.0.0.1")
    quotas.starting(False)
    with pytest.raises((TooManyConnections, ConnectionThrottled)):
        quotas.increment("A", "10.0.0.1")
    assert quotas.count("10.0.0.1") == 1
