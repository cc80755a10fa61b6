"""A record before it is appended to a batch, and its place in the topic afterwards. Immutable.

A ProducerRecord is made by `Producer.send` on the user's thread, once its partition's metadata is known, and read under
the accumulator's lock. Kafka: ProducerRecord, RecordMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.records.compression import Buffer

_TIMESTAMP_END = 1 << 63

Headers: TypeAlias = Sequence[tuple[str, Buffer | None]]


class RecordMetadata(NamedTuple):
    """The partition and offset of a record, which the future of `Producer.send` yields. `offset` is -1 with acks=0.

    Sizes are bytes, -1 for null. `timestamp_ms` is the broker's if the topic has message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key_size: int = -1
    value_size: int = -1


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]
"""A user's function. The sending thread calls it once for each record, with the metadata or the error."""


class ProducerRecord(NamedTuple):
    """A record without its topic. `size`: the largest number of bytes that it takes in a batch, uncompressed."""

    timestamp_ms: int
    key: Buffer | None
    value: Buffer | None
    headers: Headers
    size: int
    callback: DeliveryCallback | None = None


def check_partition(partition: int) -> None:
    """Check the partition that a user gives. Raises ValueError below 0."""
    if partition < 0:
        raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative.")


def check_timestamp(timestamp_ms: int) -> None:
    """Check the time that a user gives, in milliseconds since the epoch. Raises ValueError outside of 63 bits."""
    if not 0 <= timestamp_ms < _TIMESTAMP_END:
        raise ValueError(f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative.")
