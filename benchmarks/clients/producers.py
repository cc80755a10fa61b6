"""Sends records with one library and prints what that cost: run as a process of its own by `benchmarks.clients`.

    python -m benchmarks.clients.producers LIBRARY BOOTSTRAP_SERVERS TOPIC VALUE_BYTES CODEC RECORDS

Every library has its default settings but the codec; the name says whether it is idempotent. Each record has a key of 8
bytes, and its future or callback is looked at: a record counts when the broker has acknowledged it. Time and CPU begin
when the connection stands and the topic is known, and end when the last record is acknowledged. The output is one JSON
object: records, seconds, cpu_seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.clients.workload import values

_SECONDS = 300
_AWAITED = 1_000
"""Records that the asyncio programs send before they await their futures: aiokafka has no limit but memory."""


class Sending(NamedTuple):
    """What is sent, and where to."""

    servers: str
    topic: str
    value_bytes: int
    codec: str
    records: int


class Meter:
    """The clocks of one run."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._cpu_started = time.process_time()

    def result(self, records: int) -> dict[str, float]:
        """Return the figures, in records and seconds."""
        return {
            "records": records,
            "seconds": time.perf_counter() - self._started,
            "cpu_seconds": time.process_time() - self._cpu_started,
        }


def barnabas(sending: Sending, *, idempotent: bool = True) -> dict[str, float]:
    """Send with our producer."""
    from barnabas.clients.producer import Producer

    choices = values(sending.value_bytes)
    with Producer(sending.servers, compression_type=sending.codec, enable_idempotence=idempotent) as producer:
        producer.send(sending.topic, b"first", key=b"00000000").result(_SECONDS)
        meter = Meter()
        futures = [
            producer.send(sending.topic, choices[number % len(choices)], key=b"%08d" % number)
            for number in range(sending.records)
        ]
        producer.flush()
        delivered = sum(future.result(_SECONDS).offset >= 0 for future in futures)
        return meter.result(delivered)


def barnabas_not_idempotent(sending: Sending) -> dict[str, float]:
    """Send with our producer, without idempotence."""
    return barnabas(sending, idempotent=False)


def barnabas_aio(sending: Sending) -> dict[str, float]:
    """Send with our asyncio producer."""
    from barnabas.clients.aio import Producer

    choices = values(sending.value_bytes)

    async def send() -> dict[str, float]:
        async with Producer(sending.servers, compression_type=sending.codec) as producer:
            await producer.send_and_wait(sending.topic, b"first", key=b"00000000")
            meter = Meter()
            return meter.result(await _delivered(producer, sending, choices))

    return asyncio.run(send())


def kafka_python(sending: Sending, *, idempotent: bool = True) -> dict[str, float]:
    """Send with kafka-python."""
    from kafka import KafkaProducer

    choices = values(sending.value_bytes)
    codec = None if sending.codec == "none" else sending.codec
    producer = KafkaProducer(
        bootstrap_servers=sending.servers, compression_type=codec, enable_idempotence=idempotent, acks="all"
    )
    producer.send(sending.topic, b"first", key=b"00000000").get(_SECONDS)
    meter = Meter()
    futures = [
        producer.send(sending.topic, choices[number % len(choices)], key=b"%08d" % number)
        for number in range(sending.records)
    ]
    producer.flush()
    delivered = sum(future.get(_SECONDS).offset >= 0 for future in futures)
    result = meter.result(delivered)
    producer.close()
    return result


def kafka_python_not_idempotent(sending: Sending) -> dict[str, float]:
    """Send with kafka-python, without idempotence."""
    return kafka_python(sending, idempotent=False)


def aiokafka(sending: Sending) -> dict[str, float]:
    """Send with aiokafka."""
    from aiokafka import AIOKafkaProducer

    choices = values(sending.value_bytes)
    codec = None if sending.codec == "none" else sending.codec

    async def send() -> dict[str, float]:
        producer = AIOKafkaProducer(bootstrap_servers=sending.servers, compression_type=codec, enable_idempotence=True)
        await producer.start()
        await producer.send_and_wait(sending.topic, b"first", key=b"00000000")
        meter = Meter()
        result = meter.result(await _delivered(producer, sending, choices))
        await producer.stop()
        return result

    return asyncio.run(send())


async def _delivered(producer: Any, sending: Sending, choices: Sequence[bytes]) -> int:
    """Send the records by an asyncio producer, with values from `choices` in turn. Return how many were stored."""
    delivered: int = 0
    waiting: list[Any] = []
    for number in range(sending.records):
        waiting.append(await producer.send(sending.topic, choices[number % len(choices)], key=b"%08d" % number))
        if len(waiting) == _AWAITED:
            delivered += sum(each.offset >= 0 for each in await asyncio.gather(*waiting))
            waiting.clear()
    delivered += sum(each.offset >= 0 for each in await asyncio.gather(*waiting))
    return delivered


def confluent_kafka(sending: Sending) -> dict[str, float]:
    """Send with confluent-kafka, whose batches and network are C threads of librdkafka."""
    from confluent_kafka import Producer

    choices = values(sending.value_bytes)
    delivered = 0

    def note(error: object, _message: object) -> None:
        nonlocal delivered
        if error is not None:
            raise RuntimeError(str(error))
        delivered += 1

    settings = {
        "bootstrap.servers": sending.servers,
        "compression.type": sending.codec,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer(settings)
    producer.produce(sending.topic, b"first", b"00000000", on_delivery=note)
    producer.flush(_SECONDS)
    meter = Meter()
    for number in range(sending.records):
        while True:
            try:
                producer.produce(sending.topic, choices[number % len(choices)], b"%08d" % number, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(_SECONDS)
    return meter.result(delivered - 1)


LIBRARIES: dict[str, Callable[[Sending], dict[str, float]]] = {
    "barnabas": barnabas,
    "barnabas-aio": barnabas_aio,
    "barnabas-not-idempotent": barnabas_not_idempotent,
    "kafka-python": kafka_python,
    "kafka-python-not-idempotent": kafka_python_not_idempotent,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
}


def main() -> None:
    """Run one library once."""
    library, servers, topic, value_bytes, codec, records = sys.argv[1:]
    sending = Sending(servers, topic, int(value_bytes), codec, int(records))
    result = LIBRARIES[library](sending)
    if result["records"] != sending.records:
        raise SystemExit(f"{library} delivered {result['records']} of {sending.records} records")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
