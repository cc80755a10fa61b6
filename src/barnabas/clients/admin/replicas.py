"""What brokers tell of the replicas they hold: log directories, and the producers a partition remembers. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `size`: bytes; `offset_lag`: records it is behind; `is_future`: on its way here."""

    size: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker. Bytes of its file system are -1 where the broker doesn't tell."""

    path: str
    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ProducerState(NamedTuple):
    """An idempotent producer that a partition remembers; -1 is none. `last_timestamp_ms`: of its newest batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    current_transaction_start_offset: int
