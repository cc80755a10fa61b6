"""The records that an asyncio consumer has read, and not yet handed to a task.

The consumer's thread adds records and asks for offsets; the loop takes records. One lock guards the records.

What is here was read by the core, whose positions lie behind it. So whatever needs the position as the user sees it
asks here first: a partition's position is the offset of its first record here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.protocol.topic_partition import TopicPartition


class RecordBuffer:
    """Records in the order in which they were read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: deque[ConsumerRecord] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Iterable[ConsumerRecord]) -> None:
        """Add records that were read."""
        with self._lock:
            self._records.extend(records)

    def take_one(self) -> ConsumerRecord | None:
        """Remove and return the first record, or None."""
        with self._lock:
            return self._records.popleft() if self._records else None

    def take(self, limit: int | None) -> list[ConsumerRecord]:
        """Remove and return the first `limit` records, or all."""
        with self._lock:
            if limit is None or limit >= len(self._records):
                taken = list(self._records)
                self._records.clear()
                return taken
            return [self._records.popleft() for _ in range(limit)]

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Forget the records of a partition, or all."""
        with self._lock:
            kept = (
                [] if topic_partition is None else [each for each in self._records if _place(each) != topic_partition]
            )
            self._records = deque(kept)

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that has some here."""
        with self._lock:
            return self._first_offsets()

    def give_back(self) -> dict[TopicPartition, int]:
        """Forget all records. Returns the offsets of the first ones by partition, at which to read again."""
        with self._lock:
            offsets = self._first_offsets()
            self._records.clear()
            return offsets

    def _first_offsets(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for record in self._records:
            found.setdefault(_place(record), record.offset)
        return found


def _place(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
