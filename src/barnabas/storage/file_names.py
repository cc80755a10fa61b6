"""Names of the files and directories of a log directory. Pure.

Used by everything in this package. Kafka: LogFileUtils, LocalLog.
"""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
"""A file of this name is removed after `file.delete.delay.ms`: its readers may not have finished."""
CLEANED_SUFFIX = ".cleaned"
"""A file that the cleaner has not finished."""
SWAP_SUFFIX = ".swap"
"""A file that the cleaner has finished and that is about to replace others."""

SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

MOVED_FROM_FILE = "moved-from"
"""A file in the directory of a log that has just moved here: it holds the path of the directory it came from. It is
removed with that directory; after a crash it tells which of the two is the log's."""

RAFT_METADATA_TOPIC = "__cluster_metadata"
"""The name of KRaft's metadata log: it lies among the partitions but is none."""
REMOTE_INDEX_CACHE_DIR = "remote-log-index-cache"
"""The directory in which tiered storage keeps indexes of remote segments."""

# The longest name that most file systems take; Kafka cuts at the same length.
_MAX_NAME_LENGTH = 255
# Enough for any 64-bit offset, so that names sort as offsets do.
_OFFSET_DIGITS = 20


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Return `00000000000000000042.log` for 42 and `.log`."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(file_name: str) -> int | None:
    """Return the offset in the name of a segment's file or a snapshot; None for other files."""
    digits = file_name.split(".", 1)[0]
    if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits)
    return None


def parse_partition_dir(name: str) -> TopicPartition | None:
    """Return the partition whose directory is called `topic-0`; None for other directories."""
    topic, dash, number = name.rpartition("-")
    if dash and topic and number.isascii() and number.isdigit():
        return TopicPartition(topic, int(number))
    return None


def parse_future_dir(name: str) -> TopicPartition | None:
    """Return the partition whose future directory is called `topic-0.<unique>-future`; None for other directories.

    `unique` has no dash and no dot. Such a directory holds the copy of a replica that is moving to this log directory.
    """
    if not is_future_dir(name):
        return None
    partition_dir, dot, unique = name.removesuffix(FUTURE_DIR_SUFFIX).rpartition(".")
    return parse_partition_dir(partition_dir) if dot and unique and "-" not in unique else None


def is_future_dir(path: str) -> bool:
    """Return whether a directory is that of a copy on its way into a log directory."""
    return path.endswith(FUTURE_DIR_SUFFIX)


def future_dir_name(topic_partition: TopicPartition, unique: str) -> str | None:
    """Return the name of the directory of a copy on its way into a log directory: `topic-0.<unique>-future`.

    None for a topic whose name leaves no room for that: unlike other names this one must not be cut, since a broker
    that starts again finds the partition by it.
    """
    name = f"{topic_partition}.{unique}{FUTURE_DIR_SUFFIX}"
    return name if len(name) <= _MAX_NAME_LENGTH else None


def deleted_dir_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return the name of the directory of a partition that is deleted: `topic-0.<unique>-delete`.

    `unique` is 32 hexadecimal digits. The topic's name is cut where the whole name would be too long for a file system.
    """
    return _unique_dir_name(topic_partition, unique, DELETE_DIR_SUFFIX)


def stray_dir_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return the name of a directory whose partition is another topic's by now: `topic-0.<unique>-stray`."""
    return _unique_dir_name(topic_partition, unique, STRAY_DIR_SUFFIX)


def _unique_dir_name(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    ending = f"-{topic_partition.partition}.{unique}{suffix}"
    return topic_partition.topic[: _MAX_NAME_LENGTH - len(ending)] + ending
