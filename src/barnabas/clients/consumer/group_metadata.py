"""The identity of a consumer in its group, for requests that other clients send in the consumer's name. Immutable.

A transactional producer commits a consumer's offsets with it. Kafka: ConsumerGroupMetadata.
"""

from __future__ import annotations

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """The identity of one consumer. `generation_id` is -1 and `member_id` "" until it has joined a generation."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
