"""The name of a partition: an immutable tuple, used as dictionary key on every thread.

Kafka: TopicPartition.
"""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return Kafka's form, which is also the name of the log directory: `topic-0`."""
        return f"{self.topic}-{self.partition}"
