"""A transaction whose end is decided and stored, and whose markers are being written.

Made by TransactionService and by loading; owned by MarkerDispatch. Kafka: PendingCompleteTxn.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.coordinator.transaction.entry import TransactionEntry
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.protocol.topic_partition import TopicPartition


@dataclass(eq=False, slots=True)
class EndedTransaction:
    """One transaction. decided: the metadata that say its end. waiting: the partitions without a marker."""

    entry: TransactionEntry
    decided: TransactionMetadata
    waiting: set[TopicPartition] = field(default_factory=set)

    @classmethod
    def of(cls, entry: TransactionEntry) -> EndedTransaction:
        """Return the transaction of an entry whose end is stored. The caller holds the entry's lock."""
        return cls(entry, entry.metadata, set(entry.metadata.partitions))

    @property
    def is_commit(self) -> bool:
        """Whether its records become visible."""
        return self.decided.state is TransactionState.PREPARE_COMMIT

    def is_open(self) -> bool:
        """Return whether this broker still coordinates the transaction, and it is not complete yet."""
        with self.entry.lock:
            return not self.entry.is_removed and self.entry.metadata is self.decided
