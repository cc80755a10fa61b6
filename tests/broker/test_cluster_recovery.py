"""Three brokers with two log directories each: what they do by themselves after a loss, and what they all have to know.

A directory is lost as by a defect: one partition's files are gone, and the next segment finds no directory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic, ScramAlteration, ScramMechanism
from barnabas.clients.authentication_errors import SaslAuthenticationError
from barnabas.clients.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.testing.znode_server import ZnodeServer
from tests.support.barnabas_process import BarnabasProcess
from tests.support.numbered_records import eventually, producing, values_of
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.timeout(1_200)

LOST = 1
"""The broker that loses something."""
SECONDS = 120


class Three:
    """The brokers by id, and the address of all."""

    def __init__(self, directory: Path, store: ZnodeServer) -> None:
        self.brokers = [self._new_broker(directory / f"{broker_id}", store, broker_id) for broker_id in range(3)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @staticmethod
    def _new_broker(directory: Path, store: ZnodeServer, broker_id: int) -> BarnabasProcess:
        broker = BarnabasProcess(
            directory,
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": store.address,
                "zookeeper.session.timeout.ms": "300000",
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "leader.imbalance.check.interval.seconds": "1",
                "leader.imbalance.per.broker.percentage": "0",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            },
        )
        broker.log_dirs = (directory / "a", directory / "b")
        broker.more_listeners = ("SASL_PLAINTEXT://127.0.0.1:0",)
        return broker

    def leaders(self, topic: str) -> list[int | None]:
        with Admin(self.bootstrap_servers) as admin:
            return [partition.leader for partition in admin.describe_topics([topic])[topic].partitions]

    def isrs(self, topic: str) -> list[set[int]]:
        with Admin(self.bootstrap_servers) as admin:
            return [set(partition.isr) for partition in admin.describe_topics([topic])[topic].partitions]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    store = ZnodeServer()
    running = Three(tmp_path_factory.mktemp("three"), store)
    try:
        for broker in running.brokers:
            broker.start()
        yield running
    finally:
        for broker in running.brokers:
            broker.kill()
        store.close()


def create(three: Three, topic: str, assignments: dict[int, list[int]], **configs: str) -> None:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(three.bootstrap_servers) as admin:
        eventually(lambda: len(admin.describe_cluster().nodes) == 3)
        admin.create_topics([NewTopic(topic, assignments=assignments, configs=settings)])
    eventually(lambda: three.isrs(topic) == [{0, 1, 2}] * len(assignments))


@pytest.mark.slow
def test_leaders_go_back_by_themselves(three: Three) -> None:
    preferred = [[LOST, 0, 2], [LOST, 2, 0], [0, LOST, 2]]
    create(three, "balanced", dict(enumerate(preferred)))
    with producing(three.bootstrap_servers, "balanced") as acknowledged:
        three.brokers[LOST].kill()
        eventually(lambda: three.leaders("balanced") == [0, 2, 0])
        three.brokers[LOST].start()
        # No one elects: the controller looks every second (leader.imbalance.check.interval.seconds).
        eventually(lambda: three.leaders("balanced") == [replicas[0] for replicas in preferred])
    assert values_of(three.bootstrap_servers, "balanced", len(acknowledged)) == acknowledged


def offline_by_partition(three: Three, topic: str) -> dict[int, list[int]]:
    with RawClient(three.brokers[0]) as client:
        return {each.partition_index: list(each.offline_replicas) for each in client.metadata(topic).partitions}


def directories_of_lost(three: Three) -> dict[str, ErrorCode]:
    with Admin(three.bootstrap_servers) as admin:
        return {Path(found.path).name: found.error for found in admin.describe_log_dirs(LOST)}


def test_a_lost_directory_takes_its_replicas_out_and_no_others(three: Three) -> None:
    create(three, "stored", {number: [LOST, 0, 2] for number in range(4)}, segment_bytes="1000")
    broken_dir = three.brokers[LOST].log_dirs[1]
    in_broken = sorted(int(path.name.rpartition("-")[2]) for path in broken_dir.glob("stored-*"))
    assert len(in_broken) == 2
    sound = [number for number in range(4) if number not in in_broken]
    # A file in place of the directory: the next segment cannot be made.
    shutil.rmtree(broken_dir / f"stored-{in_broken[0]}")
    (broken_dir / f"stored-{in_broken[0]}").write_text("no directory")
    values = [b"%d" % number + bytes(600) for number in range(8)]
    with Producer(three.bootstrap_servers, acks="all") as producer:
        for value in values:
            for number in range(4):
                producer.send("stored", value, partition=number).result(SECONDS)
    expected = {number: [LOST] if number in in_broken else [] for number in range(4)}
    eventually(lambda: offline_by_partition(three, "stored") == expected)
    leaders = three.leaders("stored")
    assert all(leaders[number] != LOST for number in in_broken)
    eventually(lambda: [LOST in isr for isr in three.isrs("stored")] == [number in sound for number in range(4)])
    assert directories_of_lost(three) == {"a": ErrorCode.NONE, "b": ErrorCode.KAFKA_STORAGE_ERROR}

    three.brokers[LOST].stop()
    (broken_dir / f"stored-{in_broken[0]}").unlink()
    three.brokers[LOST].start()
    eventually(lambda: three.isrs("stored") == [{0, 1, 2}] * 4)
    eventually(lambda: not any(offline_by_partition(three, "stored").values()))
    assert set(directories_of_lost(three).values()) == {ErrorCode.NONE}
    # What was lost is copied, and led from there again by the imbalance check.
    eventually(lambda: three.leaders("stored") == [LOST] * 4)
    with RawClient(three.brokers[LOST]) as client:
        for number in range(4):
            assert client.end_offset("stored", number) == len(values)


def can_log_in(three: Three, broker_id: int, password: str) -> bool:
    broker = three.brokers[broker_id]
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="alice",
        sasl_password=password,
    )
    try:
        with Admin(f"{broker.host}:{broker.ports['SASL_PLAINTEXT']}", config=config) as admin:
            admin.describe_cluster()
    except (SaslAuthenticationError, ApiError):
        return False
    return True


def is_refused(three: Three, broker_id: int, password: str) -> bool:
    return not can_log_in(three, broker_id, password)


def test_a_user_made_through_one_broker_logs_in_to_all(three: Three) -> None:
    for password in ("first", "second"):
        with Admin(three.brokers[0].bootstrap_servers) as admin:
            admin.alter_user_scram_credentials([ScramAlteration("alice", ScramMechanism.SCRAM_SHA_256, password)])
        for broker_id in range(3):
            eventually(partial(can_log_in, three, broker_id, password))
    for broker_id in range(3):
        eventually(partial(is_refused, three, broker_id, "first"))
