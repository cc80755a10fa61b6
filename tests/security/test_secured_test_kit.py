"""Brokers of the test kit with security: the ready settings of each client library work, wrong passwords do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SaslAuthenticationError
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.security.acl.acl_binding import AccessControlEntry, AclBinding, ResourcePattern
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.testing import BrokerProcess, broker, cluster
from barnabas.testing.broker_security import BrokerSecurity
from barnabas.testing.broker_security import security_of as made_security

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


AUTHORIZERS = ("kafka.security.authorizer.AclAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")


def test_rights_on_one_broker() -> None:
    """As docs/test-kit.md says."""
    with broker(security="sasl_plaintext", authorizer_class_name=AUTHORIZERS[1], super_users="User:alice") as running:
        security = security_of(running)
        bob = security.as_user("bob").keywords
        with Producer(running.bootstrap_servers, **security.keywords) as producer:
            producer.send("orders", b"by alice").result(SECONDS)
        with (
            Producer(running.bootstrap_servers, **bob) as producer,
            pytest.raises(ApiError) as refused,
        ):
            producer.send("orders", b"by bob").result(SECONDS)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        entry = AccessControlEntry("User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        orders = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
        with Admin(running.bootstrap_servers, config=ClientConfig(**security.keywords)) as admin:
            admin.create_acls([AclBinding(orders, entry)])
        with Producer(running.bootstrap_servers, enable_idempotence=False, **bob) as producer:
            producer.send("orders", b"by bob").result(SECONDS)
        # An order of the controller, which comes by the broker's own listener, is still obeyed after a restart.
        running.restart()
        assert first_value(running, "orders") == b"by alice"


def test_an_authorizer_without_other_settings_lets_the_broker_start() -> None:
    with broker(authorizer_class_name=AUTHORIZERS[0]) as running, Admin(running.bootstrap_servers) as admin:
        assert len(admin.describe_cluster().nodes) == 1


def kinds_of_clusters() -> list[object]:
    """One kind in every run, which has both halves; the others in `make test-all`."""
    return ["sasl_ssl", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("ssl", "sasl_plaintext"))]


@pytest.mark.parametrize("kind", kinds_of_clusters())
def test_cluster_is_secured_between_its_brokers_too(kind: str) -> None:
    settings: dict[str, Any] = {
        "num_partitions": 3,
        "authorizer_class_name": AUTHORIZERS[0],
        "allow_everyone_if_no_acl_found": True,
    }
    if kind == "ssl":  # the brokers' principal is the name in their certificate
        settings["ssl_client_auth"] = "required"
        settings["ssl_principal_mapping_rules"] = "RULE:^CN=([^,]+).*$/broker-$1/L"
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


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=localhost,O=Barnabas development"),
        ("RULE:^CN=([^,]+).*$/broker-$1/U", "User:BROKER-LOCALHOST"),
        ("RULE:^O=.*$/x/, DEFAULT", "User:CN=localhost,O=Barnabas development"),
        ("RULE:^O=.*$/x/", None),
        ("RULE:[", None),
    ],
)
def test_the_principal_of_a_clusters_brokers_follows_the_rules(
    tmp_path: Path, rules: str, principal: str | None
) -> None:
    security = made_security(str(tmp_path / "data"), "ssl")
    assert security.cluster_principal(asks_for_certificates=True, mapping_rules=rules) == principal
    assert security.cluster_principal(asks_for_certificates=False, mapping_rules=rules) == "User:ANONYMOUS"
