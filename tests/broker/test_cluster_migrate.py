"""`barnabas cluster migrate`: a broker's metadata into ZooKeeper and back, with all that they consist of.

ZooKeeper is the server of the test kit in `make test`, and Apache ZooKeeper, too, in `make test-all`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from barnabas.clients.admin import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    NewTopic,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from barnabas.clients.producer import Producer
from barnabas.testing import BrokerFailed, BrokerProcess
from barnabas.testing.broker_command import Setting
from barnabas.testing.znode_server import ZnodeServer
from tests.support.apache_kafka import ZooKeeper, need_apache_kafka

pytestmark = pytest.mark.timeout(400)
TOPIC = "flights"
SETTINGS: dict[str, Setting] = {
    "broker_id": 0,
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "super_users": "User:ANONYMOUS",
}
ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
    AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
)


@pytest.fixture(params=["kit", pytest.param("apache", marks=pytest.mark.java)])
def zookeeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Run a ZooKeeper, and return a value for zookeeper.connect."""
    if request.param == "kit":
        server = ZnodeServer()
        yield f"{server.address}/kafka"
        server.close()
        return
    need_apache_kafka()
    apache = ZooKeeper(tmp_path / "zookeeper")
    apache.start()
    yield f"{apache.host}:{apache.port}/kafka"
    apache.close()


def run(*arguments: str, broker: BrokerProcess | None = None) -> Result:
    environment = {} if broker is None else {"BARNABAS_BOOTSTRAP_SERVER": broker.bootstrap_servers}
    return CliRunner().invoke(barnabas, arguments, env=environment)


def migrate(data_dir: str, zookeeper: str, *arguments: str) -> Result:
    return run("cluster", "migrate", data_dir, f"--zookeeper={zookeeper}", *arguments)


def fill(broker: BrokerProcess, secret: Path) -> None:
    secret.write_text("alice knows\n")
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 2, 1, {"retention.ms": "86400000"})])
        admin.create_acls([ACL])
    for arguments in (
        ("users", "add", "alice", f"--password-file={secret}"),
        ("quotas", "set", "producer_byte_rate=1048576", "--user=alice"),
        ("configs", "set", "--all-brokers", "log.cleaner.threads=2"),
    ):
        assert run(*arguments, broker=broker).exit_code == 0
    produce(broker, b"before")


def produce(broker: BrokerProcess, value: bytes) -> int:
    """Produce as a new idempotent producer, which needs a producer id. Return the offset."""
    with Producer(broker.bootstrap_servers, enable_idempotence=True) as producer:
        return producer.send(TOPIC, value, partition=0).result(60).offset


def metadata_of(broker: BrokerProcess) -> list[object]:
    """Return all that the commands and the admin client can see of the metadata."""
    with Admin(broker.bootstrap_servers) as admin:
        described = admin.describe_topics([TOPIC])[TOPIC]
        return [
            admin.describe_cluster().cluster_id,
            (described.topic_id, [(each.partition, each.replicas) for each in described.partitions]),
            admin.describe_topic_configs(TOPIC)["retention.ms"],
            run("acls", "list", broker=broker).stdout,
            run("users", "list", broker=broker).stdout,
            run("quotas", "get", broker=broker).stdout,
            run("configs", "get", "--all-brokers", broker=broker).stdout,
        ]


def test_into_zookeeper_and_back(zookeeper: str, tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    alone = BrokerProcess(data_dir, SETTINGS)
    joined = BrokerProcess(data_dir, {**SETTINGS, "zookeeper_connect": zookeeper})
    try:
        alone.start()
        fill(alone, tmp_path / "secret")
        wanted = metadata_of(alone)
        refused = migrate(data_dir, zookeeper)
        assert refused.exit_code == 1
        assert "Failed to acquire lock" in refused.stderr
        alone.close()

        moved = migrate(data_dir, zookeeper)
        assert moved.exit_code == 0, moved.stderr
        assert moved.stdout.startswith(f"cluster {alone.cluster_id}\tznodes ")
        assert migrate(data_dir, zookeeper).exit_code == 0, "as after an interrupted run"
        with pytest.raises(BrokerFailed, match="were moved into ZooKeeper"):
            alone.start()

        joined.start()
        assert metadata_of(joined) == wanted
        assert produce(joined, b"in ZooKeeper") == 1
        registered = migrate(data_dir, zookeeper, "--back")
        assert registered.exit_code == 1
        joined.close()

        back = migrate(data_dir, zookeeper, "--back")
        assert back.exit_code == 0, back.stderr
        assert "moved away before" in migrate(data_dir, zookeeper, "--back").stderr
        with pytest.raises(BrokerFailed, match="the metadata in this ZooKeeper were moved"):
            joined.start()
        alone.start()
        assert metadata_of(alone) == wanted
        assert produce(alone, b"after") == 2
        alone.close()
    finally:
        alone.kill()
        joined.kill()


def test_refusals(zookeeper: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no metadata.sqlite" in migrate(str(empty), zookeeper).stderr
    assert "has no cluster id" in migrate(str(empty), zookeeper, "--back").stderr
    first, second = (BrokerProcess(str(tmp_path / name), {}) for name in ("first", "second"))
    for broker in (first, second):
        broker.start()
        broker.close()
    assert migrate(first.data_dir, zookeeper).exit_code == 0
    other = migrate(second.data_dir, zookeeper)
    assert other.exit_code == 1
    assert "belongs to another cluster already" in other.stderr
    second.start()
    second.close()
    stranger = migrate(second.data_dir, zookeeper, "--back")
    assert f"belongs to cluster {second.cluster_id}" in stranger.stderr
