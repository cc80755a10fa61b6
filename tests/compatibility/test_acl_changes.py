"""Lists that Kafka's own authorizer changes in ZooKeeper are in force on two brokers of ours; and the other way round.

`kafka-acls --authorizer-properties` runs the AclAuthorizer of Apache Kafka 3.9 without a broker. It writes the znodes
of lists, and the notices below `/kafka-acl-changes` and `/kafka-acl-extended-changes` that brokers watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.clients.admin import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.apache_kafka import ZooKeeper, need_apache_kafka, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.lossy_relay import LossyRelay
from tests.support.sasl_exchange import SaslRawClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "orders"
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
eventually = partial(wait_until, seconds=120)


class Cluster(NamedTuple):
    """Two brokers, and what reaches their ZooKeeper: the second one's way leads through the relay."""

    directory: Path
    zookeeper: ZooKeeper
    relay: LossyRelay
    brokers: list[BarnabasProcess]

    def errors(self) -> list[int]:
        """What each broker answers to alice when she asks for the topic."""
        return [self._error(broker) for broker in self.brokers]

    def _error(self, broker: BarnabasProcess) -> int:
        with SaslRawClient(broker, address=(broker.host, broker.ports["LOGIN"])) as alice:
            assert alice.log_in("alice", "alice-secret").error_code == ErrorCode.NONE
            request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TOPIC)])
            return alice.call(request, 9, MetadataResponse).topics[0].error_code

    def kafka_acls(self, *words: str) -> str:
        """Run Apache Kafka's authorizer on the store."""
        place = f"zookeeper.connect={self.zookeeper.host}:{self.zookeeper.port}"
        arguments = ["--authorizer-properties", place, *words]
        return run_tool("kafka.admin.AclCommand", *arguments, directory=self.directory, timeout_seconds=300)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_apache_kafka()
    zookeeper = ZooKeeper(tmp_path)
    relay = LossyRelay(0, 0)
    brokers: list[BarnabasProcess] = []
    try:
        zookeeper.start()
        relay.relay_to(zookeeper.port)
        for broker_id, port in enumerate((zookeeper.port, relay.port)):
            settings = {
                "broker.id": str(broker_id),
                "zookeeper.connect": f"127.0.0.1:{port}",
                "zookeeper.session.timeout.ms": "60000",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.login.sasl.plain.users": "alice:alice-secret",
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:ANONYMOUS",
            }
            broker = BarnabasProcess(tmp_path / str(broker_id), settings)
            broker.more_listeners = ("LOGIN://127.0.0.1:0",)
            brokers.append(broker)
            broker.start()
        brokers[0].wait_for_brokers(120)
        with Admin(brokers[0].bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        yield Cluster(tmp_path, zookeeper, relay, brokers)
    finally:
        for broker in brokers:
            broker.close()
        relay.close()
        zookeeper.close()


PREFIX = ("--topic", "ord", "--resource-pattern-type", "prefixed")


def test_lists_that_kafkas_authorizer_changes(cluster: Cluster) -> None:
    eventually(lambda: cluster.errors() == [REFUSED, REFUSED])
    for pattern in (("--topic", TOPIC), PREFIX):
        entry = ("--allow-principal", "User:alice", "--operation", "Describe", *pattern)
        cluster.kafka_acls("--add", *entry)
        eventually(lambda: cluster.errors() == [ErrorCode.NONE, ErrorCode.NONE])
        cluster.kafka_acls("--remove", "--force", *entry)
        eventually(lambda: cluster.errors() == [REFUSED, REFUSED])


def test_a_change_that_a_broker_could_not_hear_of(cluster: Cluster) -> None:
    """The second broker is cut off from ZooKeeper meanwhile: it reads the notice afterwards."""
    cluster.relay.relay_to(0)
    cluster.relay.cut()
    cluster.kafka_acls("--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", TOPIC)
    eventually(lambda: cluster.errors()[0] == ErrorCode.NONE)
    assert cluster.errors() == [ErrorCode.NONE, REFUSED]
    cluster.relay.relay_to(cluster.zookeeper.port)
    eventually(lambda: cluster.errors() == [ErrorCode.NONE, ErrorCode.NONE])


@pytest.mark.parametrize("how", [PatternType.LITERAL, PatternType.PREFIXED])
def test_lists_that_a_broker_of_ours_changes(cluster: Cluster, how: PatternType) -> None:
    """The other broker hears of it, and Kafka's authorizer reads it."""
    entry = AccessControlEntry("User:alice", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    binding = AclBinding(ResourcePattern(ResourceType.TOPIC, TOPIC, how), entry)
    listed = f"ResourcePattern(resourceType=TOPIC, name={TOPIC}, patternType={how.name})"

    def is_listed() -> bool:
        words = ("--topic", TOPIC, "--resource-pattern-type", how.name.lower())
        return listed in cluster.kafka_acls("--list", *words)

    with Admin(cluster.brokers[1].bootstrap_servers) as admin:
        assert not any(admin.create_acls([binding]).values())
        eventually(lambda: cluster.errors() == [ErrorCode.NONE, ErrorCode.NONE])
        assert is_listed()
        admin.delete_acls([AclBindingFilter()])
    eventually(lambda: cluster.errors() == [REFUSED, REFUSED])
    assert not is_listed()
