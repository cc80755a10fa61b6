"""The high watermarks on disk: `replication-offset-checkpoint`, one file per log directory.

Called by ReplicaManager: written by the scheduler's thread and at shutdown, read once per directory when the first
of its partitions is opened. `_lock` guards the cache of what was read and the order of writes.

Kafka: ReplicaManager.checkpointHighWatermarks, OffsetCheckpoints.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

FILE_NAME = "replication-offset-checkpoint"


class HighWatermarkCheckpoints:
    """Reads and writes the checkpoint file of each live log directory."""

    def __init__(self, log_manager: LogManager) -> None:
        self._log_manager = log_manager
        self._lock = threading.Lock()
        self._read: dict[str, dict[TopicPartition, int]] = {}

    def read(self, log_dir: str) -> dict[TopicPartition, int]:
        """High watermarks of `log_dir` as of the broker's start; empty when there is no file."""
        with self._lock:
            if log_dir not in self._read:
                self._read[log_dir] = self._log_manager.checkpoint_file(log_dir, FILE_NAME).read()
            return self._read[log_dir]

    def write(self, partitions: Iterable[Partition]) -> None:
        """Write every directory's file; a directory that cannot be written is logged, and does not stop the rest."""
        by_dir: dict[str, dict[TopicPartition, int]] = {log_dir: {} for log_dir in self._log_manager.live_log_dirs}
        for partition in partitions:
            log = partition.log
            if log.parent_dir in by_dir:
                by_dir[log.parent_dir][partition.topic_partition] = log.high_watermark
        with self._lock:
            for log_dir, offsets in by_dir.items():
                try:
                    self._log_manager.checkpoint_file(log_dir, FILE_NAME).write(offsets)
                except OSError:
                    logger.exception("writing %s in %s failed", FILE_NAME, log_dir)
