"""The consumer: `Consumer`, its settings, its results and errors; `RawFetcher` for batches as they lie in logs."""

from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp
from barnabas.clients.calls.raw_fetcher import FetchedRecords, RawFetcher
from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_config import ConsumerConfig, ConsumerInterceptor
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.consumer_settings import ConsumerSettings
from barnabas.clients.consumer.fetch_table import FetchTableSettings, fetch_table
from barnabas.clients.consumer.subscription_state import RebalanceListener, SubscriptionPattern
from barnabas.clients.errors import (
    ClientClosed,
    ClientTimeout,
    CommitFailed,
    Disconnected,
    LogTruncation,
    RecordDeserializationError,
    RetriableCommitFailed,
    WokenUp,
)
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.topic_partition import TopicPartition

__all__ = [
    "ClientClosed",
    "ClientTimeout",
    "CommitFailed",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "ConsumerSettings",
    "Disconnected",
    "FetchTableSettings",
    "FetchedRecords",
    "LogTruncation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionAssignor",
    "RawFetcher",
    "RebalanceListener",
    "RecordDeserializationError",
    "RetriableCommitFailed",
    "SubscriptionPattern",
    "TopicPartition",
    "WokenUp",
    "fetch_table",
]
