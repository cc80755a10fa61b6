"""The place of a record in its topic, which the future of `Producer.send` yields. Immutable. Kafka: RecordMetadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class RecordMetadata(NamedTuple):
    """The partition and offset of a record. `offset` is -1 with acks=0. Sizes are bytes, -1 for null.

    `timestamp_ms` is the broker's if the topic has message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key_size: int = -1
    value_size: int = -1


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]
"""A user's function. The sending thread calls it once for each record, with the metadata or the error."""
