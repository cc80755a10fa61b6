"""Counts of connections, and who is refused."""

from __future__ import annotations

import threading

import pytest

from barnabas.network.connection_quotas import ConnectionLimits, ConnectionQuotas, TooManyConnections


def test_an_address_has_its_limit_or_its_own() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(per_ip=1, per_ip_overrides={"10.0.0.2": 2}))
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


def test_counting_down_what_was_not_counted_is_a_bug() -> None:
    quotas = ConnectionQuotas(ConnectionLimits())
    quotas.increment("A", "10.0.0.1")
    with pytest.raises(ValueError, match="listener B"):
        quotas.decrement("B", "10.0.0.1")
    with pytest.raises(ValueError, match=r"10\.0\.0\.2"):
        quotas.decrement("A", "10.0.0.2")


def test_the_brokers_listener_is_never_refused_and_others_make_room() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=1, protected_listener="INTERNAL"))
    quotas.increment("A", "10.0.0.1")
    assert not quotas.exceeded("A")
    quotas.increment("INTERNAL", "10.0.0.9")
    assert quotas.exceeded("A")
    assert not quotas.exceeded("INTERNAL")
    quotas.decrement("A", "10.0.0.1")
    assert not quotas.exceeded("A")


def test_a_full_broker_lets_the_acceptor_wait_until_one_has_gone() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=1))
    quotas.increment("A", "10.0.0.1")
    waiter = threading.Thread(target=quotas.increment, args=("A", "10.0.0.2"))
    waiter.start()
    quotas.decrement("A", "10.0.0.1")
    waiter.join(30)
    assert not waiter.is_alive()
    assert quotas.count("10.0.0.2") == 1


def test_stopping_ends_the_wait() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=0))
    waiter = threading.Thread(target=quotas.increment, args=("A", "10.0.0.2"))
    waiter.start()
    quotas.stop()
    waiter.join(30)
    assert not waiter.is_alive()
