"""`barnabas serve --processes`: one cluster of several brokers on one machine, with the clients of others."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer

from barnabas.clients.admin import Admin, NewTopic
from tests.support.broker_row import BrokerRow
from tests.support.requirements import need
from tests.support.server_process import free_port
from tests.support.waiting import wait_until

SECONDS = 60
PARTITIONS = 4
eventually = partial(wait_until, seconds=SECONDS)


@pytest.fixture
def row(tmp_path: Path) -> Iterator[BrokerRow]:
    need(Path("/proc/self/status").exists(), "the tests find the brokers in /proc")
    row = BrokerRow(tmp_path, 2, {"num.partitions": str(PARTITIONS)})
    row.start()
    yield row
    row.close()


def _produce(row: BrokerRow, values: range) -> None:
    """Produce a record to each partition in turn; all are acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": row.bootstrap_servers, "acks": "all", "message.timeout.ms": 60_000})

    def note(error: object, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce("orders", str(value).encode(), partition=value % PARTITIONS, on_delivery=note)
    assert producer.flush(SECONDS) == 0
    assert not failed


def _consume(row: BrokerRow, count: int, group: str) -> list[int]:
    """Read records as a member of a group, commit, and leave."""
    settings = {"bootstrap.servers": row.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe(["orders"])
        values: list[int] = []
        while len(values) < count:
            message = consumer.poll(SECONDS)
            assert message is not None, f"{len(values)} of {count}"
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(int(message.value() or b""))
        consumer.commit(asynchronous=False)
        return sorted(values)
    finally:
        consumer.close()


def _leaders(row: BrokerRow, topic: str) -> Counter[int]:
    with Admin(row.bootstrap_servers) as admin:
        return Counter(partition.leader for partition in admin.describe_topics([topic])[topic].partitions)


def test_one_cluster_whose_brokers_share_the_work_and_survive_each_other(row: BrokerRow) -> None:
    first, second = (f"PLAINTEXT://127.0.0.1:{row.port + broker_id}" for broker_id in (0, 1))
    assert row.ready_line().startswith(f"barnabas ready: {first},{second} brokers=0,1 cluster=")
    with Admin(row.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders")])
    assert _leaders(row, "orders") == {0: 2, 1: 2}
    _produce(row, range(200))
    assert _consume(row, 200, "billing") == list(range(200))
    assert set(_leaders(row, "__consumer_offsets")) == {0, 1}

    # A broker is killed: the parent starts it again, and what was acknowledged is there.
    killed = row.process_ids()[1]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: row.process_ids().get(1, killed) != killed)
    _produce(row, range(200, 400))
    assert _consume(row, 400, "audit") == list(range(400))
    assert "broker 1 was killed by SIGKILL: it is started again in 1 s" in row.log_text()

    # A stop ends all. Fewer brokers are refused while those that would be missing have partitions.
    brokers = row.process_ids()
    assert row.stop() == 0
    assert all(map(_has_ended, brokers.values()))
    fewer = _refused("--processes", "1", "--data-dir", str(row.data_dir))
    assert "--processes 1: the brokers 1 have partitions, and would not run. Start --processes 2" in fewer
    alone = _refused("--data-dir", str(row.data_dir))
    assert "Start them with --processes" in alone

    # A start brings back all: topics, records and committed offsets. A further broker joins.
    more = BrokerRow(row.directory, 3)
    more.start()
    try:
        _produce(more, range(400, 410))
        assert _consume(more, 210, "billing") == list(range(200, 410))
        with Admin(more.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("payments", num_partitions=3)])
        assert _leaders(more, "payments") == {0: 1, 1: 1, 2: 1}
        beside = _refused("--processes", "3", "--data-dir", str(row.data_dir))
        assert "is in use by another process" in beside
    finally:
        more.close()


def test_the_store_is_for_the_user_alone_and_the_brokers_end_with_their_parent(row: BrokerRow) -> None:
    words = Path(f"/proc/{row.process_ids()[0]}/cmdline").read_text().split("\0")
    place = Path(next(word for word in words if word.startswith("zookeeper.connect=")).partition("unix:")[2])
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700

    brokers = row.process_ids().values()
    row.kill()
    for process_id in brokers:
        eventually(partial(_has_ended, process_id))
    assert row.log_text().count("Shutdown complete.") == 2
    place.unlink()
    place.parent.rmdir()


def _has_ended(process_id: int) -> bool:
    """Whether a process has ended, even if nobody has asked for its exit status yet."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except FileNotFoundError:
        return True


def test_a_broker_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    row = BrokerRow(tmp_path, 2)
    with socket.create_server((row.host, row.port + 1)):
        place = ["--data-dir", str(row.data_dir), "--listen", f"PLAINTEXT://{row.host}:{row.port}"]
        told = _refused("--processes", "2", *place)
    assert f"{row.host}:{row.port + 1}" in told
    assert "Address already in use" in told
    assert "broker 1 ended with exit status 1 before all brokers were ready: stopping" in told


def _refused(*options: str) -> str:
    """What a start says that does not come about."""
    listen = () if "--listen" in options else ("--listen", f"PLAINTEXT://127.0.0.1:{free_port()}")
    command = [sys.executable, "-m", "barnabas", "serve", *options, *listen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode in (1, 2), done.stderr
    return done.stderr
