"""Who a consumer is in its group, as others may have to tell the coordinator (Kafka: ConsumerGroupMetadata).

A transactional producer commits a consumer's offsets under this name. Immutable.
"""

from __future__ import annotations

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """`generation_id` -1 and `member_id` "" as long as the consumer has joined no generation."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
