"""The directories of `log.dirs` together: which of them are online, and which broker they belong to.

Opened by `broker` on its starting thread, used by LogManager, read by any thread. A directory goes offline at its first
disk error and stays so until the broker starts again; one whose disk is full takes no records until there is room again
(`DiskReserve`). `_lock` makes sure that each is reported once; it may be taken under the lock of a log. Beside them
stand the checkpoints that are written into each (`LogCheckpoints`).
Kafka: LogManager, LogDirFailureChannel, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from barnabas.runtime.files import Files
from barnabas.storage.directories.log_dir import LEAST_RESERVE_BYTES, DirectoryLock, Lock, LogDirectory
from barnabas.storage.directories.meta_properties import MetaProperties, check_meta_properties, write_meta_properties
from barnabas.storage.errors import NO_ROOM, is_shortage
from barnabas.storage.log_table import LogTable

logger = logging.getLogger(__name__)


def _ignore(_path: str) -> None:
    """Do nothing: the default of `when_full`."""


class LogDirectories:
    """All log directories. paths: absolute, those that cannot be used included.

    on_failure: called once for each directory that fails, perhaps while locks are held: it must only note the failure,
    and have `LogManager.fail_log_dir` called from another thread.
    """

    def __init__(
        self,
        paths: Sequence[str],
        files: Files,
        on_failure: Callable[[str], None],
        lock_directory: Callable[[str], Lock] = DirectoryLock,
    ) -> None:
        self.paths = [os.path.abspath(path) for path in paths]
        self._files = files
        self._lock_directory = lock_directory
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._on_full: Callable[[str], None] = _ignore
        self._directories: dict[str, LogDirectory] = {}

    def __getitem__(self, path: str) -> LogDirectory:
        """Return the directory of a path. Raises KeyError when it could not be opened at start."""
        return self._directories[path]

    def open(self) -> None:
        """Make and lock the directories, unless they are open; those that cannot be used are left out.

        Raises LogDirectoryLocked when another broker uses one. Raises OSError when none is left.
        """
        if self._directories:
            return
        failures: dict[str, OSError] = {}
        for path in self.paths:
            try:
                self._directories[path] = LogDirectory(path, self._files, self._lock_directory)
            except OSError as error:
                failures[path] = error
        if not self._directories:
            reasons = ", ".join(f"{path} ({error.strerror or error})" for path, error in failures.items())
            number = next(iter(failures.values())).errno or errno.EIO
            raise OSError(number, f"none of the log directories can be created or validated: {reasons}")
        # Logged only when the broker goes on without these directories. Otherwise the exception says the same.
        for path, failure in failures.items():
            logger.error("Failed to create or validate data directory %s: %s", path, failure.strerror or failure)

    def online(self) -> list[LogDirectory]:
        """Return the directories without a disk error."""
        return [directory for directory in self._directories.values() if directory.is_online]

    def online_paths(self) -> list[str]:
        """Return the paths of the directories without a disk error."""
        return [directory.path for directory in self.online()]

    def offline_paths(self) -> list[str]:
        """Return the paths of the directories that failed, or could not be opened."""
        online = self.online_paths()
        return [path for path in self.paths if path not in online] if len(online) < len(self.paths) else []

    def is_online(self, path: str) -> bool:
        """Return whether the directory can be used."""
        directory = self._directories.get(path)
        return directory is not None and directory.is_online

    def failed(self, path: str, doing: str, error: OSError) -> None:
        """Take a directory offline because of a disk error.

        A full disk, or too many open files, is only logged: the operation has failed, and may succeed later.
        """
        # ENOSPC and EMFILE pass; EIO, EROFS and the like mean that the disk can no longer be trusted.
        if error.errno in NO_ROOM and path in self._directories:
            self.ran_full(path, doing, error)
            return
        if is_shortage(error):
            logger.error("No room, or too many open files, while %s in %s: %s", doing, path, error)
            return
        logger.error("Error while %s in %s", doing, path, exc_info=error)
        self.give_up(path)

    # -- a full disk

    def when_full(self, pause_appends: Callable[[str], None]) -> None:
        """Have `pause_appends` called with the directory whose disk is full, perhaps under the lock of a log."""
        self._on_full = pause_appends

    def keep_room(self) -> None:
        """Claim the reserve of every directory, once the start has no use for its room."""
        for directory in self.online():
            try:
                directory.reserve.claim()
            except OSError as error:
                self.failed(directory.path, "keeping a reserve", error)

    def give_room(self) -> None:
        """Release all reserves, for an orderly stop."""
        for directory in self.online():
            self._release(directory)

    def ran_full(self, path: str, doing: str, error: OSError) -> bool:
        """Pause the appends of a directory whose disk is full, and release its reserve.

        Returns whether this has made room, so that a change of the metadata is worth another attempt.
        """
        directory = self._directories.get(path)
        if directory is None:
            return False
        with self._lock:
            was_full, directory.is_full = directory.is_full, True
            made_room = directory.reserve.is_held
            self._release(directory)
        if not was_full:
            # Once: until there is room, every append, checkpoint and snapshot would say the same.
            logger.error(
                "No room while %s in %s: %s. Records are refused (KAFKA_STORAGE_ERROR) until %d bytes are free. Room "
                "was kept to delete topics or records, and to stop the broker",
                doing,
                path,
                error,
                2 * self._size_of_reserve(directory),
            )
        self._on_full(path)
        return made_room

    def require_room(self, path: str) -> None:
        """Check, before records are appended, that the disk is not full. Raises OSError: ENOSPC when it is."""
        directory = self._directories.get(path)
        if directory is None or not directory.is_full:
            return
        with self._lock:
            if directory.is_full:
                directory.reserve.claim()
                directory.is_full = False
                logger.info("There is room in %s again: records are taken", path)

    def require_room_for_logs(self, path: str) -> None:
        """Check, before a topic is created, that its log would not need the reserve. Raises OSError: ENOSPC."""
        self.require_room(path)
        directory = self._directories.get(path)
        if directory is not None and directory.reserve.free_bytes < directory.reserve.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def _release(self, directory: LogDirectory) -> None:
        try:
            directory.reserve.release()
        except OSError as error:
            logger.warning("The reserve of %s cannot be removed: %s", directory.path, error)

    @staticmethod
    def _size_of_reserve(directory: LogDirectory) -> int:
        try:
            return directory.reserve.size
        except OSError:
            return LEAST_RESERVE_BYTES

    def give_up(self, path: str) -> None:
        """Take the directory offline, whatever the reason, and report it once."""
        if self.take_offline(path):
            self._on_failure(path)

    def take_offline(self, path: str) -> bool:
        """Take the directory offline; False if it was offline before."""
        # Test and change under one lock: of several threads that meet the same broken disk, one reports it.
        with self._lock:
            directory = self._directories.get(path)
            if directory is None or not directory.is_online:
                return False
            directory.is_online = False
            return True

    def meta_properties(self) -> Mapping[str, MetaProperties | None]:
        """Return the `meta.properties` of the directories; a directory that cannot be read goes offline.

        Raises InconsistentMetaProperties when a file is malformed. Raises OSError when no directory is left.
        """
        self.open()
        found: dict[str, MetaProperties | None] = {}
        for directory in self.online():
            try:
                found[directory.path] = directory.meta_properties()
            except OSError as error:
                self.failed(directory.path, "reading meta.properties", error)
        self.check_one_is_left()
        return found

    def check_and_write_meta_properties(self, cluster_id: str, broker_id: int) -> None:
        """Check that every directory belongs to this broker of this cluster, and mark the new ones.

        Raises InconsistentMetaProperties when one does not. Raises OSError when no directory is left.
        """
        found = self.meta_properties()
        check_meta_properties(found, cluster_id, broker_id)
        for path, present in found.items():
            wanted = MetaProperties(cluster_id, broker_id, present.directory_id if present else None)
            if present != wanted:
                try:
                    write_meta_properties(self._files, path, wanted)
                except OSError as error:
                    self.failed(path, "writing meta.properties", error)
        self.check_one_is_left()

    def check_one_is_left(self) -> None:
        """Check that a directory is online. Raises OSError when none is."""
        if not self.online():
            paths = ", ".join(self.paths)
            raise OSError(errno.EIO, f"Shutdown broker because all log dirs in {paths} have failed")

    def release(self, path: str | None = None) -> None:
        """Unlock one directory, or all."""
        for directory in self._directories.values():
            if path is None or directory.path == path:
                directory.release()


class LogCheckpoints:
    """The checkpoints of the logs in `table`. Owned by LogManager.

    Called by the scheduler, at shutdown, and by a log whose offsets have become smaller (under the log's lock). Takes
    only the log table's lock and those of the directories' checkpoints.
    """

    def __init__(self, directories: LogDirectories, table: LogTable) -> None:
        self._directories = directories
        self._table = table

    def write_recovery_points(self) -> None:
        """Write `recovery-point-offset-checkpoint` of every directory."""
        self._write(self._write_recovery_points, "writing checkpoint of recovery points")

    def write_log_start_offsets(self) -> None:
        """Write `log-start-offset-checkpoint` of every directory."""
        self._write(self._write_log_start_offsets, "writing checkpoint of log start offsets")

    def write_both(self, log_dir: str) -> None:
        """Write both of one directory. Raises OSError."""
        directory = self._directories[log_dir]
        self._write_recovery_points(directory)
        self._write_log_start_offsets(directory)

    def _write(self, write: Callable[[LogDirectory], None], doing: str) -> None:
        for directory in self._directories.online():
            try:
                write(directory)
            except OSError as error:
                self._directories.failed(directory.path, doing, error)

    def _write_recovery_points(self, directory: LogDirectory) -> None:
        directory.write_recovery_points(
            lambda: {log.topic_partition: log.local.recovery_point for log in self._table.in_dir(directory.path)}
        )

    def _write_log_start_offsets(self, directory: LogDirectory) -> None:
        """Write the start offsets that differ from the base offset of the log's first segment. Raises OSError."""
        # A log that starts where its first segment begins needs no entry: the loader takes that offset, as Kafka does.
        directory.write_log_start_offsets(
            lambda: {
                log.topic_partition: log.log_start_offset
                for log in self._table.in_dir(directory.path)
                if log.log_start_offset > log.local.segments.first.base_offset
            }
        )
