"""The producer state in a leader's append: checked before the batch is written, updated afterwards.

Called by `UnifiedLog.append_as_leader` for batches with a producer id, under the log's lock. An aborted transaction is
entered into the index before its marker is written: if either write fails, nothing has changed and the coordinator
tries again. Kafka: UnifiedLog.analyzeAndValidateProducerState.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import CONTROL_MASK, BatchHeader, RecordBatch
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin, LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.entry import BatchMetadata
from barnabas.storage.producers.producer_states import CompletedTransaction, ProducerStates
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

logger = logging.getLogger(__name__)

_OF_TRANSACTIONS: Final = 0x30
"""A marker, or data of a transaction."""


class TransactionEnd:
    """A marker that is being appended, and the transaction that it ends (None: it wrote nothing to this partition)."""

    __slots__ = ("_states", "completed", "marker")

    def __init__(
        self, states: ProducerStates, marker: EndTransactionMarker, completed: CompletedTransaction | None
    ) -> None:
        self._states = states
        self.marker = marker
        self.completed = completed

    # The entry comes before the marker. If the broker dies in between, the recovery rebuilds the index from the
    # batches, where there is no marker, and the coordinator sends it again. The other way round, a reader could find a
    # marker whose transaction no index calls aborted, and would return its records.

    def enter(self, segment: LogSegment) -> None:
        """Enter the transaction into the segment's index if it is aborted. Raises OSError."""
        completed = self.completed
        if completed is not None and completed.is_aborted:
            entry = AbortedTransactionEntry(*completed[:3], self._states.last_stable_offset(completed))
            segment.indexes.transactions.append(entry)

    def withdraw(self, segment: LogSegment) -> None:
        """Remove the entry again: the marker could not be written."""
        completed = self.completed
        if completed is not None and completed.is_aborted:
            try:
                segment.indexes.transactions.truncate_to(completed.last_offset)
            except OSError:
                logger.exception("Could not take back the last entry of %s", segment.indexes.transactions.path)


def check_producer(
    states: ProducerStates, header: BatchHeader, records: Buffer, offset: int, origin: AppendOrigin
) -> BatchMetadata | TransactionEnd | None:
    """Check whether a batch may be appended at `offset`; return the batch that it repeats, or the transaction's end.

    Raises ApiError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE,
    TRANSACTION_COORDINATOR_FENCED, INVALID_RECORD for a control batch that is no marker.
    """
    # One test for both: a batch that is part of no transaction pays nothing for those that are.
    if not header.attributes & _OF_TRANSACTIONS:
        return states.check_data(header, offset, origin)
    if not header.attributes & CONTROL_MASK:
        return states.check_transactional_data(header, offset, origin)
    try:
        marker = EndTransactionMarker.of(RecordBatch(records))
    except CorruptRecord as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
    if marker is None:
        return None
    return TransactionEnd(
        states, marker, states.check_marker(header.producer_id, header.producer_epoch, marker, offset, origin)
    )


def duplicate_append_info(known: BatchMetadata, log_start_offset: int, size: int, count: int) -> LogAppendInfo:
    """Return the answer for a batch that is in the log already. The append time is the batch's, as in Kafka."""
    time = known.timestamp
    return LogAppendInfo(
        known.first_offset, known.last_offset, time, time, log_start_offset, size, count, is_duplicate=True
    )


def note_append(
    states: ProducerStates,
    header: BatchHeader,
    place: LogOffsetMetadata,
    last_offset: int,
    max_timestamp: int,
    end: TransactionEnd | None,
) -> bool:
    """Note that the batch is in the log, at `place`; True when the first unstable offset may have changed."""
    if not header.attributes & CONTROL_MASK:
        return states.add_data(header, place, last_offset, max_timestamp)
    if end is None:
        return False
    states.add_marker(header.producer_id, header.producer_epoch, end.marker)
    if end.completed is not None:
        states.complete(end.completed)
    return True
