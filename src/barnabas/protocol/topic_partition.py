"""Names of a partition: by topic name, and by topic id.

Immutable tuples, used as dictionary keys on every thread.
"""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Kafka's form, also the name of the log directory: `topic-0`."""
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id (16 bytes), which a topic that is deleted and created again doesn't share."""

    topic_id: bytes
    partition: int
