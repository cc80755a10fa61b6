"""What belongs to one transaction: its partitions, and whether the coordinator knows of it.

Owned by `TransactionManager`, whose lock guards everything but `added`, which is the sending thread's alone.
Kafka: fields of TransactionManager.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition


class CurrentTransaction:
    """One transaction, from `begin_transaction` to the answer of EndTxn."""

    __slots__ = ("_known", "_new", "added", "is_started", "needs_new_epoch")

    def __init__(self) -> None:
        self._known: set[TopicPartition] = set()
        self._new: list[TopicPartition] = []
        self.added: set[TopicPartition] = set()
        """The partitions that the coordinator has put into the transaction: their batches may be sent."""
        self.is_started = False
        """Whether the coordinator knows of the transaction, which then has to be ended."""
        self.needs_new_epoch = False
        """Whether a numbered batch was lost, or the coordinator forgot the producer: raise the epoch at the end."""

    def register(self, topic_partition: TopicPartition) -> bool:
        """Note that a batch was begun for the partition. Returns whether the partition is new in the transaction."""
        if topic_partition in self._known:
            return False
        self._known.add(topic_partition)
        self._new.append(topic_partition)
        return True

    def take_new(self) -> list[TopicPartition]:
        """Return the registered partitions for which no request was made, and forget them."""
        new, self._new = self._new, []
        return new
