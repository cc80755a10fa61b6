"""The content of DescribeLogDirs: the error of each log directory, its space, and the size of every replica in it.

Called by ReplicaManager on handler threads; reads only what is immutable or locked elsewhere, so no lock.
Kafka: ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

UNKNOWN_BYTES = -1
UNKNOWN_LAG = -1


class ReplicaSize(NamedTuple):
    """The size of a replica: bytes of its log files.

    offset_lag: how far the log's end is behind the high watermark. Of a future log (`is_future`): how far it is behind
    the end of the partition's current log, -1 when the broker has no current log.
    """

    topic_partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A directory of `log.dirs`. total_bytes and usable_bytes: of its file system, -1 when it has failed."""

    path: str
    error: ErrorCode
    total_bytes: int
    usable_bytes: int
    replicas: list[ReplicaSize]


def describe_log_dirs(
    log_manager: LogManager, files: Files, partitions: Collection[TopicPartition] | None
) -> list[LogDirDescription]:
    """Describe every directory, with those of its replicas that are among `partitions` (None: all)."""
    live = set(log_manager.directories.online_paths())
    return [
        _describe(log_manager, files, path, partitions) if path in live else _failed(path)
        for path in log_manager.directories.paths
    ]


def _describe(
    log_manager: LogManager, files: Files, path: str, partitions: Collection[TopicPartition] | None
) -> LogDirDescription:
    try:
        total_bytes, usable_bytes = files.total_bytes(path), files.free_bytes(path)
    except OSError:
        # The directory failed just now, and the failure handler has not yet removed it from the live ones.
        logger.exception("Error while describing replica in dir %s", path)
        return _failed(path)
    replicas = [
        _size_of(log, log_manager)
        for log in log_manager.logs_in(path)
        if partitions is None or log.topic_partition in partitions
    ]
    return LogDirDescription(path, ErrorCode.NONE, total_bytes, usable_bytes, replicas)


def _size_of(log: UnifiedLog, log_manager: LogManager) -> ReplicaSize:
    is_future = log.is_future
    if is_future:
        current = log_manager.get_log(log.topic_partition)
        lag = UNKNOWN_LAG if current is None else current.log_end_offset - log.log_end_offset
    else:
        lag = max(log.high_watermark - log.log_end_offset, 0)
    return ReplicaSize(log.topic_partition, log.local.segments.size, lag, is_future)


def _failed(path: str) -> LogDirDescription:
    return LogDirDescription(path, ErrorCode.KAFKA_STORAGE_ERROR, UNKNOWN_BYTES, UNKNOWN_BYTES, [])
