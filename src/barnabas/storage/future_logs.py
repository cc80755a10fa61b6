"""The copies of logs that are on their way into another log directory, and the directories that new logs are to take.

Owned by LogManager. Copies are made, ended and dropped under LogManager's lock of creations, which is handed in as
`creation_lock` and comes before the locks of logs; `get` takes no lock. The threads that move logs call `copy` and
`complete`. Kafka: LogManager's futureLogs and preferredLogDirs, replaceCurrentWithFutureLog.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.runtime.files import Files
from barnabas.storage.directories.deletion import LogDeletion
from barnabas.storage.directories.log_dirs import LogCheckpoints, LogDirectories
from barnabas.storage.file_names import MOVED_FROM_FILE, future_dir_name
from barnabas.storage.log.failures import READ_ERRORS
from barnabas.storage.log.move import copy_batches
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_opener import LogOpener
from barnabas.storage.log_table import LogTable
from barnabas.storage.segment.index_file import CorruptIndex

logger = logging.getLogger(__name__)

MAX_PREFERRED: Final = 10_000
"""The partitions whose directories are remembered before they are made."""


class FutureLogs:
    """The copies in `table`, of logs in it."""

    def __init__(
        self,
        table: LogTable,
        creation_lock: threading.Lock,
        directories: LogDirectories,
        opener: LogOpener,
        deletion: LogDeletion,
        checkpoints: LogCheckpoints,
        files: Files,
    ) -> None:
        self._table = table
        self._creation_lock = creation_lock
        self._directories = directories
        self._opener = opener
        self._deletion = deletion
        self._checkpoints = checkpoints
        self._files = files
        self._preferred: dict[TopicPartition, str] = {}
        self.get = table.get_future
        """The look-up of a partition's copy; None when its log is not being moved."""

    # -- directories

    def check_directory(self, log_dir: str) -> None:
        """Check that logs can move into `log_dir`. Raises ApiError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR."""
        if log_dir not in self._directories.paths:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {log_dir} is not found in the config.")
        if not self._directories.is_online(log_dir):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {log_dir} is offline")

    def prefer(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """Have the partition's log made in `log_dir`, should it be made later."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = log_dir
        # Clients name partitions that may never be made: the oldest wish goes.
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def take_preferred(self, topic_partition: TopicPartition) -> str | None:
        """Return the directory in which the partition's log is to be made, and forget it."""
        return self._preferred.pop(topic_partition, None)

    # -- copies

    def create(self, log: UnifiedLog, log_dir: str) -> UnifiedLog:
        """Make the empty copy of a log. Raises ApiError: KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION."""
        name = future_dir_name(log.topic_partition, self._deletion.unique())
        if name is None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The name of topic {log.topic_partition.topic} is too long for a copy in another log directory",
            )
        with self._creation_lock:
            future = self._opener.create_future(log, log_dir, name)
            if log.topic_id is not None:
                future.assign_topic_id(log.topic_id)
            self._table.add(future)
        return future

    def copy(self, log: UnifiedLog, future: UnifiedLog, max_bytes: int) -> int:
        """Append the next batches to the copy; return their bytes, 0 at the end of the log.

        Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        try:
            return copy_batches(log, future, max_bytes)
        except READ_ERRORS as error:
            code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else ErrorCode.CORRUPT_MESSAGE
            raise ApiError(code, f"{log} cannot be copied: {error}") from error

    def complete(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Copy the rest under the log's lock, and put the copy in the place of the log's files.

        False when the copy, or the log, was dropped meanwhile. Raises ApiError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE;
        then the log is where it was. Otherwise it is in the copy's directory. That one has failed when the new name may
        not be on stable storage, and then nothing is appended until a start has looked which name is.
        """
        source, destination = log.parent_dir, future.parent_dir
        if not self._is_moving(log, future):
            return False
        # Long syncs come before the lock: what is appended meanwhile is little.
        future.flush()
        with self._creation_lock:
            if not self._is_moving(log, future):
                return False
            with log.lock, future.lock:
                while self.copy(log, future, 2**20):
                    pass
                is_durable = self._exchange(log, future)
            self._table.take_place(log, source)
            if not is_durable:
                return True
            self._remove_old_files(log, future)
        for log_dir in (source, destination):
            try:
                self._checkpoints.write_both(log_dir)
            except OSError as error:
                self._directories.failed(log_dir, "writing the checkpoints after a move", error)
        logger.info("The log of %s has moved from %s to %s", log.topic_partition, source, destination)
        return True

    def _is_moving(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        key = log.topic_partition
        return self._table.get_future(key) is future and self._table.get(key) is log

    # The steps of the exchange, and what a start finds after a crash:
    #
    #     | done                                        | on disk                       | a start                      |
    #     | the copy is whole and flushed               | the log, `-future`            | goes on with the move        |
    #     | the mark `moved-from` is in the copy        | the same                      | the same                     |
    #     | the copy has the log's name                 | two logs, one with the mark   | keeps the one with the mark  |
    #     | the old directory is `-delete`              | the log with the mark         | removes the mark             |
    #     | the mark is removed                         | the log                       | nothing                      |
    #
    # The log's lock is held until the copy has the log's name, and nothing is appended before. Each line is on stable
    # storage before the next begins.

    def _exchange(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Rename the copy to the log's name, and exchange the files in memory. Under both locks.

        False: the new name may not be on stable storage; both are closed. Raises ApiError: KAFKA_STORAGE_ERROR,
        CORRUPT_MESSAGE; then the log is where it was.
        """
        destination = future.parent_dir
        path = os.path.join(destination, str(log.topic_partition))
        future.flush()
        try:
            future.update_high_watermark(log.high_watermark)
            future.local.position_of(log.high_watermark)  # finds a copy that is damaged where its readers wait
            self._files.write_atomically(os.path.join(future.directory, MOVED_FROM_FILE), os.fsencode(log.directory))
            self._files.rename(future.directory, path)
        except OSError as error:
            self._directories.failed(destination, f"moving {log.topic_partition}", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} cannot be moved: {error}") from error
        except (CorruptRecord, CorruptIndex) as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log} cannot be moved, its copy is damaged: {error}") from error
        # The next start keeps the copy and deletes the old files. So nothing may be appended to the old files any more.
        future.moved_to(path)
        log.exchange_files(future)
        try:
            self._files.sync_dir(destination)
        except OSError:
            # After a loss of power a start may find the old name, and take the old files for the log. They have every
            # record as long as none is appended to the new ones.
            logger.exception("The move of %s into %s may not be on stable storage", log.topic_partition, destination)
            log.close_handlers()
            future.close_handlers()
            self._directories.give_up(destination)
            return False
        return True

    def _remove_old_files(self, log: UnifiedLog, future: UnifiedLog) -> None:
        """Delete the old files of a log that has moved, which `future` has now. A failure is reported."""
        try:
            self._deletion.delete(future)
            self._files.unlink(os.path.join(log.directory, MOVED_FROM_FILE))
        except ApiError:
            # The old log directory has failed, which is reported. The mark stays: at the next start it tells that the
            # files there are old.
            logger.exception("The old files of %s could not be removed", log)
        except OSError as error:
            self._directories.failed(log.parent_dir, f"completing the move of {log.topic_partition}", error)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Give a move up, and delete its copy. Raises ApiError: KAFKA_STORAGE_ERROR."""
        self._preferred.pop(topic_partition, None)
        with self._creation_lock:
            future = self._table.remove_future(topic_partition)
        if future is not None:
            self._deletion.delete(future)

    def all(self) -> list[UnifiedLog]:
        """Return every copy, as of now."""
        return self._table.futures()
