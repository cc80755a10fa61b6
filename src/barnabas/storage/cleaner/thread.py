"""One thread of the cleaner: cleans the filthiest log, or sleeps when none is worth it; deletes old segments as well.

`kafka-log-cleaner-thread-<n>`. It owns its worker, whose process runs while there is work; only `interrupt` is called
by others. What it counted last is replaced by one assignment, for the metrics. Kafka: LogCleaner.CleanerThread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.thread import ShutdownableThread
from barnabas.storage.cleaner.choice import LogToClean
from barnabas.storage.cleaner.cleaning import LogCleaning
from barnabas.storage.cleaner.config import CleanerConfig
from barnabas.storage.cleaner.log_cleaner_manager import (
    CleanerLogs,
    LogCleanerManager,
    LogCleaningAborted,
    LogCleaningError,
)
from barnabas.storage.cleaner.stats import CleaningStats, PreCleanStats
from barnabas.storage.cleaner.work import CleanerInterrupted, CleanerWorker
from barnabas.storage.errors import is_shortage

logger = logging.getLogger("barnabas.storage.cleaner.log_cleaner")

MOST_DEATHS = 3
"""So often in a row the process may die over one log, without saying why, before that log is given up."""


class CleaningTools(NamedTuple):
    """What cleanings work with. make_worker: called on the cleaner's thread, when there is work."""

    files: Files
    clock: Clock
    make_worker: Callable[[], CleanerWorker]


class CleanerThread:
    """Thread number `number`."""

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
        """Whether an error nobody expected has ended the thread."""
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
        """Begin."""
        self._thread.start()

    def initiate_shutdown(self) -> None:
        """Let the thread end, and what it is doing."""
        self._thread.initiate_shutdown()
        self.interrupt()

    def await_shutdown(self) -> None:
        """Wait until it has ended."""
        self._thread.await_shutdown()
        self._close_worker()

    def interrupt(self, topic_partition: TopicPartition | None = None) -> None:
        """End the cleaning under way (if it is of this partition); any thread."""
        worker = self._worker
        if worker is not None and (topic_partition is None or self._cleaning == topic_partition):
            worker.interrupt()

    def _do_work(self) -> None:
        if not self.clean_filthiest_log():
            self._close_worker()
            self._thread.pause(self._config.backoff_ms / 1000)
        self._manager.maintain_uncleanable()

    def clean_filthiest_log(self) -> bool:
        """One round: clean a log if one is dirty enough, and delete old segments of all compacted logs.

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
                return False  # deleted meanwhile: no wonder, and nothing to be held against another log of this name
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
            logger.info("Cleaning of log %s ended: %s", log.topic_partition, error)  # its directory is offline already
        except OSError as error:
            self._on_disk_error(cleanable, error)
        except CleanerInterrupted as error:
            self._on_interruption(cleanable, error)
        except Exception as error:
            raise LogCleaningError(log, str(error)) from error
        finally:
            self._cleaning = None
            self._manager.done_cleaning(log, end_offset)

    def _cleaning_of(self, cleanable: LogToClean) -> LogCleaning:
        if self._worker is None:
            self._worker = self._tools.make_worker()

        def check_done() -> None:
            if not self._thread.is_running:
                raise LogCleaningAborted("the cleaner is shutting down")
            self._manager.check_aborted(cleanable.topic_partition)

        return LogCleaning(cleanable, self._worker, self._config, self._tools.files, self._tools.clock, check_done)

    def _on_disk_error(self, cleanable: LogToClean, error: OSError) -> None:
        """A full disk may have room again; any other error takes the log directory offline."""
        log = cleanable.log
        doing = f"cleaning up log for {log.topic_partition}"
        if is_shortage(error):
            logger.warning("No room while %s in dir %s: %s", doing, log.parent_dir, error)
            self._thread.pause(self._config.backoff_ms / 1000)
        else:
            self._logs.on_failure(log.parent_dir, doing, error)

    def _on_interruption(self, cleanable: LogToClean, error: CleanerInterrupted) -> None:
        """An abort, or the end, is no fault of the log; a process that dies by itself may be. Raises LogCleaningError.

        The log is tried again, for it may have been the machine's fault: memory was short, or somebody killed it.
        """
        topic_partition = cleanable.topic_partition
        try:
            self._manager.check_aborted(topic_partition)
        except LogCleaningAborted:
            logger.info("Cleaning of log %s was aborted", topic_partition)
            return
        if not self._thread.is_running:
            return
        self._deaths[topic_partition] += 1
        logger.warning("Cleaning of log %s failed, the log is as before: %s", topic_partition, error)
        if self._deaths[topic_partition] >= MOST_DEATHS:
            del self._deaths[topic_partition]
            raise LogCleaningError(cleanable.log, str(error)) from error
        self._thread.pause(self._config.backoff_ms / 1000)

    def _delete_old_segments(self) -> None:
        """Delete what retention and log start offset no longer want of compacted logs, between two cleanings."""
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
        self.last_stats = stats
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
