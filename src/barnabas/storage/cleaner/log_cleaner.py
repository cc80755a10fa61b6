"""The log cleaner: keeps the last record of each key in compacted logs.

Owned by LogManager; any thread calls. The cleaner's threads choose logs and swap segments, and each has a process that
copies. `_lock` guards the list of threads and the settings. The properties are the cleaner's metrics, by Kafka's names
with underscores. Kafka: LogCleaner.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.config.config_error import ConfigError
from barnabas.metrics.meter import Meter
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner_manager import CleanerCheckpoints, CleanerLogs, LogCleanerManager
from barnabas.storage.cleaner.stats import CleanerIo
from barnabas.storage.cleaner.thread import CleanerThread, CleaningTools

if TYPE_CHECKING:
    from barnabas.storage.cleaner.messages import CleanerWorker

logger = logging.getLogger(__name__)


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
