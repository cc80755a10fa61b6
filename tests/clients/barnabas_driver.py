"""Our own clients, as a driver of the round trip: they meet the same broker as all others do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.producer import Producer
from tests.clients.client_driver import ReadRecord, SentRecord


class BarnabasDriver:
    """See ClientDriver."""

    name = "barnabas"
    partitions = 3
    carries_bytes = True
    headers_per_record = True

    def __init__(self, *, enable_idempotence: bool = False) -> None:
        self._enable_idempotence = enable_idempotence

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        with Admin(bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        with Producer(
            bootstrap_servers, compression_type=codec, linger_ms=5, enable_idempotence=self._enable_idempotence
        ) as producer:
            futures = [
                producer.send(topic, record.value, record.key, record.headers, record.partition) for record in records
            ]
            producer.flush()
            for future in futures:
                future.result(0)

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterator[ReadRecord]:
        with Consumer(bootstrap_servers, auto_offset_reset="none") as consumer:
            consumer.assign(TopicPartition(topic, partition) for partition in offsets)
            for partition, offset in offsets.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            while count > 0:
                records = consumer.poll(10_000)
                assert records, f"{count} records are missing"
                count -= len(records)
                for record in records:
                    headers = tuple((name, value or b"") for name, value in record.headers)
                    yield ReadRecord(record.partition, record.offset, record.key, record.value or b"", headers)
