"""The broker's settings that LogManager reads. A frozen snapshot, replaced as a whole; made by `broker`."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.setting import Settings, setting
from barnabas.storage.segment.open_files import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class LogManagerConfig(Settings):
    """Intervals of the background tasks, and the threads that load a directory's logs at start and flush them at stop.

    open_files: how many segment files are kept open, which depends on the process's descriptor limit.
    """

    flush_check_ms: int = setting("log.flush.scheduler.interval.ms")
    recovery_point_checkpoint_ms: int = setting("log.flush.offset.checkpoint.interval.ms")
    log_start_offset_checkpoint_ms: int = setting("log.flush.start.offset.checkpoint.interval.ms")
    retention_check_ms: int = setting("log.retention.check.interval.ms")
    initial_task_delay_ms: int = setting("log.initial.task.delay.ms")
    open_files: int = DEFAULT_LIMIT
    recovery_threads_per_dir: int = setting("num.recovery.threads.per.data.dir")
    producer_id_expiration_ms: int = setting("producer.id.expiration.ms")
    producer_expiration_check_ms: int = setting("producer.id.expiration.check.interval.ms")
    verifies_transactions: bool = setting("transaction.partition.verification.enable")
