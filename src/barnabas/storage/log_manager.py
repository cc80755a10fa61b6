"""All logs of a broker: opens them at start, makes and deletes them, runs their background tasks, closes them.

The only way to a log. Start and shutdown run on the broker's thread; logs are made and deleted by the replica layer,
looked up by every thread. The map of logs is replaced under `_lock` and read without. Lock order: `_lock`, logs' locks,
the directories' checkpoint locks; `_lock` is never held while waiting for a log that others know. Kafka: LogManager.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.clean_shutdown import NO_BROKER_EPOCH, write_clean_shutdown
from barnabas.storage.directory_lock import DirectoryLock
from barnabas.storage.file_names import deleted_dir_name
from barnabas.storage.index_pages import IndexPages
from barnabas.storage.log_directory import Lock, LogDirectory
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_loader import LoadTerms, load_log
from barnabas.storage.log_manager_config import LogManagerConfig
from barnabas.storage.meta_properties import MetaProperties, check_meta_properties, write_meta_properties
from barnabas.storage.open_files import OpenFiles
from barnabas.storage.segment_factory import SegmentFactory
from barnabas.storage.unified_log import UnifiedLog

logger = logging.getLogger(__name__)


class LogManager:
    """The logs in `log_dirs`.

    topic_config: the settings of a topic whose log is opened; the default ones if not given. on_log_dir_failure: told
    once about a directory with a disk error, perhaps while locks are held: it must only note it and call
    `fail_log_dir` from a thread of its own. chance: for roll jitter and names.
    """

    def __init__(
        self,
        log_dirs: Sequence[str],
        files: Files,
        scheduler: Scheduler,
        clock: Clock,
        config: LogManagerConfig,
        default_log_config: LogConfig,
        *,
        topic_config: Callable[[str], LogConfig] | None = None,
        on_log_dir_failure: Callable[[str], None] | None = None,
        lock_directory: Callable[[str], Lock] = DirectoryLock,
        chance: random.Random | None = None,
    ) -> None:
        self._paths = [os.path.abspath(path) for path in log_dirs]
        self._files = files
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self._topic_config = topic_config or (lambda _topic: default_log_config)
        self._on_log_dir_failure = on_log_dir_failure or (lambda _log_dir: None)
        self._lock_directory = lock_directory
        self._random = chance or random.Random()
        self._lock = threading.Lock()
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._directories: dict[str, LogDirectory] = {}
        self._doomed: list[str] = []
        """Directories that an earlier run's deletions left over; filled at start, before anything else runs."""
        factory = SegmentFactory(OpenFiles(files, config.open_files), IndexPages(), clock, self._random)
        self._environment = LogEnvironment(
            files, clock, scheduler, factory, self._directory_failed, self._write_checkpoints
        )

    # -- start and shutdown

    def startup(self) -> None:
        """Lock the directories, load all logs (recover those of a crashed broker) and begin the background tasks.

        Directories that cannot be used are left out. Raises LogDirectoryLocked; OSError when no directory is left.
        """
        self.open_directories()
        for directory in self._online():
            self._load_logs(directory)
        self._schedule_tasks()

    def open_directories(self) -> None:
        """Make and lock the directories; `startup` does it, unless it was done to look at their `meta.properties`."""
        if self._directories:
            return
        failures: list[OSError] = []
        for path in self._paths:
            try:
                self._directories[path] = LogDirectory(path, self._files, self._lock_directory)
            except OSError as error:
                logger.exception("Log directory %s cannot be used", path)
                failures.append(error)
        if not self._directories:
            raise failures[0]

    def check_and_write_meta_properties(self, cluster_id: str, broker_id: int) -> None:
        """See that every directory belongs to this broker of this cluster, and mark the new ones.

        Raises InconsistentMetaProperties, OSError.
        """
        self.open_directories()
        found = {directory.path: directory.meta_properties() for directory in self._online()}
        check_meta_properties(found, cluster_id, broker_id)
        for path, present in found.items():
            wanted = MetaProperties(cluster_id, broker_id, present.directory_id if present else None)
            if present != wanted:
                write_meta_properties(self._files, path, wanted)

    def meta_properties(self) -> Mapping[str, MetaProperties | None]:
        """What the directories say about their broker, before it knows itself. Raises as above."""
        self.open_directories()
        return {directory.path: directory.meta_properties() for directory in self._online()}

    def shutdown(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close all logs, write the checkpoints, mark the directories as closed in order, unlock them.

        A directory whose logs were never loaded keeps the checkpoints and the mark it had.
        """
        logger.info("Shutting down.")
        for directory in [directory for directory in self._online() if directory.is_loaded]:
            try:
                for log in self._logs_in(directory.path):
                    log.flush()
                    log.close()
                self._write_recovery_points(directory)
                self._write_log_start_offsets(directory)
                write_clean_shutdown(self._files, directory.path, broker_epoch)
            except (OSError, ApiError):
                logger.exception("Could not close %s in order; its logs will be recovered", directory.path)
        for directory in self._directories.values():
            directory.release()
        logger.info("Shutdown complete.")

    def _load_logs(self, directory: LogDirectory) -> None:
        """Load the logs of one directory; a disk error takes the whole directory out."""
        started_ns = self._clock.nanoseconds()
        try:
            directory.open()
            for path in directory.deleted_dirs():
                self._doomed.append(path)
            found = directory.partition_dirs()
            logs = dict(self._logs)
            for number, (topic_partition, path) in enumerate(found, start=1):
                if topic_partition in logs:
                    raise OSError(f"Duplicate log directories found: {path}, {logs[topic_partition].directory}")
                logs[topic_partition] = log = self._load_log(directory, topic_partition, path)
                logger.info("Completed load of %s (%d/%d loaded in %s)", log, number, len(found), directory.path)
        except OSError as error:
            self._directory_failed(directory.path, "loading logs", error)
            self.fail_log_dir(directory.path)
            if not self._online():
                raise
            return
        with self._lock:
            self._logs = logs
        directory.is_loaded = True
        took_ms = (self._clock.nanoseconds() - started_ns) // 1_000_000
        logger.info("Loaded %d logs of %s in %dms", len(found), directory.path, took_ms)

    def _load_log(self, directory: LogDirectory, topic_partition: TopicPartition, path: str) -> UnifiedLog:
        terms = directory.load_terms(topic_partition)
        try:
            return load_log(path, topic_partition, self._topic_config(topic_partition.topic), terms, self._environment)
        except MalformedCheckpoint as error:
            raise OSError(str(error)) from error

    # -- logs

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """The partition's log, None when there is none here, or only in a directory that failed."""
        return self._logs.get(topic_partition)

    def all_logs(self) -> list[UnifiedLog]:
        """Every log, as of now."""
        return list(self._logs.values())

    @property
    def live_log_dirs(self) -> list[str]:
        """The directories without a disk error."""
        return [directory.path for directory in self._online()]

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
        with self._lock:
            log = self._logs.get(topic_partition)
            if log is None:
                offline = [path for path in self._paths if path not in self.live_log_dirs]
                if offline and not is_new:
                    raise ApiError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"Can not create log for {topic_partition} because log directories {offline} are offline",
                    )
                log = self._create_log(topic_partition, log_config or self._topic_config(topic_partition.topic))
                self._logs = {**self._logs, topic_partition: log}
        if topic_id is not None and log.topic_id != topic_id:
            log.assign_topic_id(topic_id)
        return log

    def _create_log(self, topic_partition: TopicPartition, config: LogConfig) -> UnifiedLog:
        log_dir = self._emptiest_log_dir()
        path = os.path.join(log_dir, str(topic_partition))
        try:
            if self._directories[log_dir].remembers(topic_partition):
                # Of a deleted topic of this name: a crash would take the new log's batches for flushed, or deleted.
                self._write_checkpoints(log_dir)
            self._files.make_dirs(path)
            log = load_log(path, topic_partition, config, LoadTerms(had_clean_shutdown=True), self._environment)
        except OSError as error:
            self._directory_failed(log_dir, f"creating the log of {topic_partition}", error)
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Error while creating log for {topic_partition} in dir {log_dir}: {error}",
            ) from error
        logger.info("Created log for partition %s in %s", topic_partition, path)
        return log

    def _emptiest_log_dir(self) -> str:
        counts = {directory.path: 0 for directory in self._online()}
        if not counts:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online")
        if len(counts) > 1:
            for log in self._logs.values():
                if log.parent_dir in counts:
                    counts[log.parent_dir] += 1
        return min(counts, key=counts.__getitem__)

    def update_log_config(self, topic: str, log_config: LogConfig) -> None:
        """The topic has these settings now."""
        for log in self.all_logs():
            if log.topic_partition.topic == topic:
                log.update_config(log_config)

    def async_delete(self, topic_partition: TopicPartition) -> None:
        """Take the log out and rename its directory; the files go after file.delete.delay.ms.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        with self._lock:
            logs = dict(self._logs)
            log = logs.pop(topic_partition, None)
            self._logs = logs
        if log is None:
            return
        unique = f"{self._random.getrandbits(128):032x}"
        path = os.path.join(log.parent_dir, deleted_dir_name(topic_partition, unique))
        try:
            with log.lock:
                log.close_handlers()
                self._files.rename(log.directory, path)
                log.moved_to(path)
            self._files.sync_dir(log.parent_dir)
        except OSError as error:
            self._directory_failed(log.parent_dir, f"deleting the log of {topic_partition}", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Error while deleting {topic_partition}: {error}") from error
        logger.info("Log for partition %s is renamed to %s and is scheduled for deletion", topic_partition, path)
        self._scheduler.schedule(
            "delete-log", lambda: self._delete_directory(path), delay_ms=log.config.file_delete_delay_ms
        )

    def _delete_leftovers(self) -> None:
        """Remove the directories of logs that an earlier run deleted and had no time to remove."""
        doomed, self._doomed = self._doomed, []
        for path in doomed:
            self._delete_directory(path)

    def _delete_directory(self, path: str) -> None:
        try:
            self._files.remove_tree(path)
            logger.info("Deleted log in %s", path)
        except OSError as error:
            self._directory_failed(os.path.dirname(path), f"deleting {path}", error)

    # -- checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write `recovery-point-offset-checkpoint` of every directory."""
        self._checkpoint(self._write_recovery_points, "recovery points")

    def checkpoint_log_start_offsets(self) -> None:
        """Write `log-start-offset-checkpoint` of every directory."""
        self._checkpoint(self._write_log_start_offsets, "log start offsets")

    def _checkpoint(self, write: Callable[[LogDirectory], None], what: str) -> None:
        for directory in self._online():
            try:
                write(directory)
            except OSError as error:
                self._directory_failed(directory.path, f"writing checkpoint of {what}", error)

    def _write_recovery_points(self, directory: LogDirectory) -> None:
        directory.write_recovery_points(
            lambda: {log.topic_partition: log.recovery_point for log in self._logs_in(directory.path)}
        )

    def _write_log_start_offsets(self, directory: LogDirectory) -> None:
        """Only those that differ from what the first segment's name says."""
        directory.write_log_start_offsets(
            lambda: {
                log.topic_partition: log.log_start_offset
                for log in self._logs_in(directory.path)
                if log.log_start_offset > log.local.segments.first.base_offset
            }
        )

    def _write_checkpoints(self, log_dir: str) -> None:
        directory = self._directories[log_dir]
        self._write_recovery_points(directory)
        self._write_log_start_offsets(directory)

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
        )
        for name, task, period_ms in tasks:
            if period_ms < 2**63 - 1:
                scheduler.schedule(name, task, delay_ms=delay_ms, period_ms=period_ms)
        scheduler.schedule("kafka-delete-logs", self._delete_leftovers, delay_ms=delay_ms)

    def cleanup_logs(self) -> None:
        """Delete what retention no longer wants, in every log."""
        total = 0
        for log in self.all_logs():
            try:
                total += log.delete_old_segments()
            except ApiError as error:
                logger.warning("Retention of %s failed: %s", log, error)
        if total:
            logger.info("Log cleanup deleted %d segments", total)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is `flush.ms` ago."""
        now_ms = self._clock.milliseconds()
        for log in self.all_logs():
            if now_ms - log.last_flush_ms >= log.config.flush_ms and log.recovery_point < log.log_end_offset:
                try:
                    log.flush()
                except ApiError as error:
                    logger.warning("Flushing %s failed: %s", log, error)

    # -- failed directories

    def fail_log_dir(self, log_dir: str) -> list[TopicPartition]:
        """Take a directory's logs out and close their files; returns their partitions."""
        directory = self._directories.get(log_dir)
        if directory is not None:
            directory.is_online = False
        with self._lock:
            failed = {key: log for key, log in self._logs.items() if log.parent_dir == log_dir}
            self._logs = {key: log for key, log in self._logs.items() if key not in failed}
        for log in failed.values():
            log.close_handlers()
        logger.warning("Log directory %s is offline, with %d logs", log_dir, len(failed))
        return list(failed)

    def _directory_failed(self, log_dir: str, doing: str, error: OSError) -> None:
        logger.error("Error while %s in %s", doing, log_dir, exc_info=error)
        directory = self._directories.get(log_dir)
        if directory is not None and directory.is_online:
            directory.is_online = False
            self._on_log_dir_failure(log_dir)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories.values() if directory.is_online]

    def _logs_in(self, log_dir: str) -> list[UnifiedLog]:
        return [log for log in self.all_logs() if log.parent_dir == log_dir]
