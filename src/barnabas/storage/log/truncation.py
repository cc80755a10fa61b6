"""Cutting the end off a log, or all of it: what a follower does when its leader has other batches.

Called by UnifiedLog under the log's lock. Kafka: UnifiedLog.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

import logging
import os

from barnabas.storage.log.failures import fail
from barnabas.storage.log.state import LogState
from barnabas.storage.producers.rebuilt_producers import rebuild_producer_state

logger = logging.getLogger(__name__)


# Checkpoints that a truncation makes too large are lowered on disk before anything is cut. Worked example: the log ends
# at 100, its recovery point 90 is in the checkpoint, and it is cut at 40. Were 90 still on disk when the broker crashes
# after it has appended 40 to 95 anew, the next start would take offsets below 90 for flushed and would not check them.
#
# The order, and what a start makes of a crash behind each step:
# 1. Checkpoints are lowered: the log is as before, and more of it is checked than needed.
# 2. Producer snapshots above the cut are deleted: the state is rebuilt from an older snapshot and the batches.
# 3. Segments above the cut become `.deleted`: `log.loader` removes the files; the log ends above the cut.
# 4. The segment with the cut is truncated and synced, then the directory: from here on the truncation is durable.
# 5. Leader epochs are cut: the loader cuts them to the end of the log as well.


def truncate_to(state: LogState, offset: int) -> bool:
    """Drop everything from `offset` on; True if there was something. Raises ApiError: KAFKA_STORAGE_ERROR."""
    local, producers = state.local, state.producers
    if offset >= local.end.message_offset:
        # Nothing is cut but epochs that begin at the end of the log: they have no batch here.
        state.leader_epochs.truncate_from_end(local.end.message_offset)
        return False
    logger.info("Truncating %s to offset %d", local.topic_partition, offset)
    if offset < local.segments.first.base_offset:
        truncate_fully_and_start_at(state, offset, offset)
        return True
    end_offset = local.batch_start(offset)
    _lower_checkpoints(state, end_offset, end_offset)
    try:
        producers.end_offset = local.end.message_offset
        # The truncation syncs the directory afterwards, so this deletion needs no sync of its own.
        producers.delete_snapshots_above(end_offset)
        deleted = local.truncate_to(offset)
        state.bounds = state.bounds.cut_at(local.end)
        start_offset, end_offset = state.bounds.start, local.end.message_offset
        rebuild_producer_state(producers, local.segments, start_offset, end_offset)
    except OSError as error:
        fail(local, "truncating the log", error)
    logger.debug("Truncation deleted %d segments", len(deleted))
    state.leader_epochs.truncate_from_end(end_offset)
    state.update_first_unstable_offset()
    return True


def truncate_fully_and_start_at(state: LogState, offset: int, log_start_offset: int) -> None:
    """Drop everything; the log begins anew at `offset`. Raises ApiError: KAFKA_STORAGE_ERROR."""
    local = state.local
    _lower_checkpoints(state, offset, offset)
    try:
        local.truncate_fully_and_start_at(offset)
        state.producers.truncate_fully_and_start_at(offset)
        state.environment.files.sync_dir(local.directory)
    except OSError as error:
        fail(local, "truncating the whole log", error)
    state.leader_epochs.clear()
    state.bounds = state.bounds.with_start(log_start_offset)
    state.move_high_watermark(local.end)
    state.update_first_unstable_offset()


def _lower_checkpoints(state: LogState, recovery_point: int, log_start_offset: int) -> None:
    """Write smaller checkpoints where the ones on disk may be larger.

    The bounds change first: the checkpoints are written from what the log says of itself.
    Raises ApiError: KAFKA_STORAGE_ERROR.
    """
    local = state.local
    # A log start offset beyond the new end would make the next start of the broker delete the whole log.
    lower_start = log_start_offset < state.bounds.start
    if lower_start:
        state.bounds = state.bounds.with_start(log_start_offset)
    if local.lower_recovery_point(recovery_point) or lower_start:
        try:
            state.environment.write_checkpoints(os.path.dirname(local.directory))
        except OSError as error:
            fail(local, "writing checkpoints", error)
