"""A record that a simulated producer has sent. Used by test_deliveries.py and test_transaction_deliveries.py."""

from __future__ import annotations

from concurrent.futures import Future

from barnabas.clients.producer.producer_record import RecordMetadata
from barnabas.protocol.topic_partition import TopicPartition


class Delivery:
    """The record, its future and the number of calls of its callback."""

    def __init__(self, partition: TopicPartition, value: bytes) -> None:
        self.partition = partition
        self.value = value
        self.callbacks = 0
        self.future: Future[RecordMetadata] = Future()

    def on_delivery(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        assert (metadata is None) != (error is None)
        self.callbacks += 1
