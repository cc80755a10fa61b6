"""The periodic tasks over all logs: retention, flushes, checkpoints, expiry of producers.

Owned by LogManager, which schedules the tasks once all logs are loaded; they run on the scheduler's threads and take
one log's lock at a time. Kafka: LogManager.startupWithConfigOverrides, cleanupLogs, flushDirtyLogs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.protocol.errors import ApiError
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.directories.deletion import LogDeletion
from barnabas.storage.directories.offset_checkpoints import LogCheckpoints
from barnabas.storage.log_environment import LogManagerConfig
from barnabas.storage.log_table import LogTable

logger = logging.getLogger(__name__)

NEVER = 2**63 - 1


class LogTasks:
    """The tasks over the logs in `table`, current and future."""

    def __init__(
        self,
        table: LogTable,
        checkpoints: LogCheckpoints,
        deletion: LogDeletion,
        clock: Clock,
    ) -> None:
        self._table = table
        self._checkpoints = checkpoints
        self._deletion = deletion
        self._clock = clock
        self._cleaner: LogCleaner | None = None

    def schedule(
        self, scheduler: Scheduler, config: LogManagerConfig, cleaner: LogCleaner | None, leftovers: Sequence[str]
    ) -> None:
        """Have the tasks run at the intervals of `config`.

        leftovers: directories of logs that an earlier run deleted and had no time to remove; removed once.
        """
        self._cleaner = cleaner
        tasks = (
            ("kafka-log-retention", self.delete_old_segments, config.retention_check_ms),
            ("kafka-log-flusher", self.flush_dirty_logs, config.flush_check_ms),
            (
                "kafka-recovery-point-checkpoint",
                self._checkpoints.write_recovery_points,
                config.recovery_point_checkpoint_ms,
            ),
            (
                "kafka-log-start-offset-checkpoint",
                self._checkpoints.write_log_start_offsets,
                config.log_start_offset_checkpoint_ms,
            ),
            ("PeriodicProducerExpirationCheck", self.remove_expired_producers, config.producer_expiration_check_ms),
        )
        delay_ms = config.initial_task_delay_ms
        for name, task, period_ms in tasks:
            if period_ms < NEVER:
                scheduler.schedule(name, task, delay_ms=delay_ms, period_ms=period_ms)

        def remove_leftovers() -> None:
            for path in leftovers:
                self._deletion.remove(path)

        scheduler.schedule("kafka-delete-logs", remove_leftovers, delay_ms=delay_ms)

    def delete_old_segments(self) -> None:
        """Apply retention to every log that is not compacted; the cleaner applies it to the others."""
        total = 0
        cleaner = self._cleaner
        if cleaner is not None:
            logs = cleaner.manager.pause_not_compacted()
        else:
            logs = [log for log in self._table.all() if not log.config.is_compacted]
        # The pause ends whatever happens: a log that stays paused would never be cleaned again.
        try:
            for log in [*logs, *(log for log in self._table.futures() if not log.config.is_compacted)]:
                try:
                    total += log.delete_old_segments()
                except ApiError as error:
                    logger.warning("Retention of %s failed: %s", log, error)
        finally:
            if cleaner is not None:
                cleaner.manager.resume([log.topic_partition for log in logs])
        if total:
            logger.info("Log cleanup deleted %d segments", total)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is `flush.ms` ago."""
        now_ms = self._clock.milliseconds()
        for log in [*self._table.all(), *self._table.futures()]:
            local = log.local
            # A log without new records is left alone, so that idle partitions cost no sync.
            if now_ms - local.last_flush_ms >= log.config.flush_ms and local.recovery_point < log.log_end_offset:
                try:
                    log.flush()
                except ApiError as error:
                    logger.warning("Flushing %s failed: %s", log, error)

    def remove_expired_producers(self) -> None:
        """Forget the producers that have written nothing for `producer.id.expiration.ms`, in every log."""
        now_ms = self._clock.milliseconds()
        for log in [*self._table.all(), *self._table.futures()]:
            log.producers.remove_expired(now_ms)
