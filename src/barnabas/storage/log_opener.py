"""Opens logs: those that lie in a log directory at start, and new ones.

Owned by LogManager; `load` is called by the threads that load logs, `create` and `create_future` under LogManager's
lock of creations.
Kafka: LogManager.loadLog, getOrCreateLog.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.storage.checkpoints import MalformedCheckpoint
from barnabas.storage.directories.log_dir import LogDirectory
from barnabas.storage.directories.log_dirs import LogDirectories
from barnabas.storage.directories.offset_checkpoints import LogCheckpoints
from barnabas.storage.file_names import is_future_dir
from barnabas.storage.log.loader import load_log
from barnabas.storage.log.log_recovery import LoadTerms
from barnabas.storage.log.move import config_of_copy
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_environment import LogEnvironment
from barnabas.storage.log_table import LogTable
from barnabas.storage.segment.index_file import CorruptIndex

logger = logging.getLogger(__name__)

BEHIND_EVERYTHING = 2**63 - 2
"""A recovery point that leaves only the active segment to be recovered."""


class LogOpener:
    """Opens the logs of `directories`. topic_config: the settings of a topic that has no log here yet."""

    def __init__(
        self,
        directories: LogDirectories,
        table: LogTable,
        checkpoints: LogCheckpoints,
        environment: LogEnvironment,
        topic_config: Callable[[str], LogConfig],
    ) -> None:
        self._directories = directories
        self._table = table
        self._checkpoints = checkpoints
        self._environment = environment
        self._topic_config = topic_config

    def load(self, topic_partition: TopicPartition, path: str, directory: LogDirectory) -> UnifiedLog:
        """Open the log, current or future, that lies in `path`.

        A log that was closed in order is opened without a look at its batches. Where that fails, its active segment
        is recovered as after a crash. Raises OSError, MalformedCheckpoint, CorruptRecord, CorruptIndex.
        """
        terms = directory.load_terms(topic_partition)
        config = self.config_of(topic_partition.topic)
        if is_future_dir(path):
            config = config_of_copy(config)
        try:
            return load_log(path, topic_partition, config, terms, self._environment)
        except (CorruptRecord, CorruptIndex) as error:
            if not terms.had_clean_shutdown:
                raise
            logger.warning("%s was closed in order and is damaged (%s): recovering its active segment", path, error)
            # The checkpoints of a clean stop cover the whole log, so that nothing would be checked. With a recovery
            # point behind everything, the active segment alone is walked, and cut where it is damaged.
            damaged = LoadTerms(False, BEHIND_EVERYTHING, terms.log_start_offset)
            return load_log(path, topic_partition, config, damaged, self._environment)

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings that the topic's other logs have, which are kept up to date, or else `topic_config`."""
        sibling = self._table.any_of_topic(topic)
        return self._topic_config(topic) if sibling is None else sibling.config

    def create(
        self, topic_partition: TopicPartition, config: LogConfig, preferred_dir: str | None = None
    ) -> UnifiedLog:
        """Make a log in `preferred_dir`; None: in the directory that holds the fewest, or, where that fails, the next.

        Raises ApiError: KAFKA_STORAGE_ERROR when no directory takes it.
        """
        online = self._directories.online_paths()
        tried = [preferred_dir] if preferred_dir in online else sorted(online, key=self._table.count_in)
        for log_dir in tried:
            log = self._create_in(log_dir, str(topic_partition), topic_partition, config)
            if log is not None:
                return log
        raise ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directories available for {topic_partition}. Tried {', '.join(tried)}",
        )

    def create_future(self, log: UnifiedLog, log_dir: str, name: str) -> UnifiedLog:
        """Make the empty copy of a log, in the directory `name` of `log_dir`. Raises ApiError: KAFKA_STORAGE_ERROR."""
        future = self._create_in(log_dir, name, log.topic_partition, config_of_copy(log.config))
        if future is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Could not create {name} in {log_dir}")
        return future

    def _create_in(
        self, log_dir: str, name: str, topic_partition: TopicPartition, config: LogConfig
    ) -> UnifiedLog | None:
        """Make a log in a directory called `name`; None when the log directory fails, which is reported."""
        path = os.path.join(log_dir, name)
        terms = LoadTerms(had_clean_shutdown=True)
        try:
            if self._directories[log_dir].has_checkpoint_of(topic_partition):
                # The entry is that of a deleted topic of this name. After a crash, batches of the new log below the old
                # offsets would count as flushed, or as deleted.
                self._checkpoints.write_both(log_dir)
            # No sync here: the first flush syncs the directory entry together with the records.
            self._environment.files.make_dirs(path)
            log = load_log(path, topic_partition, config, terms, self._environment)
        except (OSError, MalformedCheckpoint) as error:
            failed = error if isinstance(error, OSError) else OSError(str(error))
            self._directories.failed(log_dir, f"creating the log of {topic_partition}", failed)
            return None
        logger.info("Created log for partition %s in %s", topic_partition, path)
        return log
