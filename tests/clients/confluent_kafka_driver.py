"""confluent-kafka (librdkafka in Python)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.client_driver import ReadRecord, SentRecord

SECONDS = 60


class ConfluentKafkaDriver:
    """Default settings: acks=all, no idempotence."""

    name = "confluent-kafka"
    partitions = 4
    carries_bytes = True
    headers_per_record = True

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS)

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec})
        failures: list[KafkaError] = []
        delivered = 0

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            nonlocal delivered
            delivered += 1
            if error is not None:
                failures.append(error)

        for record in records:
            headers: Any = list(record.headers)
            producer.produce(topic, record.value, record.key, record.partition, on_delivery, headers=headers)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0
        assert not failures
        assert delivered == len(records)

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterator[ReadRecord]:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "no-group",  # librdkafka wants one even where none is used
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets.items()])
        try:
            left = count
            while left:
                messages = consumer.consume(left, SECONDS)
                assert messages, f"{left} of {count} records did not come"
                left -= len(messages)
                for message in messages:
                    yield _read_record(message)
        finally:
            consumer.close()


def _read_record(message: Any) -> ReadRecord:
    assert message.error() is None, message.error()
    headers = tuple(message.headers() or ())
    return ReadRecord(message.partition(), message.offset(), message.key(), message.value(), headers)
