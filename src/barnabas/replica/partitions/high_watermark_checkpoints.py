"""The high watermarks on disk: `replication-offset-checkpoint`, one file per log directory.

Called by ReplicaManager. Files are written by the scheduler's thread and at shutdown, and read once per directory, when
the first of its partitions is opened. `_lock` guards the cache of what was read and the order of writes.

Kafka: ReplicaManager.checkpointHighWatermarks, OffsetCheckpoints.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.partition import Partition
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import HIGH_WATERMARK_FILE, MalformedCheckpoint, OffsetCheckpointFile

logger = logging.getLogger(__name__)


class HighWatermarkCheckpoints:
    """The checkpoint file of each log directory, read and written.

    on_failure: called with the directory, the task and the error when a file cannot be written.
    """

    def __init__(self, files: Files, on_failure: Callable[[str, str, OSError], None]) -> None:
        self._files = files
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._read: dict[str, dict[TopicPartition, int]] = {}
        self._written: dict[str, dict[TopicPartition, int]] = {}
        """What was written last: a directory whose high watermarks have not moved since is not written again."""

    def read(self, log_dir: str) -> dict[TopicPartition, int]:
        """Return the high watermarks of `log_dir` at the broker's start; none when there is no readable file.

        Raises OSError when the disk fails. Without a file a high watermark starts at 0 and rises again when the leader
        knows its followers, as in Kafka.
        """
        with self._lock:
            if log_dir not in self._read:
                try:
                    self._read[log_dir] = self._file(log_dir).read()
                except MalformedCheckpoint as error:
                    logger.warning("high watermarks start at 0: %s", error)
                    self._read[log_dir] = {}
            return self._read[log_dir]

    def write(self, partitions: Iterable[Partition], log_dirs: Iterable[str]) -> None:
        """Write the file of every directory.

        A directory that cannot be written is reported, and the others are written. The file of a directory without
        opened partitions stays as the last run of the broker left it, to be read.
        """
        by_dir: dict[str, dict[TopicPartition, int]] = {log_dir: {} for log_dir in log_dirs}
        for partition in partitions:
            log = partition.log
            offsets_of_dir = by_dir.get(log.parent_dir)
            if offsets_of_dir is not None:
                offsets_of_dir[partition.topic_partition] = log.high_watermark
        with self._lock:
            for log_dir, offsets in by_dir.items():
                if self._written.get(log_dir, {}) == offsets:
                    continue
                try:
                    self._file(log_dir).write(offsets)
                except OSError as error:
                    self._on_failure(log_dir, f"writing {HIGH_WATERMARK_FILE}", error)
                else:
                    self._written[log_dir] = offsets

    def _file(self, log_dir: str) -> OffsetCheckpointFile:
        return OffsetCheckpointFile(log_dir, HIGH_WATERMARK_FILE, self._files)
