"""All logs of a broker: opens them at start, makes and deletes them, runs their background tasks, closes them.

The only way to a log. `broker` opens the log directories before and releases them afterwards. Start and shutdown run on
the broker's thread; the replica layer makes and deletes logs; every thread looks logs up. `_creation_lock` makes sure
that a log is made once, and with the settings that its topic has at that moment; it comes before the locks of logs, and
is never taken while one of them is held. Kafka: LogManager.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.background_writes import BackgroundWrites
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import CleanerLogs
from barnabas.storage.directories.deletion import LogDeletion
from barnabas.storage.directories.loading import LogLoading, run_per_directory
from barnabas.storage.directories.log_dir import NO_BROKER_EPOCH, write_clean_shutdown
from barnabas.storage.directories.log_dirs import LogCheckpoints, LogDirectories
from barnabas.storage.future_logs import FutureLogs
from barnabas.storage.log.move import config_of_copy
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogEnvironment, LogManagerConfig
from barnabas.storage.log_opener import LogOpener
from barnabas.storage.log_table import LogTable
from barnabas.storage.log_tasks import LogTasks
from barnabas.storage.segment.factory import SegmentFactory
from barnabas.storage.segment.file import OpenFiles
from barnabas.storage.segment.index_file import IndexPages

logger = logging.getLogger(__name__)

CLOSING_THREADS = 8
"""Threads per directory that close logs, at least. Closing waits for the disk, which takes the syncs of several threads
together: 12 times as fast for 1,000 logs that were written to."""


class LogManager:
    """The logs in `directories`, which are open (LogDirectories.open) and take reports of disk errors.

    topic_config: the settings of a topic whose log is opened. chance: for roll jitter and names. get_log: the look-up
    of a partition's log, None when the broker has no log of it, or only in a directory that failed. futures: the copies
    of logs that are moving into other directories. cleaner: made at start; None where `log.cleaner.enable` is off.
    checkpoints, tasks: for tests, which run them at will.
    """

    def __init__(
        self,
        directories: LogDirectories,
        files: Files,
        scheduler: Scheduler,
        clock: Clock,
        config: LogManagerConfig,
        topic_config: Callable[[str], LogConfig],
        chance: random.Random | None = None,
    ) -> None:
        random_numbers = chance or random.Random()
        self.directories = directories
        self._config = config
        self._creation_lock = threading.Lock()
        self._paused: set[TopicPartition] = set()
        """The partitions that the cleaner leaves alone because their logs are moving."""
        self._table = LogTable()
        self._deletion = LogDeletion(directories, files, scheduler, random_numbers)
        self.checkpoints = LogCheckpoints(directories, self._table)
        self._environment = LogEnvironment(
            files,
            clock,
            scheduler,
            SegmentFactory(OpenFiles(files, config.open_files), IndexPages(), clock, random_numbers),
            directories.failed,
            directories.require_room,
            self.checkpoints.write_both,
            BackgroundWrites(scheduler).later,
            lambda: self._config.producer_id_expiration_ms,
            lambda: self._config.verifies_transactions,
        )
        self._opener = LogOpener(directories, self._table, self.checkpoints, self._environment, topic_config)
        self.futures = FutureLogs(
            self._table,
            self._creation_lock,
            directories,
            self._opener,
            self._deletion,
            self.checkpoints,
            files,
        )
        self.tasks = LogTasks(self._table, self.checkpoints, self._deletion, clock)
        directories.when_full(self._pause_appends)
        self.get_log = self._table.get
        self.slow_topics = self._environment.slow_topics
        self.cleaner: LogCleaner | None = None
        self.loading: LogLoading | None = None
        """The loading of all logs while it runs, for metrics."""
        self.flushes = self._environment.flushes
        self.recovery = self._environment.recovery

    # -- start and shutdown

    def startup(
        self,
        is_stray: Callable[[UnifiedLog], bool] = lambda _log: False,
        make_cleaner: Callable[[Sequence[str], CleanerLogs], LogCleaner] | None = None,
    ) -> None:
        """Load all logs (recover those of a crashed broker) and begin the background tasks.

        is_stray: whether a log cannot be served because its topic is another one by now; such logs are marked stray.
        make_cleaner: called with the live directories and a view of the logs; None where `log.cleaner.enable` is off.
        Raises OSError when no directory is left.
        """
        self.loading = LogLoading(
            self.directories,
            self._table,
            self._opener.load,
            self._environment.clock,
            threads_per_dir=self._config.recovery_threads_per_dir,
            is_stray=is_stray,
            deletion=self._deletion,
        )
        leftovers = self.loading.run()
        self.loading = None
        if make_cleaner is not None:
            logs = CleanerLogs(self._table.get, self._table.all, self.directories.failed)
            self.cleaner = make_cleaner(self.directories.online_paths(), logs)
            self.cleaner.startup()
        self.tasks.schedule(self._environment.scheduler, self._config, self.cleaner, leftovers)

    def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close all logs, write the checkpoints, mark the directories as closed in order.

        A directory where a flush, a close or a write fails is not marked, and its logs are recovered at the next start:
        the error is logged. Raises nothing. A directory whose logs were never loaded keeps the checkpoints and the mark
        that it had.
        """
        logger.info("Shutting down.")
        self.directories.give_room()
        # The cleaner first, since it swaps segments. Then flush and close, then the checkpoints, and the mark last: a
        # crash before the mark makes the next start recover the directory.
        if self.cleaner is not None:
            self.cleaner.shutdown()
        loaded = [directory for directory in self.directories.online() if directory.is_loaded]
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
                self.checkpoints.write_both(directory.path)
                write_clean_shutdown(self._environment.files, directory.path, broker_epoch)
            except (OSError, ApiError):
                logger.exception("Could not close %s in order; its logs will be recovered", directory.path)
        logger.info("Shutdown complete.")

    def require_room(self) -> None:
        """Check that a log directory takes new logs: they and their metadata would use up what is kept for deletions.

        Raises ApiError: KAFKA_STORAGE_ERROR when the disks of all directories are full.
        """
        for path in self.directories.online_paths():
            try:
                self.directories.require_room_for_logs(path)
            except OSError:
                continue
            return
        live = ", ".join(self.directories.online_paths())
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"No room for new logs in {live}")

    def _pause_appends(self, log_dir: str) -> None:
        """Have every log of a directory whose disk is full ask for room before its next append."""
        for log in self._table.in_dir(log_dir):
            log.check_room()

    # -- logs

    def all_logs(self) -> list[UnifiedLog]:
        """Return every current log, as of now."""
        return self._table.all()

    def logs_in(self, log_dir: str) -> list[UnifiedLog]:
        """Return the logs of one directory, current and future, as of now."""
        return self._table.in_dir(log_dir)

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: bytes | None = None,
        log_config: LogConfig | None = None,
        is_new: bool = True,
    ) -> UnifiedLog:
        """Return the partition's log; if there is none, make one in the directory that holds the fewest.

        A partition that is not new may have its log in a directory that has failed: then none is made.
        Raises InconsistentTopicId when the log belongs to another topic of this name, ApiError: KAFKA_STORAGE_ERROR.
        """
        log = self.get_log(topic_partition)
        if log is None:
            with self._creation_lock:
                # Asked again: another thread may have made the log while this one waited for the lock.
                log = self.get_log(topic_partition)
                if log is None:
                    self._refuse_if_offline(topic_partition, is_new=is_new)
                    config = log_config or self._opener.config_of(topic_partition.topic)
                    log = self._opener.create(topic_partition, config, self.futures.take_preferred(topic_partition))
                    self._table.add(log)
        if topic_id is not None and log.topic_id != topic_id:
            log.assign_topic_id(topic_id)
        return log

    def _refuse_if_offline(self, topic_partition: TopicPartition, *, is_new: bool) -> None:
        """Check that no offline directory may hold the log. Raises ApiError: KAFKA_STORAGE_ERROR when one may."""
        offline = self.directories.offline_paths()
        if offline and not is_new:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {topic_partition} because log directories {','.join(offline)} are offline",
            )

    def update_log_config(self, topic: str, log_config: LogConfig) -> None:
        """Give the logs of a topic new settings."""
        no_longer_compacted = []
        # A log that is being made takes its settings from the store, or from its topic's logs: not while they change.
        with self._creation_lock:
            for log in self._table.of_topic(topic):
                if log.config.is_compacted and not log_config.is_compacted:
                    no_longer_compacted.append(log.topic_partition)
                log.update_config(config_of_copy(log_config) if log.is_future else log_config)
        # Without the lock: to wait for the end of a cleaning takes long, and other logs are made meanwhile.
        if self.cleaner is not None:
            for topic_partition in no_longer_compacted:
                self.cleaner.manager.abort(topic_partition)

    def reconfigure(self, config: LogManagerConfig) -> None:
        """Take new threads per directory, and the new settings of producers; intervals stay as they were at start."""
        self._config = replace(
            self._config,
            recovery_threads_per_dir=config.recovery_threads_per_dir,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            verifies_transactions=config.verifies_transactions,
        )

    def async_delete(self, topic_partition: TopicPartition) -> None:
        """Remove a partition's logs and rename their directories; the files are deleted after file.delete.delay.ms.

        These are its current log and, while it moves to another log directory, its future log. Raises ApiError:
        KAFKA_STORAGE_ERROR, also when the current log may be in a directory that has failed.
        """
        # Out of the table first, so that no thread finds the log any more. Then the cleaner, which may be in the middle
        # of it, without any lock: it needs the log's lock to finish its swap. Then the directory.
        with self._creation_lock:
            log = self._table.remove(topic_partition)
        self._drop_future(topic_partition)
        if log is not None:
            if self.cleaner is not None:
                self.cleaner.manager.abort(topic_partition)
                self.cleaner.manager.update_checkpoints(log.parent_dir, topic_partition)
            self._deletion.delete(log)
        elif offline := self.directories.offline_paths():
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Failed to delete log for {topic_partition} because it may be in one of the offline directories"
                f" {','.join(offline)}",
            )

    def _drop_future(self, topic_partition: TopicPartition) -> None:
        """Delete the future log of a deleted partition. A disk error there does not keep the current log."""
        # A future log that stayed would bring the deleted topic's records into a new topic of the name, once a broker
        # goes on with the move. One that cannot be deleted is marked stray by the start that finds the new topic.
        try:
            self.give_up_move(topic_partition)
        except ApiError as error:
            logger.warning("The future log of %s was not deleted: %s", topic_partition, error)

    # -- truncation, with the cleaner kept away

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Drop everything of a log from `offset` on; True if there was something. Call without the log's lock.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        log = self.get_log(topic_partition)
        if log is None:
            return False
        # The cleaner never touches the active segment.
        if offset >= log.local.segments.active.base_offset:
            return log.truncate_to(offset)
        with self._cleaning_paused(log):
            return log.truncate_to(offset)

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None:
        """Drop everything of a log, which begins anew at `offset`. Call without the log's lock.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        log = self.get_log(topic_partition)
        if log is not None:
            with self._cleaning_paused(log):
                log.truncate_fully_and_start_at(offset)

    @contextmanager
    def _cleaning_paused(self, log: UnifiedLog) -> Iterator[None]:
        """Keep the cleaner away from a log whose end is cut off; afterwards the cut part does not count as clean."""
        cleaner = self.cleaner
        if cleaner is None:
            yield
            return
        cleaner.manager.abort_and_pause(log.topic_partition)
        try:
            yield
            active = log.local.segments.active
            cleaner.manager.maybe_truncate_checkpoint(log.parent_dir, log.topic_partition, active.base_offset)
        finally:
            cleaner.manager.resume([log.topic_partition])

    # -- moves into another log directory

    def begin_move(self, log: UnifiedLog, log_dir: str) -> UnifiedLog:
        """Make the copy of a log in another log directory, and keep the cleaner away from the log until the move ends.

        Raises ApiError: KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION.
        """
        # Not while a directory is offline: it may hold another copy.
        self._refuse_if_offline(log.topic_partition, is_new=False)
        future = self.futures.create(log, log_dir)
        self.pause_cleaning(log.topic_partition)
        return future

    def complete_move(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Put the copy in the place of the log's files; False when the move was given up meanwhile.

        Call without the log's lock. Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        source = log.parent_dir
        if not self.futures.complete(log, future):
            return False
        if self.cleaner is not None:
            self.cleaner.manager.alter_checkpoint_dir(log.topic_partition, source, log.parent_dir)
        self._resume_cleaning(log.topic_partition)
        return True

    def give_up_move(self, topic_partition: TopicPartition) -> None:
        """Delete the copy of a log, if there is one; the log stays. Raises ApiError: KAFKA_STORAGE_ERROR."""
        try:
            self.futures.drop(topic_partition)
        finally:
            self._resume_cleaning(topic_partition)

    def pause_cleaning(self, topic_partition: TopicPartition) -> None:
        """Keep the cleaner away from a log that is moving: the copy is of the segments as they are."""
        if self.cleaner is not None:
            self.cleaner.manager.abort_and_pause(topic_partition)
            with self._creation_lock:
                self._paused.add(topic_partition)

    def _resume_cleaning(self, topic_partition: TopicPartition) -> None:
        # A move may end twice, as by a failed directory and a deletion, and one that an earlier run has begun may end
        # before it goes on.
        with self._creation_lock:
            was_paused = topic_partition in self._paused
            self._paused.discard(topic_partition)
        if was_paused and self.cleaner is not None:
            self.cleaner.manager.resume([topic_partition])

    # -- failed directories

    def fail_log_dir(self, log_dir: str) -> list[TopicPartition]:
        """Remove a directory's logs, close their files, unlock the directory; return the partitions.

        A partition that had its future log alone there is not among them: its current log serves on.
        """
        self.directories.take_offline(log_dir)
        if self.cleaner is not None:
            self.cleaner.manager.handle_log_dir_failure(log_dir)
        # Under the lock, so that a log that was being made there is in the table by now.
        with self._creation_lock:
            failed = self._table.remove_dir(log_dir)
        # Without a flush or a checkpoint: the disk cannot be trusted, and the next start recovers the logs.
        for log in failed:
            log.close_handlers()
        for log in failed:
            if log.is_future:
                self._resume_cleaning(log.topic_partition)
        self.directories.release(log_dir)
        partitions = [log.topic_partition for log in failed if not log.is_future]
        logger.warning("Logs for partitions %s are offline: log directory %s has failed", partitions, log_dir)
        return partitions


def _flush_and_close(log: UnifiedLog) -> None:
    log.flush()
    log.close()
