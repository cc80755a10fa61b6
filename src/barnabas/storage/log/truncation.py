"""Cutting the end off a log, or all of it: what a follower does whose leader has other batches.

Called by `UnifiedLog.truncate_to` and `truncate_fully_and_start_at`, under the log's lock. Checkpoints that the
truncation makes too large are lowered on disk first: otherwise a crash would take what is appended afterwards for
flushed, and not check it. Kafka: UnifiedLog.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.producers.rebuild import rebuild_producer_state

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)


def truncate_to(log: UnifiedLog, offset: int, environment: LogEnvironment) -> bool:
    """See `UnifiedLog.truncate_to`."""
    local = log.local
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    logger.info("Truncating %s to offset %d", log.topic_partition, offset)
    if offset < local.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset, None, environment)
        return True
    end_offset = local.batch_start(offset)
    _lower_checkpoints(log, end_offset, end_offset, environment)
    try:
        producers = log.producer_states
        producers.end_offset = log.log_end_offset
        producers.delete_snapshots_above(end_offset)  # the truncation syncs the directory
        deleted = local.truncate_to(offset)
        log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
        rebuild_producer_state(producers, local.segments, log.log_start_offset, log.log_end_offset, environment)
    except OSError as error:
        log.failures.fail("truncating the log", error)
    logger.debug("Truncation deleted %d segments", len(deleted))
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    if log.high_watermark >= log.log_end_offset:
        log.raise_high_watermark_to_end()
    log.update_first_unstable_offset()
    return True


def truncate_fully_and_start_at(
    log: UnifiedLog, offset: int, log_start_offset: int | None, environment: LogEnvironment
) -> None:
    """See `UnifiedLog.truncate_fully_and_start_at`."""
    _lower_checkpoints(log, offset, offset, environment)
    try:
        log.local.truncate_fully_and_start_at(offset)
        log.producer_states.truncate_fully_and_start_at(offset)
        environment.files.sync_dir(log.directory)
    except OSError as error:
        log.failures.fail("truncating the whole log", error)
    log.leader_epochs.clear()
    log.log_start_offset = offset if log_start_offset is None else log_start_offset
    log.raise_high_watermark_to_end()
    log.update_first_unstable_offset()


def _lower_checkpoints(
    log: UnifiedLog, recovery_point: int, log_start_offset: int, environment: LogEnvironment
) -> None:
    """Write smaller checkpoints where the ones on disk may be larger."""
    lower_start = log_start_offset < log.log_start_offset
    if lower_start:
        log.log_start_offset = log_start_offset
    if log.local.lower_recovery_point(recovery_point) or lower_start:
        try:
            environment.write_checkpoints(log.parent_dir)
        except OSError as error:
            log.failures.fail("writing checkpoints", error)
