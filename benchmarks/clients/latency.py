"""Measures end-to-end latency with one library: run as a process of its own by `benchmarks.clients`.

    python -m benchmarks.clients.latency LIBRARY BOOTSTRAP_SERVERS TOPIC RECORDS RECORDS_PER_SECOND

One thread sends records at a steady rate, another reads them. Each value holds the time at which the record should have
been sent, so a sender that falls behind counts against its library. Settings are the defaults; the first second counts
for nothing. The output is one JSON object: records, and latencies in ms at the 50th, 95th, 99th percentile, and the
highest.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_SECONDS = 60
_TIMEOUT_MS = 30_000
_TIME = struct.Struct("<d92x")
"""The value: 100 bytes, of which 8 are the time."""


class Streaming(NamedTuple):
    """What is sent, where to, and how fast."""

    servers: str
    topic: str
    records: int
    records_per_second: int


def keep_sending(streaming: Streaming, send: Callable[[bytes], object]) -> None:
    """Call `send` with each value when its time has come."""
    started = time.perf_counter()
    for number in range(streaming.records):
        due = started + number / streaming.records_per_second
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        send(_TIME.pack(due))


def latencies(streaming: Streaming, send: Callable[[bytes], object], receive: Callable[[], Iterator[bytes]]) -> Any:
    """Send and receive at the same time, and return the percentiles."""
    sender = threading.Thread(target=keep_sending, args=(streaming, send))
    sender.start()
    found: list[float] = []
    while len(found) < streaming.records:
        values = list(receive())
        now = time.perf_counter()
        if not values:
            raise SystemExit(f"only {len(found)} of {streaming.records} records came within {_TIMEOUT_MS} ms")
        found += [now - _TIME.unpack(value)[0] for value in values]
    sender.join()
    counted = sorted(each * 1000 for each in found[streaming.records_per_second :])
    places = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    figures = {name: counted[int(len(counted) * place)] for name, place in places.items()}
    return {"records": len(counted), **figures, "highest": counted[-1]}


def barnabas(streaming: Streaming) -> Any:
    """Send and read with our clients."""
    from barnabas.clients.consumer import Consumer, TopicPartition
    from barnabas.clients.producer import Producer

    with Producer(streaming.servers) as producer, Consumer(streaming.servers) as consumer:
        partitions = producer.partitions_for(streaming.topic)
        consumer.assign(TopicPartition(streaming.topic, info.partition) for info in partitions)
        for info in partitions:
            consumer.position(TopicPartition(streaming.topic, info.partition))
        return latencies(
            streaming,
            lambda value: producer.send(streaming.topic, value),
            lambda: (record.value for record in consumer.poll(_TIMEOUT_MS)),
        )


def kafka_python(streaming: Streaming) -> Any:
    """Send and read with kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=streaming.servers, acks="all")
    consumer = KafkaConsumer(bootstrap_servers=streaming.servers, group_id=None)
    partitions = [TopicPartition(streaming.topic, number) for number in producer.partitions_for(streaming.topic)]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.position(partition)
    result = latencies(
        streaming,
        lambda value: producer.send(streaming.topic, value),
        lambda: (record.value for records in consumer.poll(timeout_ms=_TIMEOUT_MS).values() for record in records),
    )
    producer.close()
    consumer.close()
    return result


def confluent_kafka(streaming: Streaming) -> Any:
    """Send and read with confluent-kafka."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": streaming.servers})
    consumer = Consumer({"bootstrap.servers": streaming.servers, "group.id": "latency", "enable.auto.commit": False})
    # The topic is new: its end is its beginning, and no record can be missed before the position is known.
    partitions = producer.list_topics(streaming.topic, _SECONDS).topics[streaming.topic].partitions
    consumer.assign([TopicPartition(streaming.topic, number, OFFSET_BEGINNING) for number in partitions])
    consumer.poll(1)

    def send(value: bytes) -> None:
        producer.produce(streaming.topic, value)
        producer.poll(0)

    def receive() -> Iterator[bytes]:
        # `consume` of several would wait until it has them all.
        message = consumer.poll(_TIMEOUT_MS / 1000)
        if message is not None and not message.error():
            yield message.value() or b""

    result = latencies(streaming, send, receive)
    consumer.close()
    return result


LIBRARIES: dict[str, Callable[[Streaming], Any]] = {
    "barnabas": barnabas,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
}


def main() -> None:
    """Run one library once."""
    library, servers, topic, records, records_per_second = sys.argv[1:]
    print(json.dumps(LIBRARIES[library](Streaming(servers, topic, int(records), int(records_per_second)))))


if __name__ == "__main__":
    main()
