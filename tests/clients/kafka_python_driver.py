"""kafka-python 3. Its producer is idempotent by default, so it begins with InitProducerId."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.clients.client_driver import ReadRecord, SentRecord

SECONDS = 60


class KafkaPythonDriver:
    """Default settings: acks=all, idempotence on."""

    name = "kafka-python"
    partitions = 4
    carries_bytes = True
    headers_per_record = True

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        finally:
            admin.close()

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        compression = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers, compression_type=compression)
        try:
            futures = [
                producer.send(topic, record.value, record.key, list(record.headers), record.partition)
                for record in records
            ]
            producer.flush(SECONDS)
            for future in futures:
                future.get(SECONDS)
        finally:
            producer.close()

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterator[ReadRecord]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="none")
        try:
            places = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
            consumer.assign(list(places))
            for place, offset in places.items():
                consumer.seek(place, offset)
            left = count
            while left:
                polled = consumer.poll(timeout_ms=SECONDS * 1000, max_records=left)
                assert polled, f"{left} of {count} records did not come"
                for records in polled.values():
                    left -= len(records)
                    yield from map(_read_record, records)
        finally:
            consumer.close()


def _read_record(record: Any) -> ReadRecord:
    return ReadRecord(record.partition, record.offset, record.key, record.value, tuple(record.headers))
