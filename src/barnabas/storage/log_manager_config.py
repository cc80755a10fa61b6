"""What of the broker's settings concerns the log manager. A frozen snapshot, replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.config.kafka_config import KafkaConfig
from barnabas.storage.segment.open_files import DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """Intervals of the background tasks in milliseconds, the number of files kept open, the threads that load a
    directory's logs at start and close them at shutdown."""

    flush_check_ms: int = 2**63 - 1
    recovery_point_checkpoint_ms: int = 60_000
    log_start_offset_checkpoint_ms: int = 60_000
    retention_check_ms: int = 300_000
    initial_task_delay_ms: int = 30_000
    open_files: int = DEFAULT_LIMIT
    recovery_threads_per_dir: int = 1
    producer_id_expiration_ms: int = 86_400_000
    producer_expiration_check_ms: int = 600_000

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig, open_files: int = DEFAULT_LIMIT) -> LogManagerConfig:
        """The settings of the properties file; `open_files` depends on the process's descriptor limit."""
        return cls(
            flush_check_ms=config.integer("log.flush.scheduler.interval.ms"),
            recovery_point_checkpoint_ms=config.integer("log.flush.offset.checkpoint.interval.ms"),
            log_start_offset_checkpoint_ms=config.integer("log.flush.start.offset.checkpoint.interval.ms"),
            retention_check_ms=config.integer("log.retention.check.interval.ms"),
            initial_task_delay_ms=config.integer("log.initial.task.delay.ms"),
            open_files=open_files,
            recovery_threads_per_dir=config.integer("num.recovery.threads.per.data.dir"),
            producer_id_expiration_ms=config.integer("producer.id.expiration.ms"),
            producer_expiration_check_ms=config.integer("producer.id.expiration.check.interval.ms"),
        )
