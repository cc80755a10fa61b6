"""Connections made too often: who waits, who is closed, and what counts. No thread: waiting lets the clock go on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from barnabas.metrics.rate import SampleWindow
from barnabas.network.connections.connection_quotas import (
    FEW_ADDRESSES,
    ConnectionQuotas,
    ConnectionRates,
    ConnectionThrottled,
)
from barnabas.network.network_config import UNLIMITED, ListenerConfig, NetworkConfig
from tests.support.mock_clock import MockClock

WINDOW_SECONDS = 11


class World:
    """Two listeners, one of them the brokers'. `limits` are the broker's, `own` those of the listener CLIENTS."""

    def __init__(self, own: ListenerConfig | None = None, **limits: Any) -> None:
        self.clock = MockClock()
        self.config = NetworkConfig(
            inter_broker_listener="INTERNAL", listeners={} if own is None else {"CLIENTS": own}, **limits
        )
        self.quotas = ConnectionQuotas(self.config, self.clock, self.wait)
        for listener in ("CLIENTS", "INTERNAL"):
            self.quotas.add_listener(listener, self.config.for_listener(listener))

    def wait(self, _condition: threading.Condition, seconds: float) -> None:
        self.clock.advance(seconds * 1000)

    def connect(self, count: int, listener: str = "CLIENTS", address: str = "10.0.0.1") -> float:
        """Connect as fast as it is let; the seconds it took, which are those waited."""
        waited_ns = 0
        for _ in range(count):
            waited_ns += self.quotas.increment(listener, address)
            self.quotas.decrement(listener, address)
        return waited_ns / 1e9

    def sample(self, name: str, **tags: str) -> float:
        """A metric now."""
        (value,) = (
            each.value for each in self.quotas.rate_samples() if each.name == name and dict(each.tags) == dict(tags)
        )
        return value


@pytest.mark.parametrize("limited", ["broker", "listener"])
def test_connections_settle_at_the_rate(limited: str) -> None:
    limits: dict[str, Any] = {"max_connection_creation_rate": 10} if limited == "broker" else {}
    own = ListenerConfig(max_connection_creation_rate=10) if limited == "listener" else None
    world = World(own, **limits)
    assert world.connect((WINDOW_SECONDS - 1) * 10) == 0  # the window is never taken as shorter than that
    world.connect(200)
    assert world.connect(100) == pytest.approx(10, rel=0.1)
    assert 5 < world.sample("connection-accept-rate", listener="CLIENTS") < 11  # bursts leave the window whole
    assert 0 < world.sample("connection-accept-throttle-time", listener="CLIENTS") <= 1000


def test_one_connection_waits_a_sample_at_most() -> None:
    world = World(max_connection_creation_rate=1)
    world.connect(10)
    assert [0 < world.connect(1) <= 1 for _ in range(100)] == [True] * 100


def test_brokers_neither_wait_for_clients_nor_make_them_wait() -> None:
    world = World(max_connection_creation_rate=10)
    assert world.connect(1000, "INTERNAL") == 0
    assert world.sample("broker-connection-accept-rate") == 0
    assert world.connect(100) == 0
    assert world.connect(100) > 0
    assert world.connect(1000, "INTERNAL") == 0


def test_a_limit_changes_while_running() -> None:
    world = World()
    assert world.connect(1000) == 0
    world.quotas.reconfigure(NetworkConfig(inter_broker_listener="INTERNAL", max_connection_creation_rate=10))
    assert world.connect(1) > 0
    world.quotas.reconfigure(NetworkConfig(inter_broker_listener="INTERNAL"))
    assert world.connect(1000) == 0


def test_an_address_that_connects_too_often_is_closed_and_counts_for_nobody() -> None:
    world = World()
    world.quotas.update_ip_connection_rate_quota("10.0.0.1", 10)
    assert world.connect(100) == 0
    delays = []
    for _ in range(50):
        with pytest.raises(ConnectionThrottled) as thrown:
            world.connect(1)
        delays.append(thrown.value.delay_ms)
    assert 0 < min(delays) == max(delays) <= 1000
    assert world.connect(10, address="10.0.0.2") == 0
    assert world.sample("connection-accept-rate", listener="CLIENTS") == pytest.approx(11)
    assert world.sample("connection-accept-rate", ip="10.0.0.1") == pytest.approx(10)
    assert world.sample("ip-connection-accept-throttle-time", listener="CLIENTS") == delays[0]
    assert world.quotas.total == 0
    world.clock.advance(WINDOW_SECONDS * 1000)
    assert world.connect(100) == 0


def test_addresses_have_the_default_limit_or_their_own() -> None:
    quotas = World().quotas
    assert quotas.connection_rate_for_ip("10.0.0.1") == UNLIMITED
    quotas.update_ip_connection_rate_quota(None, 5)
    quotas.update_ip_connection_rate_quota("10.0.0.1", 7)
    quotas.update_ip_connection_rate_quota("FE80:0::1", 9)
    assert [quotas.connection_rate_for_ip(ip) for ip in ("10.0.0.1", "10.0.0.2", "fe80::1")] == [7, 5, 9]
    quotas.update_ip_connection_rate_quota("10.0.0.1", None)
    assert quotas.connection_rate_for_ip("10.0.0.1") == 5
    quotas.update_ip_connection_rate_quota(None, None)
    assert quotas.connection_rate_for_ip("10.0.0.1") == UNLIMITED
    with pytest.raises(ValueError, match="host"):
        quotas.update_ip_connection_rate_quota("host", 1)


def test_addresses_that_come_no_more_are_forgotten() -> None:
    rates = ConnectionRates(SampleWindow(11, 1000))
    rates.limit_address(None, 1)
    for number in range(20 * FEW_ADDRESSES):
        rates.check_address("CLIENTS", str(number), True, number * 10)
    assert sum(1 for _ in rates.samples(0)) <= 3 * FEW_ADDRESSES
