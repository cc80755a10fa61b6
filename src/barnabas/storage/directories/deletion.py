"""Takes the directories of logs out of use: renamed at once, removed later.

Owned by LogManager; called on any thread, with no lock held; removals run on the scheduler. Directories that an earlier
run had no time to remove are removed after the start. Kafka: LogManager.asyncDelete, deleteLogs.
"""

from __future__ import annotations

import logging
import os
import random

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.file_names import MOVED_FROM_FILE, deleted_dir_name, stray_dir_name
from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)


class LogDeletion:
    """Renames and removes directories of logs. chance: for the unique part of the names."""

    def __init__(self, directories: LogDirectories, files: Files, scheduler: Scheduler, chance: random.Random) -> None:
        self._directories = directories
        self._files = files
        self._scheduler = scheduler
        self._random = chance

    def delete(self, log: UnifiedLog) -> None:
        """Close and rename a log that is out of the table; its files are removed after file.delete.delay.ms.

        Raises ApiError: KAFKA_STORAGE_ERROR.
        """
        topic_partition, log_dir = log.topic_partition, log.parent_dir
        path = os.path.join(log_dir, deleted_dir_name(topic_partition, self.unique()))
        try:
            self._rename(log, path)
        except OSError as error:
            self._directories.failed(log_dir, f"deleting the log of {topic_partition}", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Error while deleting {topic_partition}: {error}") from error
        logger.info("Log for partition %s is renamed to %s and is scheduled for deletion", topic_partition, path)
        self._scheduler.schedule("delete-log", lambda: self.remove(path), delay_ms=log.config.file_delete_delay_ms)

    def mark_stray(self, log: UnifiedLog) -> None:
        """Close a log and rename its directory to `-stray`, which is left to the operator. Raises OSError."""
        self._rename(log, os.path.join(log.parent_dir, stray_dir_name(log.topic_partition, self.unique())))

    def discard(self, topic_partition: TopicPartition, path: str) -> str:
        """Rename the directory of a log that is not open; return its name, for `remove`. Raises OSError."""
        log_dir = os.path.dirname(path)
        renamed = os.path.join(log_dir, deleted_dir_name(topic_partition, self.unique()))
        self._files.rename(path, renamed)
        self._files.sync_dir(log_dir)
        logger.info("%s is renamed to %s: the log has moved to another log directory", path, renamed)
        return renamed

    def moved_from(self, path: str) -> str | None:
        """Return the directory from which the log in `path` came; None when it was not moved. Raises OSError."""
        mark = os.path.join(path, MOVED_FROM_FILE)
        return os.fsdecode(self._files.read_bytes(mark)) if self._files.exists(mark) else None

    def remove(self, path: str) -> None:
        """Remove a directory that was renamed. A disk error takes the log directory offline."""
        try:
            self._files.remove_tree(path)
            logger.info("Deleted log in %s", path)
        except OSError as error:
            self._directories.failed(os.path.dirname(path), f"deleting {path}", error)

    def _rename(self, log: UnifiedLog, path: str) -> None:
        # Under the log's lock: a background write of `partition.metadata` holds it while it looks whether the log is
        # open and writes. It must not make a file under the old name after the directory has got the new one.
        with log.lock:
            log.close_handlers()
            self._files.rename(log.directory, path)
            log.moved_to(path)
        # After a crash, a deleted log must not come back in the place of a new one of the same name.
        self._files.sync_dir(log.parent_dir)

    def unique(self) -> str:
        """Return the part of a directory's name that no other directory has."""
        return f"{self._random.getrandbits(128):032x}"
