"""The records that cases send and read."""

from __future__ import annotations

import time
from collections.abc import Iterable

from barnabas.clients.consumer import Consumer, ConsumerRecord, TopicPartition
from barnabas.clients.producer import Producer
from tests.support.transaction_markers import wait_for_markers

PATIENCE_SECONDS = 30


def send_numbers(address: str, topic: str, numbers: Iterable[int], partition: int = 0) -> None:
    """Send a record for each number, and check that all have arrived."""
    with Producer(address) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=partition) for number in numbers]
    for future in futures:
        future.result(0)


def read(consumer: Consumer, count: int, limit: int | None = None) -> list[ConsumerRecord]:
    """Poll until so many records have come: exactly so many if `limit` is 1. Fails when they do not come."""
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        records += consumer.poll(100, limit)
    return records


def read_committed(address: str, topic: str, partitions: int) -> list[bytes]:
    """The values of all records of a topic whose transactions were committed, by partition. Waits for open ones."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    wait_for_markers(address, places)
    values: list[bytes] = []
    with Consumer(address, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        for place in places:
            (end,) = consumer.end_offsets([place]).values()
            consumer.assign([place])
            deadline = time.monotonic() + PATIENCE_SECONDS
            while consumer.position(place) < end:
                assert time.monotonic() < deadline, f"the position stayed before {end}"
                values += [record.value for record in consumer.poll(100)]
    return values
