"""Consumers with a rack read from the replica in that rack, and from the leader when the replica is gone (KIP-392)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import confluent_kafka
import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.producer import Producer
from barnabas.replica.requests.closest_replica_reader import RACK_AWARE
from barnabas.testing import Cluster, cluster
from tests.support.apache_kafka import CONSOLE_CONSUMER, need_apache_kafka, run_tool
from tests.support.broker_metrics import metric_value
from tests.support.cluster_state import partition_state

pytestmark = pytest.mark.timeout(400)

RACKS = ("a", "b", "c")
SECONDS = 60
START_SECONDS = 240
"""Longer than a start takes on a machine that is far too busy."""
VALUE = b"v" * 1_000
FIRST, SECOND = 200, 50


@pytest.fixture(scope="module")
def racks() -> Iterator[Cluster]:
    # A follower that a busy machine holds up stays in sync: consumers are sent to no other.
    with cluster(
        3,
        racks=RACKS,
        replica_selector_class=RACK_AWARE,
        replica_lag_time_max_ms=120_000,
        metrics_listen="127.0.0.1:0",
    ) as running:
        yield running


class Replicated(NamedTuple):
    """A topic of one partition, and the follower to read from."""

    topic: str
    leader: int
    follower: int


@pytest.fixture
def replicated(racks: Cluster, request: pytest.FixtureRequest) -> Replicated:
    """A topic with records that every replica has."""
    topic = request.function.__name__
    with Admin(racks.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 3)])
    produce(racks, topic, FIRST)
    # From the store, since any broker may hear of a topic late.
    session = racks.store.session()
    leader = partition_state(session, topic)["leader"]
    session.close()
    assert leader in range(3)
    return Replicated(topic, leader, (leader + 1) % 3)


def produce(racks: Cluster, topic: str, count: int) -> None:
    with Producer(racks.bootstrap_servers, acks="all") as producer:
        for sent in [producer.send(topic, VALUE, partition=0) for _ in range(count)]:
            sent.result(SECONDS)


def bytes_out(racks: Cluster, broker_id: int) -> float:
    """What a broker has sent to consumers of all topics."""
    port = urlsplit(racks.brokers[broker_id].console_url or "").port
    assert port is not None
    try:
        return metric_value(port, "kafka_server_brokertopicmetrics_bytesout_total")
    except KeyError:
        return 0


def read(poll: Callable[[], int], count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while count > 0:
        assert time.monotonic() < deadline, f"{count} records missing"
        count -= poll()
    assert count == 0


def check_places(racks: Cluster, replicated: Replicated, poll: Callable[[], int]) -> None:
    """Read from the follower alone; then from the leader, since the follower is dead."""
    leader_before, follower_before = (bytes_out(racks, each) for each in (replicated.leader, replicated.follower))
    read(poll, FIRST)
    assert bytes_out(racks, replicated.follower) - follower_before >= FIRST * len(VALUE)
    assert bytes_out(racks, replicated.leader) == leader_before
    racks.kill(replicated.follower)
    try:
        produce(racks, replicated.topic, SECOND)
        read(poll, SECOND)
    finally:
        racks.restart(replicated.follower, START_SECONDS)


def test_our_consumer_reads_from_its_rack(racks: Cluster, replicated: Replicated) -> None:
    with Consumer(
        racks.bootstrap_servers, client_rack=RACKS[replicated.follower], auto_offset_reset="earliest", group_id=None
    ) as consumer:
        consumer.assign([TopicPartition(replicated.topic, 0)])
        check_places(racks, replicated, lambda: len(consumer.poll(1_000)))


def test_librdkafka_reads_from_its_rack(racks: Cluster, replicated: Replicated) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": racks.bootstrap_servers,
            "client.rack": RACKS[replicated.follower],
            "group.id": "unused",
            "enable.auto.commit": False,
        }
    )
    try:
        start = confluent_kafka.TopicPartition(replicated.topic, 0, confluent_kafka.OFFSET_BEGINNING)
        consumer.assign([start])
        check_places(racks, replicated, lambda: sum(each.error() is None for each in consumer.consume(500, 1.0)))
    finally:
        consumer.close()


@pytest.mark.java
@pytest.mark.slow
def test_the_java_client_reads_from_its_rack(racks: Cluster, replicated: Replicated, tmp_path: Path) -> None:
    need_apache_kafka()
    before = bytes_out(racks, replicated.follower)
    printed = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", racks.bootstrap_servers, "--topic", replicated.topic, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(FIRST)),
        *("--consumer-property", f"client.rack={RACKS[replicated.follower]}"),
        directory=tmp_path,
    )
    assert printed.split() == [VALUE.decode()] * FIRST
    assert bytes_out(racks, replicated.follower) - before >= FIRST * len(VALUE)
