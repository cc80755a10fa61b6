"""Which addresses count as those of brokers, and how often the store is asked."""

from __future__ import annotations

import pytest

from barnabas.config.listeners import EndPoint
from barnabas.metadata.registered_addresses import KEPT_MS, LEAST_INTERVAL_MS, RegisteredAddresses
from barnabas.transport.host_addresses import UnknownHost
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from tests.support.mock_clock import MockClock

NAMES = {"one.example": ["10.0.0.1", "fd00::1"], "10.0.0.2": ["10.0.0.2"], "10.7.7.7": ["10.7.7.7"]}


def resolve(host: str, _port: int) -> list[str]:
    if host not in NAMES:
        raise UnknownHost("unknown host")
    return NAMES[host]


def broker(broker_id: int, host: str, listener: str = "BROKERS") -> BrokerInfo:
    return BrokerInfo(broker_id, (EndPoint(host, 9092, listener, "PLAINTEXT"),))


class Registrations:
    """What the store says, and how often it was asked."""

    def __init__(self, *brokers: BrokerInfo) -> None:
        self.brokers = brokers
        self.reads = 0
        self.is_up = True

    def __call__(self) -> tuple[BrokerInfo, ...]:
        self.reads += 1
        if not self.is_up:
            raise StoreUnavailableError("no connection")
        return self.brokers


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture
def store() -> Registrations:
    return Registrations(
        broker(1, "one.example"), broker(2, "10.0.0.2"), broker(3, "gone.example"), broker(4, "10.7.7.7", "CLIENTS")
    )


@pytest.fixture
def addresses(store: Registrations, clock: MockClock) -> RegisteredAddresses:
    return RegisteredAddresses(store, "BROKERS", clock, resolve)


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "fd00::1", "fd00:0::1%eth0", "10.0.0.2"])
def test_brokers_are_known_by_every_address_of_their_name(addresses: RegisteredAddresses, address: str) -> None:
    assert addresses.includes(address)


@pytest.mark.parametrize("address", ["10.0.0.3", "10.7.7.7", "one.example", ""])
def test_nothing_else_is(addresses: RegisteredAddresses, address: str) -> None:
    assert not addresses.includes(address)


def test_a_new_broker_is_known_soon_and_strangers_do_not_load_the_store(
    addresses: RegisteredAddresses, store: Registrations, clock: MockClock
) -> None:
    for _ in range(100):
        assert not addresses.includes("10.7.7.7")
    assert store.reads == 1
    store.brokers += (broker(5, "10.7.7.7"),)
    clock.advance(LEAST_INTERVAL_MS)
    assert addresses.includes("10.7.7.7")
    assert store.reads == 2


def test_a_broker_that_has_gone_is_forgotten(
    addresses: RegisteredAddresses, store: Registrations, clock: MockClock
) -> None:
    assert addresses.includes("10.0.0.2")
    store.brokers = ()
    clock.advance(KEPT_MS - 1)
    assert addresses.includes("10.0.0.2")
    clock.advance(1)
    assert not addresses.includes("10.0.0.2")


def test_without_the_store_the_brokers_that_were_known_count(
    addresses: RegisteredAddresses, store: Registrations, clock: MockClock
) -> None:
    assert addresses.includes("10.0.0.2")
    store.is_up = False
    clock.advance(KEPT_MS)
    assert addresses.includes("10.0.0.2")
    assert not addresses.includes("10.0.0.3")
