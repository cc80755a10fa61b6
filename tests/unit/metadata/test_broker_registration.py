"""A broker registers once, with endpoints of its own."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.metadata.broker_registration import BrokerRegistration, get_or_generate_cluster_id
from barnabas.protocol.uuid import uuid_from_string
from barnabas.zk.broker_zk_data import BrokerInfo
from barnabas.zk.kafka_zk_client import KafkaZkClient
from tests.support.inline_store import InlineSession, InlineStore
from tests.support.mock_clock import MockClock


def client_of(session: InlineSession) -> KafkaZkClient:
    client = KafkaZkClient(session, MockClock())
    client.make_sure_persistent_paths_exist()
    return client


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
