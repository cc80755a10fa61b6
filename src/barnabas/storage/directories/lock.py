"""`.lock`: keeps a second broker, of either kind, out of a log directory.

Taken by LogDirectory at start, on the broker's starting thread. It is a POSIX record lock, as Java's
FileChannel.tryLock takes it. Such locks do not exclude a second broker within one process; `_held` does, guarded by
`_held_lock`. Kafka: LogManager.lockLogDirs.
"""

from __future__ import annotations

import fcntl
import os
import threading

from barnabas.storage.errors import LogDirectoryLocked

FILE_NAME = ".lock"

# A POSIX lock belongs to the process and ends when any descriptor of the file is closed. So a second broker in this
# process must not even open the file: it would get the lock, and closing its descriptor would drop the first one's.
_held: set[str] = set()
_held_lock = threading.Lock()


class DirectoryLock:
    """The lock of one directory, held from construction to `release`."""

    def __init__(self, directory: str) -> None:
        """Take the lock. Raises LogDirectoryLocked when another broker holds it, OSError."""
        self._path = os.path.join(os.path.realpath(directory), FILE_NAME)
        refused = LogDirectoryLocked(
            f"Failed to acquire lock on file {FILE_NAME} in {directory}. A Kafka instance in another process or thread"
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
