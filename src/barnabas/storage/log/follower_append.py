"""A follower's append: whole batches, with the offsets and epochs that the leader gave them.

Called by `UnifiedLog.append_as_follower` on a fetcher's thread; takes the log's lock for all that changes the log.
Kafka: UnifiedLog.appendAsFollower.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import NO_PRODUCER_ID, RecordBatch
from barnabas.runtime.files import Buffer
from barnabas.storage.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from barnabas.storage.log_append_info import LogAppendInfo
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.append import TransactionEnd

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

Batch = RecordBatch | LegacyBatch


def append_as_follower(log: UnifiedLog, records: Buffer) -> LogAppendInfo:
    """See `UnifiedLog.append_as_follower`."""
    batches = _checked_batches(records, log.topic_partition)
    if not batches:
        return LogAppendInfo(-1, -1, -1, -1, log.log_start_offset, 0, 0)
    view = memoryview(records)
    # A compressed message of an old format says where it ends only; Kafka compares that.
    first = batches[0].base_offset if isinstance(batches[0], RecordBatch) else batches[0].last_offset
    last = batches[-1].last_offset
    with log.lock:
        log.refuse_if_closed()
        end_offset = log.log_end_offset
        if first < end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {log.topic_partition}. First offset {first} is less than the"
                f" next offset {end_offset}",
                first,
                last,
            )
        try:
            for batch in batches:
                _append(log, batch, view[batch.position : batch.end])
        except OSError as error:
            log.failures.fail("appending records as follower", error)
        max_timestamp = max(batch.max_timestamp for batch in batches)
        count = sum(batch.count if isinstance(batch, RecordBatch) else 1 for batch in batches)
        return LogAppendInfo(first, last, max_timestamp, -1, log.log_start_offset, batches[-1].end, count)


def _checked_batches(records: Buffer, topic_partition: TopicPartition) -> list[Batch]:
    try:
        batches = list(any_batches(records))
        for batch in batches:
            batch.check()
    except CorruptRecord as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {topic_partition}") from None
    if any(later.last_offset <= earlier.last_offset for earlier, later in pairwise(batches)):
        raise OffsetsOutOfOrder(f"Out of order offsets found in append to {topic_partition}")
    return batches


def _append(log: UnifiedLog, batch: Batch, data: memoryview) -> None:
    local = log.local
    size = len(data)
    if size > local.config.segment_bytes:
        raise log.failures.segment_too_small(size)
    if isinstance(batch, RecordBatch):
        first, last = batch.base_offset, batch.last_offset
        if batch.partition_leader_epoch > log.leader_epochs.latest_epoch:
            log.assign_epoch_start_offset(batch.partition_leader_epoch, first)
        max_timestamp = batch.max_timestamp
    else:
        legacy = next(iter(any_batches(data)))
        first = last = legacy.last_offset
        max_timestamp = legacy.max_timestamp
        log.leader_epochs.clear()
    if local.must_roll(size, max_timestamp, last):
        log.roll(first)
    if isinstance(batch, RecordBatch) and batch.producer_id != NO_PRODUCER_ID:
        _append_of_producer(log, batch, data)
    else:
        local.append((data,), size, first, last, max_timestamp)


def _append_of_producer(log: UnifiedLog, batch: RecordBatch, data: memoryview) -> None:
    """Append a batch whose producer's state changes with it; an aborted transaction goes into the index first."""
    local = log.local
    segment = local.segments.active
    states = log.producer_states.make_states()
    try:
        marker, completed = states.check_stored(batch)
    except CorruptRecord as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {log.topic_partition}") from None
    end = TransactionEnd(states, marker, completed) if marker is not None else None
    place = LogOffsetMetadata(batch.base_offset, segment.base_offset, segment.size)
    try:
        if end is not None:
            end.enter(segment)
        local.append((data,), len(data), batch.base_offset, batch.last_offset, batch.max_timestamp)
    except OSError:
        if end is not None:
            end.withdraw(segment)
        raise
    began = states.add_stored(batch, place, marker)
    if completed is not None:
        states.complete(completed)
    if began or end is not None:
        log.update_first_unstable_offset()
