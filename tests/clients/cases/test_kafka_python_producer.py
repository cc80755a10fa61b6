"""kafka-python's cases of its producer (test/integration/test_producer_integration.py), in the calls of ours.

Each test has the name of its case. Without a counterpart:

| case, or part of one | why |
|---|---|
| `record.checksum` in test_kafka_producer_proper_record_metadata | checksums of records ended with message format 2 |
| `record.serialized_header_size` there | `RecordMetadata` has the sizes of key and value only, as in Java |
| group id alone in test_transactional_producer_offsets | ours takes a `ConsumerGroupMetadata`, as Java since 3.0 |
"""

from __future__ import annotations

import time

import pytest

from barnabas.clients.admin import Admin, OffsetAndMetadata
from barnabas.clients.consumer import Consumer, ConsumerGroupMetadata, TopicPartition
from barnabas.clients.producer import Producer
from tests.clients.cases.conftest import PARTITIONS
from tests.clients.cases.records import read, read_committed

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("compression", CODECS)
def test_end_to_end(broker: str, name: str, compression: str) -> None:
    wanted = {f"msg {number}" for number in range(100)}
    with Producer(broker, retries=5, compression_type=compression, value_serializer="str") as producer:
        # The topic does not exist yet: the first record creates it.
        futures = [producer.send(name, value) for value in wanted]
        assert len([future.result(30) for future in futures]) == 100
        partitions = [TopicPartition(name, each.partition) for each in producer.partitions_for(name)]
    with Consumer(broker, auto_offset_reset="earliest", value_deserializer="str") as consumer:
        consumer.assign(partitions)
        assert {record.value for record in read(consumer, 100)} == wanted


@pytest.mark.parametrize("compression", CODECS)
def test_kafka_producer_proper_record_metadata(broker: str, topic: str, compression: str) -> None:
    with Producer(broker, compression_type=compression) as producer:
        metadata = producer.send(
            topic,
            b"Simple value",
            b"Simple key",
            [("Header Key", b"Header Value")],
            timestamp_ms=9_999_999,
            partition=0,
        ).result(30)
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
        assert metadata.timestamp_ms == 9_999_999
        assert (metadata.key_size, metadata.value_size) == (10, 12)
        before_ms = time.time_ns() // 1_000_000
        without_time = producer.send(topic, b"Simple value", b"Simple key", partition=0).result(30)
        assert before_ms <= without_time.timestamp_ms <= time.time_ns() // 1_000_000


def test_idempotent_producer(broker: str, topic: str) -> None:
    with Producer(broker, enable_idempotence=True) as producer:
        offsets = [producer.send(topic, b"idempotent", partition=0).result(30).offset for _ in range(10)]
    assert offsets == list(range(10))


@pytest.mark.parametrize("max_in_flight", [1, 2, 5])
def test_idempotent_producer_max_in_flight(broker: str, topic: str, max_in_flight: int) -> None:
    settings = {"enable_idempotence": True, "max_in_flight_requests_per_connection": max_in_flight}
    with Producer(broker, **settings) as producer:  # type: ignore[arg-type]
        places = [future.result(30) for future in [producer.send(topic, b"msg %d" % number) for number in range(100)]]
    for partition in range(PARTITIONS):
        offsets = [place.offset for place in places if place.partition == partition]
        assert offsets == list(range(len(offsets))), "in the order of the calls"
    with Consumer(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        assert {record.value for record in read(consumer, 100)} == {b"msg %d" % number for number in range(100)}


def test_idempotent_producer_high_throughput(broker: str, topic: str) -> None:
    with Producer(broker, max_in_flight_requests_per_connection=5, batch_size=1_024, linger_ms=5) as producer:
        futures = [producer.send(topic, b"msg %d" % number, partition=0) for number in range(500)]
        assert [future.result(30).offset for future in futures] == list(range(500))


def test_transactional_producer_messages(broker: str, topic: str, name: str) -> None:
    with Producer(broker, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in (b"msg1", b"msg2"):
            producer.send(topic, value, partition=0).result(30)
        producer.abort_transaction()
        producer.begin_transaction()
        for value in (b"msg3", b"msg4"):
            producer.send(topic, value, partition=0).result(30)
        producer.commit_transaction()
    assert read_committed(broker, topic, 1) == [b"msg3", b"msg4"]


def test_transactional_producer_offsets(broker: str, admin: Admin, topic: str, name: str) -> None:
    committed = OffsetAndMetadata(0, "metadata", 0)
    group = ConsumerGroupMetadata(name)
    with Producer(broker, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"msg1", partition=0).result(30)
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): committed}, group)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition(topic, 1): OffsetAndMetadata(1, "bad", 1)}, group)
        producer.abort_transaction()
    assert admin.list_group_offsets(name, require_stable=True) == {TopicPartition(topic, 0): committed}
