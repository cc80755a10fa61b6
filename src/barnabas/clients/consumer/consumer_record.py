"""A record as the consumer returns it. Immutable."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.records.v2.walk import Header


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_type`: 0 for the producer's time, 1 for the broker's. `timestamp_ms`: -1 for none.

    `key` and `value` are bytes, or what the consumer's deserializers make of them; None for a null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()
