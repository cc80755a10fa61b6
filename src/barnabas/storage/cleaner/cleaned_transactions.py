"""The transactions that are open at the batch that the cleaner reads, and the batches of theirs that may go. Pure.

Owned by one cleaning, in the cleaner's process. Decides when transaction markers can be dropped, and so also which
aborted transactions the cleaned segment's `.txnindex` still lists. Kafka: CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from barnabas.records.record_batch import ControlRecord, RecordBatch
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

ABORT = 0
COMMIT = 1


# Worked example: producer 7 writes a batch at 10, aborts at 20 (a marker), writes a batch at 30 and commits at 40. The
# `.txnindex` lists (7, 10 to 20). At batch 10 the transaction counts as open and aborted, so the batch's records go;
# the marker at 20 stays, because a batch of it was there, and its entry goes into the new index. Batch 30 and the
# marker at 40 stay. In the next cleaning nothing is left between 10 and 20: the marker at 20 gets a delete horizon, and
# later goes.


class CleanedTransactions:
    """The open transactions, updated batch by batch in the order of offsets.

    on_kept_abort: called with each aborted transaction whose marker stays, because it still has batches.
    """

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "_with_batches", "on_kept_abort")

    def __init__(self, on_kept_abort: Callable[[AbortedTransactionEntry], None] = lambda _aborted: None) -> None:
        self.on_kept_abort = on_kept_abort
        self._aborted: list[tuple[int, AbortedTransactionEntry]] = []  # a heap by first offset
        self._ongoing_aborted: dict[int, AbortedTransactionEntry] = {}
        self._ongoing_committed: set[int] = set()
        self._with_batches: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransactionEntry]) -> None:
        """Add aborted transactions that overlap the next segment; some may have been added before."""
        for transaction in transactions:
            heapq.heappush(self._aborted, (transaction.first_offset, transaction))

    def on_control_batch(self, batch: RecordBatch) -> bool:
        """Take in a control batch; True if it may go.

        A marker goes when its transaction has no batch left. Markers of unknown kinds stay. Raises CorruptRecord.
        """
        self._begin_aborted(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            # An earlier cleaning has emptied the batch.
            return True
        kind = ControlRecord.parse(record.key).type
        producer_id = batch.producer_id
        if kind == ABORT:
            aborted = self._ongoing_aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._with_batches:
                return True
            self._with_batches.discard(producer_id)
            self.on_kept_abort(aborted)
            return False
        if kind == COMMIT:
            had_batches = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not had_batches
        return False

    def on_batch(self, batch: RecordBatch) -> bool:
        """Take in a batch of records; True if its transaction was aborted, so that its records go."""
        if self._aborted:
            self._begin_aborted(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._ongoing_aborted:
            self._with_batches.add(batch.producer_id)
            return True
        self._ongoing_committed.add(batch.producer_id)
        return False

    def _begin_aborted(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            transaction = heapq.heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)
