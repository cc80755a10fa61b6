"""The directories of `log.dirs` together: which of them are online, and which broker they belong to.

Opened by `broker` on its starting thread, used by LogManager, read by any thread. A directory goes offline at its first
disk error and stays so until the broker starts again; `_lock` makes sure that a failure is reported once.
Kafka: LogManager, LogDirFailureChannel, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from barnabas.runtime.files import Files
from barnabas.storage.directories.lock import DirectoryLock
from barnabas.storage.directories.log_dir import Lock, LogDirectory
from barnabas.storage.directories.meta_properties import MetaProperties, check_meta_properties, write_meta_properties
from barnabas.storage.errors import is_shortage

logger = logging.getLogger(__name__)


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
        if is_shortage(error):
            logger.error("No room, or too many open files, while %s in %s: %s", doing, path, error)
            return
        logger.error("Error while %s in %s", doing, path, exc_info=error)
        self.give_up(path)

    def give_up(self, path: str) -> None:
        """Take the directory offline, whatever the reason, and report it once."""
        if self.take_offline(path):
            self._on_failure(path)

    def take_offline(self, path: str) -> bool:
        """Use the directory no more; False if it was offline before."""
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
