"""A follower's append: whole batches, with the offsets and epochs that the leader gave them.

Called by `UnifiedLog.append_as_follower` on a fetcher's thread: `checked_batches` without a lock, `append_batches`
under the log's lock. Kafka: UnifiedLog.appendAsFollower.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import NO_PRODUCER_ID, RecordBatch
from barnabas.runtime.files import Buffer
from barnabas.storage.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from barnabas.storage.log.failures import fail, segment_too_small
from barnabas.storage.log.state import LogState
from barnabas.storage.log_append_info import LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.append import TransactionEnd
from barnabas.storage.segment.batch_scan import Batch


def checked_batches(records: Buffer, topic_partition: TopicPartition) -> list[Batch]:
    """Return the batches of a leader's answer, each with a checksum that is right.

    Raises ApiError: CORRUPT_MESSAGE when a batch is damaged. Raises OffsetsOutOfOrder.
    """
    try:
        batches = list(any_batches(records))
        for batch in batches:
            batch.check()
    except CorruptRecord as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {topic_partition}") from None
    if len(batches) > 1 and any(later.last_offset <= earlier.last_offset for earlier, later in pairwise(batches)):
        raise OffsetsOutOfOrder(f"Out of order offsets found in append to {topic_partition}")
    return batches


def append_batches(state: LogState, batches: Sequence[Batch], records: Buffer) -> LogAppendInfo:
    """Append the batches of `records` one by one; a disk error leaves those before it in the log.

    Raises UnexpectedAppendOffset when the first batch begins below the log end offset. Raises ApiError:
    KAFKA_STORAGE_ERROR, RECORD_LIST_TOO_LARGE when a batch is larger than a segment may be, CORRUPT_MESSAGE when a
    control batch holds no control record.
    """
    if state.is_closed:
        state.refuse_if_closed()
    view = memoryview(records)
    # A compressed message of an old format says where it ends only; Kafka compares that offset.
    first = batches[0].base_offset if isinstance(batches[0], RecordBatch) else batches[0].last_offset
    end_offset = state.local.end.message_offset
    if first < end_offset:
        raise UnexpectedAppendOffset(
            f"Unexpected offset in append to {state.local.topic_partition}. First offset {first} is less than the"
            f" next offset {end_offset}",
            first,
            batches[-1].last_offset,
        )
    end = last = count = 0
    max_timestamp = batches[0].max_timestamp
    try:
        if not state.is_ready:
            state.prepare_append()
        for batch in batches:
            end = batch.end
            last = _append(state, batch, view[batch.position : end])
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            count += batch.count if isinstance(batch, RecordBatch) else 1
    except OSError as error:
        fail(state.local, "appending records as follower", error)
    return LogAppendInfo(first, last, max_timestamp, -1, state.bounds.start, end, count)


def _append(state: LogState, batch: Batch, data: memoryview) -> int:
    """Append one batch; return its last offset.

    Raises OSError. Raises ApiError: RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE.
    """
    local = state.local
    size = len(data)
    if size > local.config.segment_bytes:
        raise segment_too_small(local, size)
    if isinstance(batch, RecordBatch):
        first, last = batch.base_offset, batch.last_offset
        if batch.partition_leader_epoch > state.leader_epochs.latest_epoch:
            state.assign_epoch(batch.partition_leader_epoch, first)
        max_timestamp = batch.max_timestamp
    else:
        legacy = next(iter(any_batches(data)))
        first = last = legacy.last_offset
        max_timestamp = legacy.max_timestamp
        # Old formats have no epochs. Entries from before such a batch would give its offsets an epoch that nothing in
        # the batch confirms.
        state.leader_epochs.clear()
    if local.must_roll(size, max_timestamp, last):
        # At the batch's own offset: in a compacted log it may lie far behind the end.
        state.roll(first)
    if isinstance(batch, RecordBatch) and batch.producer_id != NO_PRODUCER_ID:
        _append_of_producer(state, batch, data, last)
    else:
        local.append((data,), size, first, last, max_timestamp)
    return last


def _append_of_producer(state: LogState, batch: RecordBatch, data: memoryview, last: int) -> None:
    """Append a batch that changes its producer's state; an aborted transaction goes into the index first.

    Raises OSError. Raises ApiError: CORRUPT_MESSAGE when a control batch holds no control record.
    """
    local = state.local
    segment = local.segments.active
    states = state.producers.states or state.producers.make_states()
    try:
        marker, completed = states.check_stored(batch)
    except CorruptRecord as error:
        text = f"{error} in topic partition {local.topic_partition}"
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, text) from None
    end = TransactionEnd(states, marker, completed) if marker is not None else None
    place = LogOffsetMetadata(batch.base_offset, segment.base_offset, segment.size)
    # The index entry before the marker: a reader that sees the marker must find the transaction among the aborted ones.
    try:
        if end is not None:
            end.enter(segment)
        local.append((data,), len(data), batch.base_offset, last, batch.max_timestamp)
    except OSError:
        if end is not None:
            end.withdraw(segment)
        raise
    began = states.add_stored(batch, place, marker)
    if completed is not None:
        states.complete(completed)
    if began or end is not None:
        state.update_first_unstable_offset()
