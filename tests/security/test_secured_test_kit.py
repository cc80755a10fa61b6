"""Brokers of the test kit with security: the ready settings of each client library work, wrong passwords do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SaslAuthenticationError
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import BrokerProcess, broker, cluster
from barnabas.testing.broker_security import BrokerSecurity

pytestmark = pytest.mark.timeout(400)

SECONDS = 60


@pytest.fixture(scope="module", params=["ssl", "sasl_plaintext", "sasl_ssl"])
def secured(request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    with broker(security=request.param, num_partitions=1) as running:
        yield running


def security_of(running: BrokerProcess) -> BrokerSecurity:
    assert running.security is not None
    return running.security


def first_value(running: BrokerProcess, topic: str) -> object:
    """Read the first record of a topic by our consumer."""
    with Consumer(running.bootstrap_servers, auto_offset_reset="earliest", **security_of(running).keywords) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while not (records := consumer.poll(1_000)):
            pass
        return records[0].value


def test_ours(secured: BrokerProcess) -> None:
    with Producer(secured.bootstrap_servers, **security_of(secured).keywords) as producer:
        producer.send("ours", b"by ours").result(SECONDS)
    assert first_value(secured, "ours") == b"by ours"


def test_librdkafka(secured: BrokerProcess) -> None:
    settings = {"bootstrap.servers": secured.bootstrap_servers, **security_of(secured).librdkafka}
    producer = confluent_kafka.Producer(settings)
    producer.produce("librdkafka", b"by librdkafka")
    assert producer.flush(SECONDS) == 0
    assert first_value(secured, "librdkafka") == b"by librdkafka"


def test_kafka_python(secured: BrokerProcess) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=secured.bootstrap_servers, **security_of(secured).kafka_python)
    try:
        producer.send("kafka-python", b"by kafka-python").get(SECONDS)
    finally:
        producer.close()
    assert first_value(secured, "kafka-python") == b"by kafka-python"


def test_the_users_are_those_of_the_broker(secured: BrokerProcess) -> None:
    security = security_of(secured)
    if security.protocol == "SSL":
        with pytest.raises(ValueError, match="none, with SSL"):
            security.as_user("bob")
        return
    with pytest.raises(ValueError, match="the broker's users are alice, bob"):
        security.as_user("mallory")
    bob = security.as_user("bob")
    with Producer(secured.bootstrap_servers, **bob.keywords) as producer:
        producer.send("bobs", b"by bob").result(SECONDS)
    wrong = {**bob.keywords, "sasl_jaas_config": bob.keywords["sasl_jaas_config"].replace(bob.password, "guessed")}
    with (
        Consumer(secured.bootstrap_servers, **wrong) as consumer,
        pytest.raises(SaslAuthenticationError),
    ):
        consumer.partitions_for("bobs")


def kinds_of_clusters() -> list[object]:
    """One kind in every run, which has both halves; the others in `make test-all`."""
    return ["sasl_ssl", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("ssl", "sasl_plaintext"))]


@pytest.mark.parametrize("kind", kinds_of_clusters())
def test_cluster_is_secured_between_its_brokers_too(kind: str) -> None:
    settings: dict[str, Any] = {"num_partitions": 3}
    if kind != "ssl":  # whose brokers would need their certificates' name as a super user
        authorizer = "kafka.security.authorizer.AclAuthorizer"
        settings |= {"authorizer_class_name": authorizer, "allow_everyone_if_no_acl_found": True}
    with cluster(3, security=kind, **settings) as three:
        assert three.security is not None
        assert {address.partition("://")[0] for each in three.brokers for address in each.addresses} == {kind.upper()}
        with Producer(three.bootstrap_servers, acks="all", **three.security.keywords) as producer:
            for number in range(30):
                producer.send("orders", b"%d" % number).result(SECONDS)
            three.restart(1)
            producer.send("orders", b"after").result(SECONDS)
        with Admin(three.bootstrap_servers, config=ClientConfig(**three.security.keywords)) as admin:
            (topic,) = admin.describe_topics(["orders"]).values()
            assert all(len(partition.isr) >= 2 for partition in topic.partitions)
