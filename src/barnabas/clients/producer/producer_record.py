"""A record before it is appended to a batch. Immutable.

Made by `Producer.send` on the user's thread, once its partition's metadata is known; read under the accumulator's lock.
Kafka: ProducerRecord.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from barnabas.clients.producer.record_metadata import DeliveryCallback
from barnabas.records.record_batch import Buffer

Headers: TypeAlias = Sequence[tuple[str, Buffer | None]]


class ProducerRecord(NamedTuple):
    """A record without its topic. `size`: the largest number of bytes that it takes in a batch, uncompressed."""

    timestamp_ms: int
    key: Buffer | None
    value: Buffer | None
    headers: Headers
    size: int
    callback: DeliveryCallback | None = None
