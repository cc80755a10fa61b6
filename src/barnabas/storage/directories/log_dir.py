"""One directory of `log.dirs`: its lock, checkpoints, marks and disk reserve, and the partitions' directories in it.

A LogDirectory is owned by LogDirectories; used on the starting thread, by the checkpoint tasks of the scheduler, by
truncations and at shutdown. `_checkpoint_lock` orders the writes of the checkpoints and guards their known content; the
lock of LogDirectories guards the reserve; `_held_lock` guards the names of the locked directories. LogManager sets the
mark of a clean shutdown.

Kafka: LogManager, which has these fields in maps by directory; LogManager.lockLogDirs, CleanShutdownFileHandler.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.files import Files
from barnabas.storage.checkpoints import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    OffsetCheckpointFile,
)
from barnabas.storage.directories.meta_properties import MetaProperties, read_meta_properties
from barnabas.storage.errors import LogDirectoryLocked
from barnabas.storage.file_names import (
    DELETE_DIR_SUFFIX,
    RAFT_METADATA_TOPIC,
    STRAY_DIR_SUFFIX,
    is_future_dir,
    parse_future_dir,
    parse_partition_dir,
)
from barnabas.storage.log.log_recovery import LoadTerms

logger = logging.getLogger(__name__)

# -- lock

LOCK_FILE = ".lock"

# A POSIX lock belongs to the process and ends when any descriptor of the file is closed. So a second broker in this
# process must not even open the file: it would get the lock, and closing its descriptor would drop the first one's.
_held: set[str] = set()
_held_lock = threading.Lock()


class DirectoryLock:
    """The lock of one directory, held from construction to `release`: keeps a second broker, of either kind, out.

    A POSIX record lock on the file `.lock`, as Java's FileChannel.tryLock takes it. Such locks do not exclude a second
    broker within one process; `_held` does.
    """

    def __init__(self, directory: str) -> None:
        """Take the lock. Raises LogDirectoryLocked when another broker holds it, OSError."""
        self._path = os.path.join(os.path.realpath(directory), LOCK_FILE)
        refused = LogDirectoryLocked(
            f"Failed to acquire lock on file {LOCK_FILE} in {directory}. A Kafka instance in another process or thread"
            " is using this directory."
        )
        with _held_lock:
            if self._path in _held:
                raise refused
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._fd)
                raise refused from None
            _held.add(self._path)

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        with _held_lock:
            if self._path in _held:
                _held.discard(self._path)
                os.close(self._fd)


# -- reserve

RESERVE_FILE: Final = ".barnabas-reserve"
LEAST_RESERVE_BYTES: Final = 256 * 1024
_MOST_RESERVE_BYTES: Final = 16 * 1024 * 1024
_RESERVE_SHARE: Final = 1000
"""One part in so many of the disk, between those bounds."""
_CANNOT_ALLOCATE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class DiskReserve:
    """The room that a log directory keeps for the time when its disk is full. is_held: whether its file is there.

    Records of clients and of leaders fill a disk to the last byte. What makes room again needs some itself: metadata of
    topics that are deleted, checkpoints, the snapshots of an orderly stop. So each directory keeps a file of no
    content, allocated at start. The first write that finds no room has the file removed, and no record is appended from
    then on until there is room for the file and as much again. A stop removes it too: the next start has that room.

    Kafka: no counterpart; its log directory is lost when the disk is full.
    """

    def __init__(self, log_dir: str, files: Files) -> None:
        self._log_dir = log_dir
        self._path = os.path.join(log_dir, RESERVE_FILE)
        self._files = files
        self.is_held = False

    @property
    def size(self) -> int:
        """The bytes to keep. Raises OSError."""
        return min(
            max(self._files.total_bytes(self._log_dir) // _RESERVE_SHARE, LEAST_RESERVE_BYTES), _MOST_RESERVE_BYTES
        )

    @property
    def free_bytes(self) -> int:
        """The bytes that are free now, beside the reserve. Raises OSError."""
        return self._files.free_bytes(self._log_dir)

    def claim(self) -> None:
        """Allocate the file. Raises OSError: ENOSPC when there is not room for the file and as much again."""
        if self.is_held:
            return
        size = self.size
        if self.free_bytes < 2 * size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._log_dir)
        file = self._files.open(self._path, create=True, truncate=True)
        try:
            file.allocate(size)
        except OSError as error:
            with suppress(OSError):
                self._files.unlink(self._path)
            # A file system that allocates nothing ahead has no reserve; its directory is still checked for room.
            if error.errno not in _CANNOT_ALLOCATE:
                raise
        finally:
            file.close()
        self.is_held = True

    def release(self) -> None:
        """Remove the file, also one that an earlier process left behind. Raises OSError."""
        self.is_held = False
        if self._files.exists(self._path):
            self._files.unlink(self._path)


# -- mark of a clean shutdown

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Set the mark that a directory was closed in order and needs no recovery; durable when this returns.

    Its content is JSON with the broker's epoch (KIP-966). Raises OSError.
    """
    content = json.dumps({"version": "0", "broker_epoch": str(broker_epoch)}, separators=(",", ":"))
    files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN_FILE), content.encode())


def take_clean_shutdown(files: Files, directory: str) -> int | None:
    """Remove the mark, so that a crash while loading counts as a crash; return its broker epoch, None without a mark.

    A mark with unreadable content counts as one of epoch -1, as in Kafka. Raises OSError.
    """
    path = os.path.join(directory, CLEAN_SHUTDOWN_FILE)
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    # Durable before a log is opened: were the mark still there after a crash, nothing would be recovered.
    files.unlink(path)
    files.sync_dir(directory)
    try:
        return int(json.loads(content)["broker_epoch"])
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH


# -- directory


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
