"""The log cleaner: keeps the last record of each key in compacted logs.

Owned by LogManager; any thread calls. The cleaner's threads, `kafka-log-cleaner-thread-<n>`, choose logs and swap
segments, and each has a process that copies, which runs while there is work. `_lock` guards the list of threads and the
settings. Other threads may only `interrupt` a CleanerThread; its last counts are replaced by one assignment, for the
metrics: the properties of the LogCleaner, by Kafka's names with underscores. Kafka: LogCleaner, CleanerThread.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.metrics.meter import Meter
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.thread import ShutdownableThread
from barnabas.storage.cleaner.choice import LogToClean
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner_manager import (
    CleanerCheckpoints,
    CleanerInterrupted,
    CleanerLogs,
    LogCleanerManager,
    LogCleaningAborted,
    LogCleaningError,
)
from barnabas.storage.cleaner.stats import CleanerIo, CleaningStats, PreCleanStats
from barnabas.storage.errors import is_shortage

if TYPE_CHECKING:
    from barnabas.storage.cleaner.cleaning import LogCleaning
    from barnabas.storage.cleaner.messages import CleanerWorker

logger = logging.getLogger(__name__)

MOST_DEATHS = 3
"""The number of times in a row that the process may die over one log, without an error, before it is given up."""


class CleaningTools(NamedTuple):
    """Tools of a cleaning. make_worker: called on the cleaner's thread, when there is work. io: of all threads."""

    files: Files
    clock: Clock
    make_worker: Callable[[], CleanerWorker]
    io: CleanerIo


class CleanerThread:
    """The thread `number` of a LogCleaner. It cleans one log at a time."""

    def __init__(
        self,
        number: int,
        manager: LogCleanerManager,
        logs: CleanerLogs,
        config: CleanerConfig,
        tools: CleaningTools,
    ) -> None:
        self.number = number
        self.last_stats = CleaningStats()
        self.last_pre_clean_stats = PreCleanStats()
        self.is_failed = False
        """Whether an unexpected error has ended the thread."""
        self._manager = manager
        self._logs = logs
        self._config = config
        self._tools = tools
        self._worker: CleanerWorker | None = None
        self._cleaning: TopicPartition | None = None
        self._deaths: Counter[TopicPartition] = Counter()
        self._thread = ShutdownableThread(
            f"kafka-log-cleaner-thread-{number}", self._do_work, on_failure=self._on_failure
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def initiate_shutdown(self) -> None:
        """Have the thread end, and abort its cleaning."""
        self._thread.initiate_shutdown()
        self.interrupt()

    def await_shutdown(self) -> None:
        """Wait until the thread has ended."""
        self._thread.await_shutdown()
        self._close_worker()

    def interrupt(self, topic_partition: TopicPartition | None = None) -> None:
        """Abort the cleaning under way, if it is of this partition; any thread."""
        worker = self._worker
        if worker is not None and (topic_partition is None or self._cleaning == topic_partition):
            worker.interrupt()

    def _do_work(self) -> None:
        if not self.clean_filthiest_log():
            self._close_worker()
            self._thread.pause(self._config.backoff_ms / 1000)
        self._manager.maintain_uncleanable()

    def clean_filthiest_log(self) -> bool:
        """Run one round: clean a log if one is dirty enough, and delete old segments of all compacted logs.

        True if a log was cleaned.
        """
        try:
            cleanable, pre_clean_stats = self._manager.grab_filthiest_log()
            if cleanable is not None:
                self.last_pre_clean_stats = pre_clean_stats
                self._clean(cleanable)
            self._delete_old_segments()
        except LogCleaningError as error:
            log = error.log
            if self._logs.get(log.topic_partition) is not log:
                # The log has been deleted: a new log of this name must not be marked for its error.
                return False
            logger.warning(
                "Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as uncleanable",
                log,
                log.topic_partition,
                exc_info=error,
            )
            self._manager.mark_uncleanable(log.parent_dir, log.topic_partition)
            return False
        return cleanable is not None

    def _clean(self, cleanable: LogToClean) -> None:
        """Clean a log that is marked as in progress. Raises LogCleaningError."""
        log = cleanable.log
        end_offset = cleanable.first_dirty_offset
        try:
            self._cleaning = cleanable.topic_partition
            end_offset, stats = self._cleaning_of(cleanable).run()
            self._record(cleanable, end_offset, stats)
            self._deaths.pop(cleanable.topic_partition, None)
        except LogCleaningAborted:
            logger.info("Cleaning of log %s was aborted", log.topic_partition)
        except ApiError as error:
            # The log has reported the error: its directory is offline already.
            logger.info("Cleaning of log %s ended: %s", log.topic_partition, error)
        except OSError as error:
            self._on_disk_error(cleanable, error)
        except CleanerInterrupted as error:
            self._on_interruption(cleanable, error)
        except Exception as error:
            raise LogCleaningError(log, str(error)) from error
        # After an error too: the log must not stay in progress. Its end offset is the old one then, so that no more of
        # it counts as clean.
        finally:
            self._cleaning = None
            self._manager.done_cleaning(log, end_offset)

    def _cleaning_of(self, cleanable: LogToClean) -> LogCleaning:
        """Return the cleaning of a log; make the worker if this is the first one."""
        from barnabas.storage.cleaner.cleaning import LogCleaning  # noqa: PLC0415 - few brokers ever clean

        if self._worker is None:
            self._worker = self._tools.make_worker()

        def check_done() -> None:
            """Check that the cleaning may go on. Raises LogCleaningAborted when the thread ends, or on an abort."""
            if not self._thread.is_running:
                raise LogCleaningAborted("the cleaner is shutting down")
            self._manager.check_aborted(cleanable.topic_partition)

        return LogCleaning(cleanable, self._worker, self._config, self._tools.files, self._tools.clock, check_done)

    def _on_disk_error(self, cleanable: LogToClean, error: OSError) -> None:
        """Pause after a full disk, which may have room again; take the log directory offline after other errors."""
        log = cleanable.log
        doing = f"cleaning up log for {log.topic_partition}"
        if is_shortage(error):
            logger.warning("No room while %s in dir %s: %s", doing, log.parent_dir, error)
            self._thread.pause(self._config.backoff_ms / 1000)
        else:
            self._logs.on_failure(log.parent_dir, doing, error)

    def _on_interruption(self, cleanable: LogToClean, error: CleanerInterrupted) -> None:
        """Handle an aborted request, or a process that has died. Raises LogCleaningError after too many deaths.

        An abort, or the end of the thread, is no fault of the log. A process that dies by itself may be one; the log is
        tried again first, since the machine may be to blame: memory was short, or the process was killed.
        """
        topic_partition = cleanable.topic_partition
        try:
            self._manager.check_aborted(topic_partition)
        except LogCleaningAborted:
            logger.info("Cleaning of log %s was aborted", topic_partition)
            return
        if not self._thread.is_running:
            return
        # Counted for each log: one that kills the process every time must not keep all others from being cleaned.
        self._deaths[topic_partition] += 1
        logger.warning("Cleaning of log %s failed and changed nothing in the log: %s", topic_partition, error)
        if self._deaths[topic_partition] >= MOST_DEATHS:
            del self._deaths[topic_partition]
            raise LogCleaningError(cleanable.log, str(error)) from error
        self._thread.pause(self._config.backoff_ms / 1000)

    def _delete_old_segments(self) -> None:
        """Apply retention and log start offset to compacted logs, between two cleanings. Raises LogCleaningError."""
        deletable = self._manager.grab_deletable_logs()
        try:
            for log in deletable:
                try:
                    log.delete_old_segments()
                except ApiError as error:
                    logger.warning("Retention of %s failed: %s", log, error)
                except Exception as error:
                    raise LogCleaningError(log, str(error)) from error
        finally:
            self._manager.done_deleting(deletable)

    def _record(self, cleanable: LogToClean, end_offset: int, stats: CleaningStats) -> None:
        """Keep the counts of a cleaning for the metrics, and log them."""
        self.last_stats = stats
        self._tools.io.add(stats)
        before = self.last_pre_clean_stats
        logger.info(
            "%s", stats.message(self.number, str(cleanable.topic_partition), cleanable.first_dirty_offset, end_offset)
        )
        if before.delayed_partitions:
            logger.info(
                "\tCleanable partitions: %d, Delayed partitions: %d, max delay: %d",
                before.cleanable_partitions,
                before.delayed_partitions,
                before.max_compaction_delay_ms,
            )
        if stats.invalid_messages_read:
            logger.warning("\tFound %d invalid messages during compaction.", stats.invalid_messages_read)

    def _close_worker(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.close()

    def _on_failure(self, _error: BaseException) -> None:
        self.is_failed = True


def child_process() -> CleanerWorker:
    """Make a worker that works in a process of its own."""
    from barnabas.storage.cleaner.child import CleanerChild  # noqa: PLC0415 - few brokers ever clean: start-up is light

    return CleanerChild("cleaner")


class LogCleaner:
    """Cleans the logs of `log_dirs`. make_worker: makes the worker that does a thread's work on files.

    manager: for callers that change logs, which keep the cleaner away from them.
    """

    def __init__(
        self,
        config: CleanerConfig,
        log_dirs: Sequence[str],
        logs: CleanerLogs,
        files: Files,
        clock: Clock,
        *,
        make_worker: Callable[[], CleanerWorker] = child_process,
    ) -> None:
        """Make the cleaner. Raises ConfigError when the memory for keys is too small for a single one."""
        config.check()
        self._config = config
        self._logs = logs
        self._tools = CleaningTools(files, clock, make_worker, CleanerIo())
        self._lock = threading.Lock()
        self._threads: tuple[CleanerThread, ...] = ()
        self.manager = LogCleanerManager(logs, CleanerCheckpoints(log_dirs, files), clock, self._interrupt)

    # -- life

    def startup(self) -> None:
        """Start the threads."""
        logger.info("Starting the log cleaner")
        with self._lock:
            self._threads = tuple(self._make_thread(number) for number in range(self._config.threads))
            for thread in self._threads:
                thread.start()

    def shutdown(self) -> None:
        """End the threads and their processes; logs that were being cleaned stay as they were."""
        logger.info("Shutting down the log cleaner.")
        with self._lock:
            threads, self._threads = self._threads, ()
        for thread in threads:
            thread.initiate_shutdown()
        for thread in threads:
            thread.await_shutdown()

    def validate(self, config: CleanerConfig) -> None:
        """Check new settings before `reconfigure` takes them.

        Raises ConfigError: the threads are less than half or more than double of now, or the memory is too small.
        """
        old = self._config.threads
        if config.threads < 1:
            raise ConfigError("Log cleaner threads should be at least 1")
        if config.threads < old // 2:
            raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
        if config.threads > old * 2:
            raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {old}")
        config.check()

    def reconfigure(self, config: CleanerConfig) -> None:
        """Take new settings: the threads end and new ones start, also in place of failed ones.

        Raises ConfigError, as `validate` does.
        """
        # As in Kafka: the threads share memory and rate by their number, so none goes on with its old share.
        self.validate(config)
        self.shutdown()
        with self._lock:
            self._config = config
        self.startup()

    def _make_thread(self, number: int) -> CleanerThread:
        return CleanerThread(number, self.manager, self._logs, self._config, self._tools)

    def clean_once(self) -> bool:
        """Run one round on the calling thread, for tests and tools, without `startup`; True if a log was cleaned."""
        thread = self._make_thread(0)
        try:
            return thread.clean_filthiest_log()
        finally:
            thread.await_shutdown()

    def _interrupt(self, topic_partition: TopicPartition) -> None:
        for thread in self._threads:
            thread.interrupt(topic_partition)

    # -- metrics

    @property
    def io(self) -> Meter:
        """The bytes that cleanings have read and written."""
        return self._tools.io.meter

    @property
    def max_buffer_utilization_percent(self) -> int:
        """How full the fullest key map was in the threads' last cleanings, in percent."""
        return int(100 * max((thread.last_stats.buffer_utilization for thread in self._threads), default=0.0))

    @property
    def cleaner_recopy_percent(self) -> int:
        """The bytes written per hundred read, in the threads' last cleanings."""
        stats = [thread.last_stats for thread in self._threads]
        read, written = sum(each.bytes_read for each in stats), sum(each.bytes_written for each in stats)
        return int(100 * written / max(read, 1))

    @property
    def max_clean_time_secs(self) -> int:
        """The duration of the longest of the threads' last cleanings."""
        return int(max((thread.last_stats.elapsed_seconds for thread in self._threads), default=0.0))

    @property
    def max_compaction_delay_secs(self) -> int:
        """The longest time by which max.compaction.lag.ms was missed."""
        delays = (thread.last_pre_clean_stats.max_compaction_delay_ms for thread in self._threads)
        return max(delays, default=0) // 1000

    @property
    def dead_thread_count(self) -> int:
        """The number of threads that an unexpected error has ended."""
        return sum(thread.is_failed for thread in self._threads)

    @property
    def max_dirty_percent(self) -> int:
        """The dirty share of the dirtiest log as of the last choice, in percent."""
        return int(100 * self.manager.dirtiest_ratio)

    @property
    def time_since_last_run_ms(self) -> int:
        """Milliseconds since the last choice of a log."""
        return self._tools.clock.milliseconds() - self.manager.last_run_ms
