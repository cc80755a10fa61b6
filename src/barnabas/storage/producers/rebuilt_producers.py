"""Rebuilds a log's producer state from the newest snapshot and the batches behind it: at start, and after truncations.

Called by `log.loader` and `log.log_recovery` on the loading thread, and by `log.truncation` under the log's lock. Reads
headers, and the records of control batches only.
Kafka: UnifiedLog.rebuildProducerState, loadProducersFromRecords.
"""

from __future__ import annotations

import logging

from barnabas.protocol.errors import ApiError
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import NO_PRODUCER_ID, RecordBatch
from barnabas.storage.errors import is_shortage
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.producer_states import CompletedTransaction
from barnabas.storage.producers.state_manager import ProducerStateManager
from barnabas.storage.segment.batch_scan import scan_batches
from barnabas.storage.segment.log_segment import LogSegment
from barnabas.storage.segment.log_segments import LogSegments
from barnabas.storage.segment.recovered_batches import Batch
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry

logger = logging.getLogger(__name__)


def rebuild_producer_state(
    manager: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: int,
    end_offset: int,
    *,
    after_clean_shutdown: bool = False,
) -> None:
    """Make the state reflect the log up to `end_offset`. Raises OSError.

    A log that was closed in order and has no snapshot was written by a broker that makes none: it is not read for its
    producers. A log whose producers were all without ids is not read either.
    """
    # Worked example: segments begin at 0, 100 and 200, the log ends at 250, and the newest snapshot is that of 100. It
    # is loaded; the batches from 100 to 199 are read; a snapshot is taken at 200; the batches from 200 on are read; a
    # snapshot is taken at 250. A truncation into the last segment reads that one segment only.
    wanted = _wanted_snapshots(segments, end_offset)
    if after_clean_shutdown and not manager.snapshots:
        for offset in wanted:
            take_optional_snapshot(manager, offset)
        manager.end_offset = end_offset
        return
    had_no_state = manager.is_empty and manager.end_offset >= end_offset
    manager.truncate_and_reload(log_start_offset, end_offset)
    if end_offset > manager.end_offset and not had_no_state:
        for segment in segments.values(manager.end_offset, end_offset):
            start = max(segment.base_offset, manager.end_offset, log_start_offset)
            manager.end_offset = start
            if segment.base_offset in wanted and segment.base_offset == start:
                take_optional_snapshot(manager, start)
            _read_segment(manager, segment, start, end_offset)
    take_optional_snapshot(manager, end_offset)


def take_optional_snapshot(manager: ProducerStateManager, end_offset: int) -> None:
    """Take a snapshot that only saves the next start some reading. A full disk is logged. Raises other OSErrors."""
    try:
        manager.take_snapshot(end_offset, sync=False)
    except OSError as error:
        if not is_shortage(error):
            raise
        logger.warning("No room for a producer snapshot of %s at %d: %s", manager.partition, end_offset, error)


def _wanted_snapshots(segments: LogSegments, end_offset: int) -> list[int]:
    """Return where snapshots are due: at the last two segments and the end, for the next truncation or recovery."""
    bases = [segment.base_offset for segment in segments.all()[-2:]]
    return [offset for offset in (*bases, end_offset) if offset <= end_offset]


def _read_segment(manager: ProducerStateManager, segment: LogSegment, start: int, end_offset: int) -> None:
    """Update the state with the batches of a segment between the offsets, up to any damage. Raises OSError."""
    place = segment.translate_offset(start)
    if place is None:
        return
    try:
        for batch in scan_batches(segment.file, place.position, segment.size):
            if batch.base_offset >= end_offset:
                return
            load_batch(manager, batch)
    except CorruptRecord as error:
        logger.warning("Producer state of %s: %s, in segment %d", manager.partition, error, segment.base_offset)


def load_batch(manager: ProducerStateManager, batch: Batch) -> AbortedTransactionEntry | None:
    """Update the state with a stored batch; return the entry of the transaction that it aborts, if it does.

    A batch that contradicts the state is logged and not rejected: it was accepted once, and is in the log.
    """
    manager.end_offset = batch.last_offset + 1
    if not isinstance(batch, RecordBatch) or batch.producer_id == NO_PRODUCER_ID:
        return None
    states = manager.make_states()
    marker: EndTransactionMarker | None = None
    completed: CompletedTransaction | None = None
    try:
        marker, completed = states.check_stored(batch)
    except (ApiError, CorruptRecord) as error:
        logger.warning("Producer state of %s: %s", manager.partition, error)
    states.add_stored(batch, LogOffsetMetadata(batch.base_offset), marker)
    if completed is None:
        return None
    last_stable_offset = states.last_stable_offset(completed)
    states.complete(completed)
    if not completed.is_aborted:
        return None
    return AbortedTransactionEntry(*completed[:3], last_stable_offset)
