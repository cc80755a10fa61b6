"""A topic is copied exactly once while the broker is killed (-9) and started again, in the middle of transactions.

Two libraries copy; kafka-python, which does neither, reads the copy as a reader of committed records. Afterwards no
transaction is left open: the last stable offset is the end of the log.

The group's committed offsets say how far the copy is, because they alone are right whatever the copier saw of its
commits. A wait ends in failure only when they stand still for STALL_SECONDS, however slow the machine is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as Place

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.topic_partition import TopicPartition
from tests.clients.transactional_copiers import COPIERS, CopierThread
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES
from tests.support.server_process import free_port
from tests.support.transaction_markers import wait_for_markers

pytestmark = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"
)

SOURCE, TARGET = "source", "copy"
PARTITIONS = 2
RECORDS_A_ROUND = 120
"""Written to the source before each kill, and behind the last one."""
COPIED_BEFORE_A_KILL = 40
"""Of those records: enough others are left that the broker dies while the copier is busy."""
WITHIN_A_TRANSACTION_SECONDS = 0.03
STALL_SECONDS = 300
ENDED_STATES = {"Empty", "CompleteCommit", "CompleteAbort"}
PROPERTIES = {"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    running = BarnabasProcess(tmp_path, SERVER_PROPERTIES | PROPERTIES, port=free_port())
    with running.running():
        yield running


class Source:
    """Writes numbered records to the source, and remembers them by partition."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = ConfluentProducer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    @property
    def count(self) -> int:
        """The number of records written so far."""
        return sum(map(len, self.values))

    def write_round(self) -> None:
        for number in range(self.count, self.count + RECORDS_A_ROUND):
            value = b"%d" % number
            self.values[number % PARTITIONS].append(value)
            self._producer.produce(SOURCE, value, partition=number % PARTITIONS)
        assert self._producer.flush(STALL_SECONDS) == 0


def await_copies(admin: Admin, copier: CopierThread, wanted: int) -> None:
    """Return when the group has committed the offsets of `wanted` records."""
    places = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    copied, changed_at = 0, time.monotonic()
    while copied < wanted:
        now_copied = sum(found.offset for found in admin.list_group_offsets(TARGET, places).values())
        if now_copied != copied:
            copied, changed_at = now_copied, time.monotonic()
        stalled = time.monotonic() - changed_at > STALL_SECONDS
        assert not stalled, f"{copied} of {wanted} records are copied, failures: {copier.failures}"
        time.sleep(0.002)


def read_committed(bootstrap: str) -> list[list[bytes]]:
    """Return the values of each partition of the copy."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        consumer.assign([Place(TARGET, partition) for partition in range(PARTITIONS)])
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(consumer.assignment())
        while any(consumer.position(place) < end for place, end in ends.items()):
            for place, records in consumer.poll(500).items():
                found[place.partition] += [record.value for record in records]
    return found


def await_ended_transactions(bootstrap: str) -> None:
    """Return when the coordinator has completed all transactions, which is after their last markers."""
    deadline = time.monotonic() + STALL_SECONDS
    with Admin(bootstrap) as admin:
        while open_ones := [listed for listed in admin.list_transactions() if listed.state not in ENDED_STATES]:
            assert time.monotonic() < deadline, open_ones
            time.sleep(0.05)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("library", COPIERS)
def test_each_record_is_copied_once(broker: BarnabasProcess, library: str, kills: int) -> None:
    bootstrap = broker.bootstrap_servers
    chance = random.Random(kills)
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)])
    source = Source(bootstrap)
    copier = CopierThread(COPIERS[library], bootstrap, SOURCE, TARGET)
    with copier.running(), Admin(bootstrap) as admin:
        for _ in range(kills):
            copied = source.count
            source.write_round()
            await_copies(admin, copier, copied + COPIED_BEFORE_A_KILL)
            time.sleep(chance.random() * WITHIN_A_TRANSACTION_SECONDS)
            broker.kill()
            broker.start()
        source.write_round()
        await_copies(admin, copier, source.count)
    wait_for_markers(bootstrap, [TopicPartition(TARGET, partition) for partition in range(PARTITIONS)])
    assert read_committed(bootstrap) == source.values
    await_ended_transactions(bootstrap)
