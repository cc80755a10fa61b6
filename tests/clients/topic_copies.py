"""A topic that is copied in transactions, and what a test of its copy reads. Used by the tests of copies over kills.

The group's committed offsets say how far a copy is: they alone are right, whatever the copier saw of its commits. A
wait ends in failure only when they stand still for STALL_SECONDS, however slow the machine is. The copier's group and
its transactional id have the name of the topic with the copy.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as Place

from barnabas.clients.admin import Admin
from barnabas.protocol.topic_partition import TopicPartition
from tests.clients.transactional_copiers import CopierThread
from tests.support.transaction_markers import wait_for_markers

SOURCE: Final = "source"
PARTITIONS: Final = 2
RECORDS_A_ROUND: Final = 120
"""Written to the source before each kill, and behind the last one."""
COPIED_BEFORE_A_KILL: Final = 40
"""Of those records: enough others are left that the broker dies while the copier is busy."""
WITHIN_A_TRANSACTION_SECONDS: Final = 0.03
STALL_SECONDS: Final = 300
ENDED_STATES: Final = {"Empty", "CompleteCommit", "CompleteAbort"}


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
        """Write the next records, and wait until all of them are acknowledged."""
        for number in range(self.count, self.count + RECORDS_A_ROUND):
            value = b"%d" % number
            self.values[number % PARTITIONS].append(value)
            self._producer.produce(SOURCE, value, partition=number % PARTITIONS)
        assert self._producer.flush(STALL_SECONDS) == 0


def await_copies(admin: Admin, copier: CopierThread, target: str, wanted: int) -> None:
    """Return when the group of `target` has committed the offsets of `wanted` records."""
    places = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    copied, changed_at = 0, time.monotonic()
    while copied < wanted:
        now_copied = sum(found.offset for found in admin.list_group_offsets(target, places).values())
        if now_copied != copied:
            copied, changed_at = now_copied, time.monotonic()
        stalled = time.monotonic() - changed_at > STALL_SECONDS
        assert not stalled, f"{copied} of {wanted} records are copied, failures: {copier.failures}"
        time.sleep(0.002)


def await_all_copies(admin: Admin, copiers: Mapping[str, CopierThread], wanted: int) -> None:
    """Return when the copier of each target has committed the offsets of `wanted` records."""
    for target, copier in copiers.items():
        await_copies(admin, copier, target, wanted)


def read_committed(bootstrap: str, target: str) -> list[list[bytes]]:
    """Return the values of each partition of the copy, as kafka-python reads them behind the last marker."""
    wait_for_markers(bootstrap, [TopicPartition(target, partition) for partition in range(PARTITIONS)])
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        consumer.assign([Place(target, partition) for partition in range(PARTITIONS)])
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(consumer.assignment())
        while any(consumer.position(place) < end for place, end in ends.items()):
            for place, records in consumer.poll(500).items():
                found[place.partition] += [record.value for record in records]
    return found


def await_ended_transactions(bootstrap: str) -> None:
    """Return when the coordinators have completed all transactions, which is after their last markers."""
    deadline = time.monotonic() + STALL_SECONDS
    with Admin(bootstrap) as admin:
        while open_ones := [listed for listed in admin.list_transactions() if listed.state not in ENDED_STATES]:
            assert time.monotonic() < deadline, open_ones
            time.sleep(0.05)
