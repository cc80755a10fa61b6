"""One directory of `log.dirs`: its lock, its checkpoints, its marks, and the partitions' directories in it.

Owned by LogDirectories; used on the starting thread, by the checkpoint tasks of the scheduler, by truncations and at
shutdown. `_checkpoint_lock` orders the writes of the checkpoints and guards their known content.
Kafka: LogManager, which has these fields in maps by directory.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Protocol

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.directories.clean_shutdown import take_clean_shutdown
from barnabas.storage.directories.meta_properties import MetaProperties, read_meta_properties
from barnabas.storage.directories.reserve import DiskReserve
from barnabas.storage.file_names import (
    DELETE_DIR_SUFFIX,
    RAFT_METADATA_TOPIC,
    STRAY_DIR_SUFFIX,
    is_future_dir,
    parse_future_dir,
    parse_partition_dir,
)
from barnabas.storage.log.load_terms import LoadTerms

logger = logging.getLogger(__name__)


class Lock(Protocol):
    """A held lock on a directory."""

    def release(self) -> None:
        """Give the lock up."""


class LogDirectory:
    """A log directory that is in use.

    is_online: False from the first disk error on. is_full: no records are appended until there is room again. reserve:
    the room kept for that time. is_loaded: its logs were all opened, so it can be closed in order.
    """

    def __init__(self, path: str, files: Files, lock_directory: Callable[[str], Lock]) -> None:
        """Make the directory if need be and lock it. Raises LogDirectoryLocked, OSError."""
        self.path = path
        self.is_online = True
        self.is_full = False
        self.reserve = DiskReserve(path, files)
        self.is_loaded = False
        self._files = files
        _make_durably(files, path)
        self._lock = lock_directory(path)
        # What an earlier process kept is room for this start.
        self.reserve.release()
        self._recovery_point_file = OffsetCheckpointFile(path, RECOVERY_POINT_FILE, files)
        self._log_start_offset_file = OffsetCheckpointFile(path, LOG_START_OFFSET_FILE, files)
        self.had_clean_shutdown = False
        self._checkpoint_lock = threading.Lock()
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_start_offsets: dict[TopicPartition, int] = {}
        """The content of the checkpoint files."""

    def open(self) -> None:
        """Read the mark of a clean shutdown, which is removed, and the checkpoints. Raises OSError."""
        self.had_clean_shutdown = take_clean_shutdown(self._files, self.path) is not None
        if self.had_clean_shutdown:
            logger.info("Skipping recovery of logs in %s: clean shutdown file was found", self.path)
        self._recovery_points = self._read(self._recovery_point_file)
        self._log_start_offsets = self._read(self._log_start_offset_file)

    def load_terms(self, topic_partition: TopicPartition) -> LoadTerms:
        """Return what the checkpoints of the last run say about a log."""
        return LoadTerms(
            self.had_clean_shutdown,
            self._recovery_points.get(topic_partition, 0),
            self._log_start_offsets.get(topic_partition, 0),
        )

    def write_recovery_points(self, offsets: Callable[[], dict[TopicPartition, int]]) -> None:
        """Replace `recovery-point-offset-checkpoint`. Raises OSError.

        `offsets` is called under the lock, so that the newest offsets are written last. Nothing is written when nothing
        has changed: idle partitions cost no sync.
        """
        with self._checkpoint_lock:
            # The offsets are read under the lock: of two threads that write, the later one has the newer offsets.
            now = offsets()
            if now != self._recovery_points:
                self._recovery_point_file.write(now)
                self._recovery_points = now

    def write_log_start_offsets(self, offsets: Callable[[], dict[TopicPartition, int]]) -> None:
        """Replace `log-start-offset-checkpoint`, as `write_recovery_points` does. Raises OSError."""
        with self._checkpoint_lock:
            now = offsets()
            if now != self._log_start_offsets:
                self._log_start_offset_file.write(now)
                self._log_start_offsets = now

    def has_checkpoint_of(self, topic_partition: TopicPartition) -> bool:
        """Return whether a checkpoint file has an offset of the partition."""
        return topic_partition in self._recovery_points or topic_partition in self._log_start_offsets

    def meta_properties(self) -> MetaProperties | None:
        """Return the directory's `meta.properties`, None when it is new. Raises InconsistentMetaProperties, OSError."""
        return read_meta_properties(self._files, self.path)

    def partition_dirs(self) -> list[tuple[TopicPartition, str]]:
        """Return the partitions that have a log here, with their directories: current and future logs. Raises OSError.

        A future log beside the current log of its partition is left out: a replica moves to another log directory.
        """
        found = []
        names = self._files.list_dir(self.path)
        for name in names:
            path = os.path.join(self.path, name)
            if not self._files.is_dir(path) or name.endswith((DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
                continue
            topic_partition = parse_partition_dir(name)
            if topic_partition is not None and topic_partition.topic != RAFT_METADATA_TOPIC:
                found.append((topic_partition, path))
            elif is_future_dir(name):
                future = parse_future_dir(name)
                if future is None:
                    logger.warning("Ignoring %s: its name is not <topic>-<partition>.<unique>-future", path)
                elif str(future) in names:
                    logger.warning("Ignoring %s: the partition's current log is in this log directory too", path)
                else:
                    found.append((future, path))
        return found

    def deleted_dirs(self) -> list[str]:
        """Return the directories of logs that were being deleted when the broker stopped. Raises OSError.

        Their new names are made durable here: a broker killed right after a rename had no time for that, and a power
        failure must not put a deleted log in the place of one that is made now.
        """
        names = self._files.list_dir(self.path)
        if any(name.endswith((DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX)) for name in names):
            self._files.sync_dir(self.path)
        deleted = [os.path.join(self.path, name) for name in names if name.endswith(DELETE_DIR_SUFFIX)]
        return [path for path in deleted if self._files.is_dir(path)]

    def release(self) -> None:
        """Unlock the directory."""
        self._lock.release()

    def _read(self, checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int]:
        """Return the offsets of a checkpoint; an unreadable one counts as empty, and more is recovered than needed."""
        try:
            return checkpoint.read()
        except MalformedCheckpoint as error:
            logger.warning("%s; starting from offset 0", error)
            return {}


def _make_durably(files: Files, path: str) -> None:
    """Make the directory and its parents, so that they are there after a crash."""
    missing = []
    while not files.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing:
        files.make_dirs(missing[0])
    # A directory is durable once the directory that has its name is synced.
    for made in missing:
        files.sync_dir(os.path.dirname(made))
