"""The brokers that the suite runs on, and what one of them lacks.

Made by the fixture `broker` of conftest.py. The properties are the same for each of them, so that a test cannot tell
them apart by their settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from barnabas.clients.consumer import Consumer, ConsumerRecord
from barnabas.protocol.api_keys import ApiKey
from tests.groups.conftest import PROPERTIES as GROUP_PROPERTIES
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.apache_kafka_4 import ApacheKafka4, need_apache_kafka_4
from tests.support.apache_kafka_kraft import NODE_ID
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import Server
from tests.support.waiting import wait_until

T = TypeVar("T")

BARNABAS = "barnabas"
APACHE_KAFKA = "apache-kafka-3.9"
APACHE_KAFKA_4 = "apache-kafka-4"
BROKERS = (
    BARNABAS,
    pytest.param(APACHE_KAFKA, marks=pytest.mark.java),
    pytest.param(APACHE_KAFKA_4, marks=pytest.mark.java),
)

PATIENCE_SECONDS = 30
SESSION_SECONDS = 6
"""How long each broker waits for a member that is silent."""
AUTO_CREATED_PARTITIONS = 2

PROPERTIES = GROUP_PROPERTIES | {
    "num.partitions": str(AUTO_CREATED_PARTITIONS),
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class EachBroker(NamedTuple):
    """A running broker. `name`: one of BROKERS. `node_id`: its number in its cluster, whose only broker it is."""

    name: str
    bootstrap_servers: str
    node_id: int

    def need_consumer_protocol(self) -> None:
        """Skip the test on a broker without groups of KIP-848."""
        if self.name == APACHE_KAFKA:
            pytest.skip("Apache Kafka 3.9 with ZooKeeper has no groups of the consumer protocol")

    def need_transactions(self, api_versions: object) -> None:
        """Skip the test on a broker whose APIs, as it lists them, have no EndTxn."""
        assert isinstance(api_versions, dict)
        if ApiKey.END_TXN not in api_versions:
            pytest.skip(f"{self.name} has no transactions")


def make_broker(name: str, directory: Path) -> Server:
    """A broker that is not started yet. Skips, or fails under CI, where the machine lacks what it needs."""
    if name == APACHE_KAFKA:
        need_apache_kafka()
        return ApacheKafka(directory, PROPERTIES)
    if name == APACHE_KAFKA_4:
        need_apache_kafka_4()
        return ApacheKafka4(directory, PROPERTIES | {"group.consumer.assignment.interval.ms": "0"})
    return BarnabasProcess(directory, PROPERTIES)


def node_id_of(name: str) -> int:
    """The number of the broker in its cluster."""
    return NODE_ID if name == APACHE_KAFKA_4 else 0


def eventually(read: Callable[[], T], is_right: Callable[[T], bool], seconds: float = PATIENCE_SECONDS) -> T:
    """Read until the outcome is right: a change reaches the brokers of a KRaft cluster after its answer.

    Fails with the last outcome.
    """
    found: T = wait_until(read, seconds, is_right)
    return found


def poll_records(consumer: Consumer, count: int, seconds: float = PATIENCE_SECONDS) -> list[ConsumerRecord]:
    """Poll until so many records have come. Fails with those that did."""
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        records += consumer.poll(100)
    return records
