"""Where a record went: what the future of `Producer.send` yields. Immutable."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class RecordMetadata(NamedTuple):
    """`offset` is -1 with acks=0; sizes are bytes, -1 for null; `timestamp_ms` is the log's if that stamps records."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key_size: int = -1
    value_size: int = -1


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]
"""Called once per record on the sending thread: where it went, or why it did not."""
