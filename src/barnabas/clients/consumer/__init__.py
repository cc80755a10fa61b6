"""The consumer: `Consumer`, its settings, what it returns; `RawFetcher` for batches as they lie in the log."""

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_config import ConsumerConfig, ConsumerSettings
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.raw_fetcher import FetchedRecords, RawFetcher
from barnabas.clients.errors import ClientClosed, ClientTimeout, Disconnected
from barnabas.clients.offset_lookup import OffsetAndTimestamp
from barnabas.protocol.topic_partition import TopicPartition

__all__ = [
    "ClientClosed",
    "ClientTimeout",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "ConsumerSettings",
    "Disconnected",
    "FetchedRecords",
    "OffsetAndTimestamp",
    "RawFetcher",
    "TopicPartition",
]
