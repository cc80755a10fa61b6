"""LogManager's settings, and the services that its logs share: disk, clock, scheduler, segments, failure reports.

Both are frozen. LogManagerConfig is made by `broker`, and replaced as a whole; LogEnvironment is made by LogManager,
and read by its logs on any thread. `RecoveryProgress._lock` guards what is left to recover.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.config.setting import Settings, setting
from barnabas.metrics.histogram import SharedTimer
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.segment.factory import SegmentFactory
from barnabas.storage.segment.file import DEFAULT_LIMIT
from barnabas.storage.validation.validator import LogValidator


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


class RecoveryProgress:
    """The segments that the threads of a start have still to recover, each in its log (remainingSegmentsToRecover).

    Filled by the threads that load logs, each of which has an entry of its own; read by those that publish metrics.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[tuple[str, str], int] = {}

    def note(self, log_dir: str, segments: int) -> None:
        """Set what is left for the calling thread in the log that it recovers."""
        with self._lock:
            self._segments[log_dir, threading.current_thread().name] = segments

    def remaining(self) -> dict[tuple[str, str], int]:
        """Return the number of segments by log directory and name of the thread."""
        with self._lock:
            return dict(self._segments)


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """Shared services of logs.

    on_failure: called with log directory, operation and error when a disk fails or is full. require_room: checks that a
    log directory takes records; raises OSError.
    write_checkpoints: writes recovery points and log start offsets of a log directory at once, because one of them
    has become smaller; may be called under a log's lock; raises OSError. write_later: has a small file written in the
    background (`BackgroundWrites.later`). producer_id_expiration_ms: how long an idle producer is remembered now.
    verifies_transactions: whether the first batch of a transaction needs a verification now.
    slow_topics: the topics whose settings may make a small append take long: an fsync (`flush.messages`), another codec
    (`compression.type`). A log enters its topic; any thread looks a topic up (both are atomic in a set).
    """

    # The callables go up to LogManager and its parts. As values handed in they keep imports going one way: a log knows
    # nothing of other logs, of their directories or of the manager.
    files: Files
    clock: Clock
    scheduler: Scheduler
    segments: SegmentFactory
    on_failure: Callable[[str, str, OSError], None]
    require_room: Callable[[str], None]
    write_checkpoints: Callable[[str], None]
    write_later: Callable[[Callable[[], None]], None]
    producer_id_expiration_ms: Callable[[], int]
    verifies_transactions: Callable[[], bool]
    flushes: SharedTimer = field(default_factory=SharedTimer)
    """The times that segments took to reach stable storage (LogFlushStats)."""
    recovery: RecoveryProgress = field(default_factory=RecoveryProgress)
    slow_topics: set[str] = field(default_factory=set)

    def note_settings(self, topic: str, validator: LogValidator, *, is_future: bool) -> None:
        """Note whether the settings of a log's topic may make small appends take long."""
        if is_future:  # while it is copied, a log has other settings than its topic
            return
        if validator.has_slow_settings:
            self.slow_topics.add(topic)
        else:
            self.slow_topics.discard(topic)
