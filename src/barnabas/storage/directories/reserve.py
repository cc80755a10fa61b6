"""The room that a log directory keeps for the time when its disk is full: a file that is removed when it is needed.

Records of clients and of leaders fill a disk to the last byte. What makes room again needs some itself: metadata of
topics that are deleted, checkpoints, the snapshots of an orderly stop. So each directory keeps a file of no content,
allocated at start. The first write that finds no room has the file removed, and no record is appended from then on
until there is room for the file and as much again. A stop removes it too: the next start has that room.

Owned by LogDirectories, whose lock guards it. Kafka: no counterpart; its log directory is lost when the disk is full.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

from barnabas.runtime.files import Files

FILE_NAME: Final = ".barnabas-reserve"
LEAST_BYTES: Final = 256 * 1024
MOST_BYTES: Final = 16 * 1024 * 1024
SHARE_OF_DISK: Final = 1000
"""One part in so many of the disk, between those bounds."""
_NOT_OFFERED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class DiskReserve:
    """The reserve of one log directory. is_held: whether the file is there."""

    def __init__(self, log_dir: str, files: Files) -> None:
        self._log_dir = log_dir
        self._path = os.path.join(log_dir, FILE_NAME)
        self._files = files
        self.is_held = False

    @property
    def size(self) -> int:
        """The bytes to keep. Raises OSError."""
        return min(max(self._files.total_bytes(self._log_dir) // SHARE_OF_DISK, LEAST_BYTES), MOST_BYTES)

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
            if error.errno not in _NOT_OFFERED:
                raise
        finally:
            file.close()
        self.is_held = True

    def release(self) -> None:
        """Remove the file, also one that an earlier process left behind. Raises OSError."""
        self.is_held = False
        if self._files.exists(self._path):
            self._files.unlink(self._path)
