"""What belongs to one transaction: its partitions, and whether the coordinator knows of it.

Owned by `TransactionManager`, whose lock guards everything but `may_send_to`, which is the sending thread's alone.
Kafka: fields of TransactionManager.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.protocol.topic_partition import TopicPartition


class CurrentTransaction:
    """One transaction, from `begin_transaction` to the answer of EndTxn.

    is_version_2: its batches and offsets add their partitions, and its end raises the epoch (KIP-890,
    `transaction.version` 2). Else AddPartitionsToTxn and AddOffsetsToTxn go first, and the epoch stays.
    """

    __slots__ = ("_added", "_known", "_new", "is_started", "is_version_2", "needs_new_epoch")

    def __init__(self, *, is_version_2: bool) -> None:
        self.is_version_2 = is_version_2
        self._known: set[TopicPartition] = set()
        self._new: list[TopicPartition] = []
        self._added: set[TopicPartition] = set()
        self.is_started = False
        """Whether the coordinator knows of the transaction, or may know of it: then it has to be ended."""
        self.needs_new_epoch = False
        """Whether a numbered batch was lost, or the coordinator forgot the producer: raise the epoch at the end."""

    def register(self, topic_partition: TopicPartition) -> None:
        """Note that a batch was begun for the partition."""
        if self.is_version_2:
            # From now on the batch may reach the partition's leader at any time.
            self.is_started = True
        elif topic_partition not in self._known:
            self._known.add(topic_partition)
            self._new.append(topic_partition)

    def take_new(self) -> list[TopicPartition]:
        """Return the registered partitions that AddPartitionsToTxn has to name, and forget them."""
        new, self._new = self._new, []
        return new

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has put the partitions into the transaction."""
        self._added.update(partitions)
        self.is_started = True

    def may_send_to(self, topic_partition: TopicPartition) -> bool:
        """Return whether batches of the partition may be sent."""
        return self.is_version_2 or topic_partition in self._added
