"""The producers whose transaction was aborted, at the batch that a reader of committed records has reached.

Made by CompletedFetch and FetchedBatches for an answer that lists aborted transactions; owned by the thread that reads
the answer; no lock. Kafka: CompletedFetch.abortedProducerIds.

The broker lists aborted transactions with their first offsets. A producer is aborting from there until its marker: its
batches in between are left out, and later ones belong to its next transaction. For example, producer 7 aborted the
transaction that begins at offset 10, and its marker has offset 14. Its batches at 10 and 12 are left out; its batch at
15 is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch


class AbortedProducers:
    """The aborted transactions of one answer. Each batch is passed to it in the order of the log."""

    __slots__ = ("_aborting", "_transactions")

    def __init__(self, transactions: Iterable[FetchResponse.AbortedTransaction]) -> None:
        self._transactions = deque(sorted(transactions, key=lambda each: each.first_offset))
        """The transactions that begin behind the current batch."""
        self._aborting: set[int] = set()

    def has_batch(self, batch: RecordBatch | LegacyBatch) -> bool:
        """Return whether the batch belongs to a transaction that was aborted (Kafka: isBatchAborted)."""
        while self._transactions and self._transactions[0].first_offset <= batch.last_offset:
            self._aborting.add(self._transactions.popleft().producer_id)
        return isinstance(batch, RecordBatch) and batch.is_transactional and batch.producer_id in self._aborting

    def pass_marker(self, batch: RecordBatch | LegacyBatch) -> None:
        """Pass the end of a transaction: later batches of its producer belong to another transaction."""
        if isinstance(batch, RecordBatch):
            # The transaction may have had no batch in this answer: it has to be moved to `_aborting` first.
            self.has_batch(batch)
            self._aborting.discard(batch.producer_id)
