"""aiokafka. Each call of the driver runs its own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients.client_driver import ReadRecord, SentRecord

SECONDS = 60


class AiokafkaDriver:
    """Default settings: acks=1, no idempotence."""

    name = "aiokafka"
    partitions = 4
    carries_bytes = True
    headers_per_record = True

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        asyncio.run(_create_topic(bootstrap_servers, topic, partitions))

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        asyncio.run(_produce(bootstrap_servers, topic, codec, records))

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterable[ReadRecord]:
        return asyncio.run(_read(bootstrap_servers, topic, offsets, count))


async def _create_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, partitions, 1)])
        assert all(error[1] == 0 for error in response.topic_errors), response.topic_errors
    finally:
        await admin.close()


async def _produce(bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
    compression = None if codec == "none" else codec
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, compression_type=compression)
    await producer.start()
    try:
        futures = [
            await producer.send(topic, record.value, record.key, record.partition, headers=list(record.headers))
            for record in records
        ]
        await asyncio.wait_for(asyncio.gather(*futures), SECONDS)
    finally:
        await producer.stop()


async def _read(bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> list[ReadRecord]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="none")
    await consumer.start()
    try:
        places = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        consumer.assign(list(places))
        for place, offset in places.items():
            consumer.seek(place, offset)
        records: list[ReadRecord] = []
        while len(records) < count:
            polled = await consumer.getmany(timeout_ms=SECONDS * 1000, max_records=count - len(records))
            assert polled, f"{len(records)} of {count} records came"
            records += [_read_record(record) for some in polled.values() for record in some]
        return records
    finally:
        await consumer.stop()


def _read_record(record: Any) -> ReadRecord:
    return ReadRecord(record.partition, record.offset, record.key, record.value, tuple(record.headers))
