"""Disks as a constructor argument: the few calls that storage, checkpoints and the embedded store make.

Used by the storage and zk layers from any thread. A `File` holds a descriptor and no position, so concurrent reads need
no lock; a writer holds the lock of its log. The simulated disk of `tests/support` implements the same Protocols, loses
unsynced writes and tears pages. Paths are `str`. Kafka: FileRecords, CheckpointFile, Utils.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from mypy_extensions import i64

Buffer = bytes | bytearray | memoryview

_READ_WITHOUT_WAITING: int | None = getattr(os, "RWF_NOWAIT", None)  # Linux

_pread: Final = os.pread
_pwritev: Final = os.pwritev

MAX_BUFFERS_PER_WRITE: Final = 512
"""Fewer than any system's IOV_MAX (1024 on Linux)."""


class File(Protocol):
    """An open file, read and written at given positions."""

    def fileno(self) -> int:
        """Return the descriptor, for sendfile; valid until `close()`."""

    def size(self) -> int:
        """Return the file's length in bytes."""

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end of the file."""

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` with the bytes from `position` on. Return how many there were: fewer only at the end."""

    def is_cached(self, position: int) -> bool:
        """Return whether the byte at `position` can be read without waiting for the disk; True if that is unknown."""

    def prefetch(self, position: int, size: int) -> None:
        """Announce that this range will be read soon. The call does not wait for the disk."""

    def write(self, buffers: tuple[Buffer, ...], position: int) -> int:
        """Write all of `buffers`, one after another, at `position`; return the bytes written, always all of them.

        Raises OSError when the write cannot be completed (disk full); the file is truncated back to `position` then.
        """

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros, to `size` bytes."""

    def allocate(self, size: int) -> None:
        """Make the file at least `size` bytes long, with room on the disk for all of them. Raises OSError."""

    def sync(self) -> None:
        """Return once the file's data is on stable storage (fdatasync)."""

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""


class Files(Protocol):
    """A file system. Errors are those of the operating system: OSError and its subclasses."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        """Open for reading and writing. Raises FileNotFoundError unless the file exists or `create` is set."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists."""

    def is_dir(self, path: str) -> bool:
        """Return whether it is a directory."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in the directory, sorted."""

    def make_dirs(self, path: str) -> None:
        """Create the directory and its parents; existing ones are fine."""

    def rename(self, source: str, destination: str) -> None:
        """Rename. The new name survives a crash once the caller has called `sync_dir` on the parent."""

    def replace(self, source: str, destination: str) -> None:
        """Rename over an existing file, atomically."""

    def unlink(self, path: str) -> None:
        """Remove the file. Raises FileNotFoundError for a missing one."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; a missing one is fine."""

    def sync_dir(self, path: str) -> None:
        """Return once the directory's entries are on stable storage."""

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content of a file."""

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the file's content so that a crash leaves the old or the new one, and return once it is durable."""

    def free_bytes(self, path: str) -> int:
        """Return the bytes free for this process on the file system that holds `path`."""

    def total_bytes(self, path: str) -> int:
        """Return the size in bytes of the file system that holds `path`."""

    def modified_ms(self, path: str) -> int:
        """Return the wall time of the file's last change, in milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the file's time of last change, for a file made from another: that of its source."""


class OperatingSystemFile:
    """A descriptor with positioned reads and writes. Not closed by garbage collection: its owner closes it."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def __repr__(self) -> str:
        return f"OperatingSystemFile({self.path!r}, fd={self._fd})"

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return self._fd

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._fd).st_size

    def read(self, position: i64, size: i64) -> bytes:
        """Read up to `size` bytes, nearly always with one pread. Only the file's end or a signal cuts a read short."""
        data = _pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        pieces = [data]
        got = len(data)
        while got < size:
            data = os.pread(self._fd, size - got, position + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def read_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer`, nearly always with one preadv. Only the file's end or a signal cuts a read short."""
        got = 0
        while got < len(buffer):
            with buffer[got:] as rest:
                count = os.preadv(self._fd, (rest,), position + got)
            if not count:
                break
            got += count
        return got

    def is_cached(self, position: int) -> bool:
        """Return whether the byte at `position` is in the page cache; True where the file system does not report it."""
        if _READ_WITHOUT_WAITING is not None:
            try:
                os.preadv(self._fd, (bytearray(1),), position, _READ_WITHOUT_WAITING)
            except BlockingIOError:
                return False
            except OSError:
                return True  # the file system does not report it, or the disk has failed: the read will show which
        return True

    def prefetch(self, position: int, size: int) -> None:
        """Have the kernel read ahead, where it can."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_WILLNEED)

    def write(self, buffers: tuple[Buffer, ...], position: i64) -> i64:
        """Write with one pwritev in all but the rarest cases. Raises OSError when that cannot be completed."""
        expected: i64 = 0
        for buffer in buffers:
            expected += len(buffer)
        try:
            few_enough = buffers if len(buffers) <= MAX_BUFFERS_PER_WRITE else buffers[:MAX_BUFFERS_PER_WRITE]
            written: i64 = _pwritev(self._fd, few_enough, position)
            if written != expected:
                self._write_rest(buffers, position, written, expected)
        except OSError:
            # A batch that was written in part must not stay: recovery would have to cut it off. If the truncation fails
            # too, the write's error is the one to report.
            with suppress(OSError):
                os.ftruncate(self._fd, position)
            raise
        return expected

    def _write_rest(self, buffers: tuple[Buffer, ...], position: i64, written: i64, expected: i64) -> None:
        """Write what one pwritev left over. Raises OSError: ENOSPC when the disk takes no more."""
        # A copy, because a short write is rare and may end in the middle of a buffer.
        joined = memoryview(b"".join(buffers))
        while written < expected:
            count = os.pwrite(self._fd, joined[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        """Have the file system allocate all blocks up to `size`. Raises OSError: EOPNOTSUPP where it cannot."""
        if not hasattr(os, "posix_fallocate"):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), self.path)
        os.posix_fallocate(self._fd, 0, size)

    def sync(self) -> None:
        """Return once the data is on stable storage."""
        _sync_data(self._fd)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OperatingSystemFiles:
    """The machine's file system. `read_only`: `open` gives files that cannot be written (for tools beside a broker)."""

    __slots__ = ("_access",)

    def __init__(self, *, read_only: bool = False) -> None:
        self._access = os.O_RDONLY if read_only else os.O_RDWR

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        """Open a file. Raises OSError as os.open does."""
        flags = self._access | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        if truncate:
            flags |= os.O_TRUNC
        return OperatingSystemFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of this name exists."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        """Rename a file or directory."""
        os.rename(source, destination)

    def replace(self, source: str, destination: str) -> None:
        """Rename over an existing file, atomically."""
        os.replace(source, destination)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds, if it exists."""
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        """Return once the directory's entries are on stable storage."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        """Return the whole content of a file."""
        file = OperatingSystemFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def write_atomically(self, path: str, data: bytes) -> None:
        """Write `path`.tmp, sync it, rename it over `path`, sync the directory."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True, truncate=True)
        try:
            file.write((data,), 0)
            file.sync()
        finally:
            file.close()
        # In this order: a crash before the rename leaves the old content, and the rename never shows unsynced content.
        # Without the sync of the directory the rename itself could be lost.
        self.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> int:
        """Return the bytes free for this process."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system in bytes."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def modified_ms(self, path: str) -> int:
        """Return the wall time of the last change, in milliseconds."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the wall time of the last change."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


# macOS has no fdatasync.
_sync_data: Final = getattr(os, "fdatasync", os.fsync)
