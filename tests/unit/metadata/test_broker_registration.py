"""A broker registers once, with endpoints of its own."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.metadata.broker_registration import BrokerRegistration, get_or_generate_cluster_id
from barnabas.protocol.uuid import uuid_from_string
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from tests.support.inline_store import InlineStore, client_of
from tests.support.mock_clock import MockClock


def info(broker_id: int, port: int) -> BrokerInfo:
    return BrokerInfo(broker_id, (EndPoint("h", port, "PLAINTEXT", "PLAINTEXT"),))


def registration(zk: KafkaZkClient, broker_id: int, port: int) -> BrokerRegistration:
    return BrokerRegistration(zk, lambda: info(broker_id, port))


def test_registration_gives_the_broker_epoch() -> None:
    store = InlineStore(MockClock())
    session = store.new_session()
    zk = client_of(session)
    registered = [info(0, 9092)]
    broker = BrokerRegistration(zk, lambda: registered[-1])
    assert broker.epoch == -1
    epoch = broker.register()
    assert broker.epoch == epoch == zk.brokers_and_epochs()[0][1]
    with pytest.raises(ConfigError, match="registered already"):
        registration(client_of(store.new_session()), 0, 9093).register()
    session.expire()
    assert broker.register() > epoch
    registered.append(info(0, 1))
    broker.update()
    assert zk.broker(0) == info(0, 1)


class LingeringSession:
    """The session of a broker that was killed, or that runs on; it ends after so many waits."""

    def __init__(self, waits: int) -> None:
        store = InlineStore(MockClock())
        self.waits = 0
        self._ends_after = waits
        self._session = store.new_session()
        registration(client_of(self._session), 0, 9092).register()
        self.client = client_of(store.new_session())

    def sleep(self, seconds: float) -> None:
        self.waits += 1
        if self.waits == self._ends_after:
            self._session.expire()

    def successor(self, port: int, *, is_running: bool) -> BrokerRegistration:
        return BrokerRegistration(
            self.client,
            lambda: info(0, port),
            patience_ms=1_000,
            accepts_connections=lambda _: is_running,
            sleep=self.sleep,
        )


@pytest.mark.parametrize(("port", "is_running"), [(9093, False), (9092, True)], ids=["another port", "the same port"])
def test_a_broker_waits_for_the_session_of_its_former_run(port: int, is_running: bool) -> None:
    former = LingeringSession(waits=3)
    former.successor(port, is_running=is_running).register()
    assert former.waits == 3
    assert former.client.broker(0) == info(0, port)


def test_it_does_not_wait_for_ever_nor_for_a_broker_that_runs() -> None:
    former = LingeringSession(waits=100)
    with pytest.raises(ConfigError, match="registered already"):
        former.successor(9093, is_running=False).register()
    assert former.waits == 10
    with pytest.raises(ConfigError, match="registered already"):
        former.successor(9093, is_running=True).register()
    assert former.waits == 10


def test_an_endpoint_of_another_broker_is_refused() -> None:
    store = InlineStore(MockClock())
    registration(client_of(store.new_session()), 1, 9092).register()
    with pytest.raises(ConfigError, match=r"h:9092 in advertised listeners are already registered by broker 1"):
        registration(client_of(store.new_session()), 0, 9092).register()


def test_the_cluster_id_is_made_once() -> None:
    zk = client_of(InlineStore(MockClock()).new_session())
    made = get_or_generate_cluster_id(zk)
    assert len(uuid_from_string(made)) == 16
    assert get_or_generate_cluster_id(zk) == made
