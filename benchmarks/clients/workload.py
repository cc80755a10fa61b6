"""What the client benchmarks read: topics of one record size, codec and spread of records over partitions."""

from __future__ import annotations

import random
from typing import NamedTuple

from confluent_kafka import Producer

PARTITIONS = 8
_BATCH_BYTES = 16_384  # the default of Java's producer, so that every library reads the batches it meets in practice
_VALUES = 64


class Workload(NamedTuple):
    """One topic. `is_skewed`: each partition has half as many records as the one before, the last two have none."""

    value_bytes: int
    codec: str
    is_skewed: bool

    @property
    def topic(self) -> str:
        """The topic's name, which is also the name of the row in a report."""
        return f"{self.value_bytes}-{self.codec}-{'skewed' if self.is_skewed else 'even'}"

    def counts(self, records: int) -> list[int]:
        """Return how many of `records` each partition has."""
        if not self.is_skewed:
            return [records // PARTITIONS] * PARTITIONS
        halves = [records >> (index + 1) for index in range(PARTITIONS - 2)]
        halves[0] += records - sum(halves)
        return [*halves, 0, 0]


WORKLOADS = tuple(
    Workload(value_bytes, codec, is_skewed)
    for value_bytes in (100, 1000)
    for codec in ("none", "lz4")
    for is_skewed in (False, True)
)


def values(value_bytes: int) -> list[bytes]:
    """Return values of which half the bytes repeat, so that a codec has something to do; the same in every run."""
    chance = random.Random(value_bytes)
    return [chance.randbytes(value_bytes // 2) + b"x" * (value_bytes - value_bytes // 2) for _ in range(_VALUES)]


def fill(bootstrap_servers: str, workload: Workload, records: int) -> int:
    """Write the records, those of all partitions interleaved. Return how many there are."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "batch.size": _BATCH_BYTES,
            "linger.ms": 20,
            "compression.type": workload.codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    choices = values(workload.value_bytes)
    counts = workload.counts(records)
    failed: list[object] = []
    for index in range(max(counts)):
        for partition, count in enumerate(counts):
            if index < count:
                _produce(producer, workload.topic, partition, choices[index % _VALUES], failed)
    producer.flush()
    if failed:
        raise RuntimeError(f"records of {workload.topic} could not be written: {failed[0]}")
    return sum(counts)


def _produce(producer: Producer, topic: str, partition: int, value: bytes, failed: list[object]) -> None:
    def note(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    while True:
        try:
            producer.produce(topic, value, key=b"key", partition=partition, on_delivery=note)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
