"""Reads a topic with one library and prints what that cost: run as a process of its own by `benchmarks.clients`.

    python -m benchmarks.clients.consumers LIBRARY BOOTSTRAP_SERVERS TOPIC PARTITIONS RECORDS

Every library has its default settings, is assigned all partitions at their beginning, and returns up to 500 records a
call. The value of each record is looked at. Time and CPU count from the first records to the last, so that neither the
imports nor the connection are measured. The output is one JSON object: records, seconds, cpu_seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

_TIMEOUT_MS = 30_000
_MOST_RECORDS = 500


class Meter:
    """Counts values until all are there."""

    def __init__(self, records: int) -> None:
        self._wanted = records
        self._seen = 0
        self._skipped = 0
        self._started = (0.0, 0.0)

    def is_done(self, lengths: Iterator[int]) -> bool:
        """Add the lengths of the values of one call, and return whether all values have been seen."""
        count = sum(1 for length in lengths if length)
        if not count:
            raise SystemExit(f"only {self._seen} of {self._wanted} records came within {_TIMEOUT_MS} ms")
        if not self._seen:
            self._skipped = count
            self._started = (time.perf_counter(), time.process_time())
        self._seen += count
        return self._seen >= self._wanted

    def result(self) -> dict[str, float]:
        """Return the figures, in records and seconds."""
        return {
            "records": self._seen - self._skipped,
            "seconds": time.perf_counter() - self._started[0],
            "cpu_seconds": time.process_time() - self._started[1],
        }


def barnabas(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with our consumer."""
    from barnabas.clients.consumer import Consumer, TopicPartition

    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition(topic, number) for number in range(partitions))
        while not meter.is_done(len(record.value or b"") for record in consumer.poll(_TIMEOUT_MS)):
            pass


def barnabas_aio(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with our asyncio consumer."""
    from barnabas.clients.aio import Consumer
    from barnabas.protocol.topic_partition import TopicPartition

    async def read() -> None:
        async with Consumer(servers, auto_offset_reset="earliest") as consumer:
            await consumer.assign(TopicPartition(topic, number) for number in range(partitions))
            polled: Any = []
            while not polled or not meter.is_done(len(record.value) for record in polled):
                polled = await consumer.getmany(_TIMEOUT_MS, _MOST_RECORDS)

    asyncio.run(read())


def kafka_python(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    polled: Any = {}
    while not polled or not meter.is_done(len(record.value) for record in chain.from_iterable(polled.values())):
        polled = consumer.poll(timeout_ms=_TIMEOUT_MS, max_records=_MOST_RECORDS)
    consumer.close()


def aiokafka(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with aiokafka."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        await consumer.start()
        polled: Any = {}
        while not polled or not meter.is_done(len(record.value) for record in chain.from_iterable(polled.values())):
            polled = await consumer.getmany(timeout_ms=_TIMEOUT_MS, max_records=_MOST_RECORDS)
        await consumer.stop()

    asyncio.run(read())


def confluent_kafka(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with confluent-kafka, whose network and queues are C threads of librdkafka."""
    _confluent_kafka(servers, topic, partitions, meter, {})


def confluent_kafka_checked(servers: str, topic: str, partitions: int, meter: Meter) -> None:
    """Read with confluent-kafka, and let it check checksums, as the other libraries do by default."""
    _confluent_kafka(servers, topic, partitions, meter, {"check.crcs": True})


def _confluent_kafka(servers: str, topic: str, partitions: int, meter: Meter, settings: dict[str, Any]) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False, **settings}
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    while not meter.is_done(
        len(message.value() or b"")
        for message in consumer.consume(_MOST_RECORDS, _TIMEOUT_MS / 1000)
        if not message.error()
    ):
        pass
    consumer.close()


LIBRARIES: dict[str, Callable[[str, str, int, Meter], None]] = {
    "barnabas": barnabas,
    "barnabas-aio": barnabas_aio,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
    "confluent-kafka, check.crcs": confluent_kafka_checked,
}


def main() -> None:
    """Run one library once."""
    library, servers, topic, partitions, records = sys.argv[1:]
    meter = Meter(int(records))
    LIBRARIES[library](servers, topic, int(partitions), meter)
    print(json.dumps(meter.result()))


if __name__ == "__main__":
    main()
