"""Results of the admin client: log directories with their replicas, and the producers of a partition. Immutable.

Kafka: LogDirDescription, ReplicaInfo, ProducerState.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `size` in bytes, `offset_lag` in records. `is_future`: it is being moved here."""

    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker. The bytes of its file system are -1 from brokers that do not send them."""

    path: str
    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ProducerState(NamedTuple):
    """An idempotent producer that a partition remembers. -1: no value. `last_timestamp_ms`: that of its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_transaction_start_offset: int
