"""A broker of Apache Kafka with `zookeeper.set.acl=true` gives its znodes the lists that our store gives them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from barnabas.clients.admin import Admin, NewTopic, ScramAlteration, ScramMechanism
from barnabas.config.kafka_config import KafkaConfig
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_connection import FirstConnection, new_client
from barnabas.zk.zookeeper.zookeeper_requests import acls_of
from tests.support.apache_kafka import need_apache_kafka
from tests.support.secure_zookeeper import SecureZooKeeper, login_context
from tests.support.zookeeper_cluster import JoinedKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

SECONDS = 120
MADE = (
    "/cluster/id",
    "/config/brokers",
    "/config/users/alice",
    "/consumers",
    "/brokers/topics/orders/partitions/0/state",
)


class KafkaWithLogin(JoinedKafka):
    """A broker of Apache Kafka that logs in to ZooKeeper."""

    def _broker_command(self) -> list[str]:
        jaas = self.directory / "jaas.conf"
        jaas.write_text(f"Client {{\n    {login_context('kafka')}\n}};\n")
        java, *rest = super()._broker_command()
        return [java, f"-Djava.security.auth.login.config={jaas}", *rest]

    def launch_broker(self, configuration: Path) -> None:
        """Start it, and wait as long as a machine that is far too busy needs."""
        self.launch([*self._broker_command(), "kafka.Kafka", str(configuration)])
        self.wait_for_port(300)
        self.wait_for_brokers(300)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[SecureZooKeeper]:
    need_apache_kafka()
    running = SecureZooKeeper(tmp_path)
    running.start()
    yield running
    running.close()


def change_something(bootstrap_servers: str) -> None:
    with Admin(bootstrap_servers, timeout_ms=300_000, request_timeout_ms=300_000) as admin:
        admin.create_topics([NewTopic("orders", 1, 1, configs={"retention.ms": "1000000"})])
        admin.alter_user_scram_credentials([ScramAlteration("alice", ScramMechanism.SCRAM_SHA_256, "a password")])


def lists_below(client: KazooClient, root: str) -> dict[str, list[tuple[int, str, str]]]:
    """The list of each znode below the chroot, by its path there."""
    found, level = {}, [root]
    while level:
        path = level.pop()
        found[path.removeprefix(root)] = sorted(
            (acl.perms, acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0]
        )
        level += [f"{path}/{name}" for name in client.get_children(path)]
    return found


def list_of_ours(path: str) -> list[tuple[int, str, str]]:
    """The list that our store asks for, with the user in place of `auth`, as ZooKeeper writes it."""
    return sorted(
        (acl.perms, "sasl", "kafka") if acl.id.scheme == "auth" else (acl.perms, acl.id.scheme, acl.id.id)
        for acl in acls_of(path, is_secure=True)
    )


def test_same_lists(zookeeper: SecureZooKeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.host}:{zookeeper.port}"
    theirs = KafkaWithLogin(
        tmp_path / "theirs", {"zookeeper.connect": f"{address}/theirs", "zookeeper.set.acl": "true"}, zookeeper
    )
    reader_config = ZookeeperConfig.from_kafka_config(
        KafkaConfig.parse({"zookeeper.connect": address, "zookeeper.sasl.jaas.config": login_context("kafka")})
    )
    first = FirstConnection()
    reader = new_client(reader_config, first)
    try:
        reader.start_async()
        assert first.wait(SECONDS)
        theirs.start()
        change_something(theirs.bootstrap_servers)
        found = lists_below(reader, "/theirs")
        assert found.keys() >= set(MADE)
        assert found == {path: list_of_ours(path) for path in found}
    finally:
        theirs.close()
        reader.stop()
        reader.close()
