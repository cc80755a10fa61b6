"""All logs of a broker: opens them at start, makes and deletes them, runs their background tasks, closes them.

The only way to a log. The directories they lie in are opened before and released afterwards, by `broker`. Start and
shutdown run on the broker's thread; logs are made and deleted by the replica layer, looked up by every thread.
`_creation_lock` makes sure that a log is made once, and with its topic's settings of then; it comes before the locks of
logs, and is never taken while one of them is held. Kafka: LogManager.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.background_writes import BackgroundWrites
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH, write_clean_shutdown
from barnabas.storage.directories.deletion import LogDeletion
from barnabas.storage.directories.loading import LogLoading
from barnabas.storage.directories.log_dir import LogDirectory
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.directories.offset_checkpoints import LogCheckpoints
from barnabas.storage.directories.threads import run_per_directory
from barnabas.storage.log.loader import LoadTerms, load_log
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_manager_config import LogManagerConfig
from barnabas.storage.log_table import LogTable
from barnabas.storage.segment.factory import SegmentFactory
from barnabas.storage.segment.index_file import CorruptIndex
from barnabas.storage.segment.index_pages import IndexPages
from barnabas.storage.segment.open_files import OpenFiles

logger = logging.getLogger(__name__)

BEHIND_EVERYTHING = 2**63 - 2
"""A recovery point that leaves only the active segment to be recovered."""
CLOSING_THREADS = 8
"""Per directory, at least: closing waits for the disk, which takes syncs of several threads together (12 times as fast
for 1,000 logs that were written to)."""


class LogManager:
    """The logs in `directories`, which are open (LogDirectories.open).

    topic_config: the settings of a topic whose log is opened; the default ones if not given. chance: for roll jitter
    and names.
    """

    def __init__(
        self,
        directories: LogDirectories,
        files: Files,
        scheduler: Scheduler,
        clock: Clock,
        config: LogManagerConfig,
        default_log_config: LogConfig,
        *,
        topic_config: Callable[[str], LogConfig] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._files = files
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self._topic_config = topic_config or (lambda _topic: default_log_config)
        self._creation_lock = threading.Lock()
        self.cleaner: LogCleaner | None = None
        """Made at start; None where `log.cleaner.enable` is off."""
        self._doomed: list[str] = []
        """Directories that an earlier run's deletions left over; filled at start, before anything else runs."""
        random_numbers = chance or random.Random()
        self._directories = directories
        self._table = LogTable()
        self._checkpoints = LogCheckpoints(directories, self._table)
        self._deletion = LogDeletion(directories, files, scheduler, random_numbers)
        factory = SegmentFactory(OpenFiles(files, config.open_files), IndexPages(), clock, random_numbers)
        self._environment = LogEnvironment(
            files,
            clock,
            scheduler,
            factory,
            directories.failed,
            self._checkpoints.write_both,
            BackgroundWrites(scheduler).later,
            lambda: self._config.producer_id_expiration_ms,
        )
        self.get_log = self._table.get
        """The partition's log, None when there is none here, or only in a directory that failed."""
        self.directory_failed = directories.failed
        """To be told of a disk error by whoever else writes in a log directory. See LogDirectories.failed."""
        self.checkpoint_recovery_points = self._checkpoints.checkpoint_recovery_points
        """See LogCheckpoints."""
        self.checkpoint_log_start_offsets = self._checkpoints.checkpoint_log_start_offsets
        """See LogCheckpoints."""

    # -- start and shutdown

    def startup(
        self,
        is_stray: Callable[[UnifiedLog], bool] = lambda _log: False,
        make_cleaner: Callable[[Sequence[str], CleanerLogs], LogCleaner] | None = None,
    ) -> None:
        """Load all logs (recover those of a crashed broker) and begin the background tasks.

        Logs that `is_stray` says cannot be served are left out. `make_cleaner` is given the live directories and a view
        of the logs; None where `log.cleaner.enable` is off. Raises OSError when no directory is left.
        """
        self._doomed = LogLoading(
            self._directories,
            self._table,
            self._load_log,
            self._clock,
            threads_per_dir=self._config.recovery_threads_per_dir,
            is_stray=is_stray,
            put_aside=self._deletion.put_aside,
        ).run()
        if make_cleaner is not None:
            logs = CleanerLogs(self._table.get, self._table.all, self._directories.failed)
            self.cleaner = make_cleaner(self.live_log_dirs, logs)
            self.cleaner.startup()
        self._schedule_tasks()

    def _load_log(self, topic_partition: TopicPartition, path: str, directory: LogDirectory) -> UnifiedLog:
        terms = directory.load_terms(topic_partition)
        config = self._config_of(topic_partition.topic)
        try:
            return load_log(path, topic_partition, config, terms, self._environment)
        except (CorruptRecord, CorruptIndex) as error:
            if not terms.had_clean_shutdown:
                raise
            logger.warning("%s was closed in order and is damaged (%s): recovering its active segment", path, error)
            damaged = LoadTerms(False, BEHIND_EVERYTHING, terms.log_start_offset)
            return load_log(path, topic_partition, config, damaged, self._environment)

    def _config_of(self, topic: str) -> LogConfig:
        """The settings that the topic's other logs have, which are kept up to date; where there are none, asked for."""
        sibling = self._table.any_of_topic(topic)
        return self._topic_config(topic) if sibling is None else sibling.config

    def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close all logs, write the checkpoints, mark the directories as closed in order.

        A directory whose logs were never loaded keeps the checkpoints and the mark it had.
        """
        logger.info("Shutting down.")
        if self.cleaner is not None:
            self.cleaner.shutdown()
        loaded = [directory for directory in self._directories.online() if directory.is_loaded]
        tasks = {
            directory.path: [partial(_flush_and_close, log) for log in self._table.in_dir(directory.path)]
            for directory in loaded
        }
        threads = max(self._config.recovery_threads_per_dir, CLOSING_THREADS)
        errors = run_per_directory(tasks, threads, "log-closing")
        for directory in loaded:
            try:
                if directory.path in errors:
                    raise errors[directory.path]
                self._checkpoints.write_both(directory.path)
                write_clean_shutdown(self._files, directory.path, broker_epoch)
            except (OSError, ApiError):
                logger.exception("Could not close %s in order; its logs will be recovered", directory.path)
        logger.info("Shutdown complete.")

    # -- logs

    def all_logs(self) -> list[UnifiedLog]:
        """Every log, as of now."""
        return self._table.all()

    def logs_in(self, log_dir: str) -> list[UnifiedLog]:
        """The logs of one directory, as of now."""
        return self._table.in_dir(log_dir)

    @property
    def log_dirs(self) -> list[str]:
        """All directories, also those that failed."""
        return list(self._directories.paths)

    @property
    def live_log_dirs(self) -> list[str]:
        """The directories without a disk error."""
        return self._directories.online_paths()

    @property
    def offline_log_dirs(self) -> list[str]:
        """The directories that failed, or could not be used when the broker started."""
        return self._directories.offline_paths()

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: bytes | None = None,
        log_config: LogConfig | None = None,
        is_new: bool = True,
    ) -> UnifiedLog:
        """The partition's log; if there is none, a new one in the directory that holds the fewest.

        A partition that is not new may have its log in a directory that has failed: then none is made.
        Raises InconsistentTopicId when the log belongs to another topic of this name, ApiError: KAFKA_STORAGE_ERROR.
        """
        log = self.get_log(topic_partition)
        if log is None:
            with self._creation_lock:
                log = self.get_log(topic_partition)
                if log is None:
                    self._refuse_if_offline(topic_partition, is_new=is_new)
                    config = log_config or self._config_of(topic_partition.topic)
                    log = self._create_log(topic_partition, config)
                    self._table.add(log)
        if topic_id is not None and log.topic_id != topic_id:
            log.assign_topic_id(topic_id)
        return log

    def _refuse_if_offline(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        offline = self.offline_log_dirs
        if offline and not is_new:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {topic_partition} because log directories {','.join(offline)} are offline",
            )

    def _create_log(self, topic_partition: TopicPartition, config: LogConfig) -> UnifiedLog:
        """Make a log in the emptiest directory, or, where that fails, in the next one."""
        tried = sorted(self._directories.online_paths(), key=self._table.count_in)
        for log_dir in tried:
            path = os.path.join(log_dir, str(topic_partition))
            try:
                if self._directories[log_dir].remembers(topic_partition):
                    # Of a deleted topic of this name: a crash would take the new log's batches for flushed, or deleted.
                    self._checkpoints.write_both(log_dir)
                self._files.make_dirs(path)
                log = load_log(path, topic_partition, config, LoadTerms(had_clean_shutdown=True), self._environment)
            except (OSError, MalformedCheckpoint) as error:
                failed = error if isinstance(error, OSError) else OSError(str(error))
                self._directories.failed(log_dir, f"creating the log of {topic_partition}", failed)
                continue
            logger.info("Created log for partition %s in %s", topic_partition, path)
            return log
        raise ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directories available for {topic_partition}. Tried {', '.join(tried)}",
        )

    def update_log_config(self, topic: str, log_config: LogConfig) -> None:
        """The topic has these settings now."""
        no_longer_compacted = []
        with (
            self._creation_lock
        ):  # a log that is being made takes its settings from the store, or from its topic's logs
            for log in self._table.of_topic(topic):
                if log.config.is_compacted and not log_config.is_compacted:
                    no_longer_compacted.append(log.topic_partition)
                log.update_config(log_config)
        if self.cleaner is not None:
            for topic_partition in no_longer_compacted:
                self.cleaner.abort_cleaning(topic_partition)

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Take over the threads per directory and the expiration of producers; intervals stay as they were at start."""
        self._config = replace(
            self._config,
            recovery_threads_per_dir=config.recovery_threads_per_dir,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )

    def async_delete(self, topic_partition: TopicPartition) -> None:
        """Take the log out and rename its directory; the files go after file.delete.delay.ms.

        Raises ApiError: KAFKA_STORAGE_ERROR, also when there is no log but a failed directory may hold one.
        """
        with self._creation_lock:
            log = self._table.remove(topic_partition)
        if log is not None:
            if self.cleaner is not None:
                self.cleaner.abort_cleaning(topic_partition)
                self.cleaner.update_checkpoints(log.parent_dir, topic_partition)
            self._deletion.delete(log)
        elif offline := self.offline_log_dirs:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Failed to delete log for {topic_partition} because it may be in one of the offline directories"
                f" {','.join(offline)}",
            )

    # -- truncation, which the cleaner must not meet

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Drop everything of a log from `offset` on; True if there was something. Call without the log's lock.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        log = self.get_log(topic_partition)
        if log is None:
            return False
        if offset >= log.local.segments.active.base_offset:
            return log.truncate_to(offset)
        with self._cleaning_paused(log):
            return log.truncate_to(offset)

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        """Drop everything of a log, which begins anew at `offset`. As above."""
        log = self.get_log(topic_partition)
        if log is not None:
            with self._cleaning_paused(log):
                log.truncate_fully_and_start_at(offset)

    @contextmanager
    def _cleaning_paused(self, log: UnifiedLog) -> Iterator[None]:
        """Keep the cleaner away from a log whose end is cut off; it is clean up to its active segment at most then."""
        cleaner = self.cleaner
        if cleaner is None:
            yield
            return
        cleaner.abort_and_pause_cleaning(log.topic_partition)
        try:
            yield
            active = log.local.segments.active
            cleaner.maybe_truncate_checkpoint(log.parent_dir, log.topic_partition, active.base_offset)
        finally:
            cleaner.resume_cleaning([log.topic_partition])

    # -- background tasks

    def _schedule_tasks(self) -> None:
        config, scheduler = self._config, self._scheduler
        delay_ms = config.initial_task_delay_ms
        tasks = (
            ("kafka-log-retention", self.cleanup_logs, config.retention_check_ms),
            ("kafka-log-flusher", self.flush_dirty_logs, config.flush_check_ms),
            ("kafka-recovery-point-checkpoint", self.checkpoint_recovery_points, config.recovery_point_checkpoint_ms),
            (
                "kafka-log-start-offset-checkpoint",
                self.checkpoint_log_start_offsets,
                config.log_start_offset_checkpoint_ms,
            ),
            ("PeriodicProducerExpirationCheck", self.remove_expired_producers, config.producer_expiration_check_ms),
        )
        for name, task, period_ms in tasks:
            if period_ms < 2**63 - 1:
                scheduler.schedule(name, task, delay_ms=delay_ms, period_ms=period_ms)
        scheduler.schedule("kafka-delete-logs", self._delete_leftovers, delay_ms=delay_ms)

    def cleanup_logs(self) -> None:
        """Delete what retention no longer wants, in every log that is not compacted; the cleaner sees to the others."""
        total = 0
        cleaner = self.cleaner
        if cleaner is not None:
            logs = cleaner.pause_cleaning_for_non_compacted_partitions()
        else:
            logs = [log for log in self.all_logs() if not log.config.is_compacted]
        try:
            for log in logs:
                try:
                    total += log.delete_old_segments()
                except ApiError as error:
                    logger.warning("Retention of %s failed: %s", log, error)
        finally:
            if cleaner is not None:
                cleaner.resume_cleaning([log.topic_partition for log in logs])
        if total:
            logger.info("Log cleanup deleted %d segments", total)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is `flush.ms` ago."""
        now_ms = self._clock.milliseconds()
        for log in self.all_logs():
            local = log.local
            if now_ms - local.last_flush_ms >= log.config.flush_ms and local.recovery_point < log.log_end_offset:
                try:
                    log.flush()
                except ApiError as error:
                    logger.warning("Flushing %s failed: %s", log, error)

    def remove_expired_producers(self) -> None:
        """Forget the producers that have written nothing for `producer.id.expiration.ms`, in every log."""
        now_ms = self._clock.milliseconds()
        for log in self.all_logs():
            log.remove_expired_producers(now_ms)

    def _delete_leftovers(self) -> None:
        """Remove the directories of logs that an earlier run deleted and had no time to remove."""
        doomed, self._doomed = self._doomed, []
        for path in doomed:
            self._deletion.remove(path)

    # -- failed directories

    def fail_log_dir(self, log_dir: str) -> list[TopicPartition]:
        """Take a directory's logs out, close their files, unlock it; returns their partitions."""
        self._directories.take_offline(log_dir)
        if self.cleaner is not None:
            self.cleaner.handle_log_dir_failure(log_dir)
        with self._creation_lock:  # a log that is being made there is in the table by now
            failed = self._table.remove_dir(log_dir)
        for log in failed:
            log.close_handlers()
        self._directories.release(log_dir)
        partitions = [log.topic_partition for log in failed]
        logger.warning("Logs for partitions %s are offline: log directory %s has failed", partitions, log_dir)
        return partitions


def _flush_and_close(log: UnifiedLog) -> None:
    log.flush()
    log.close()
