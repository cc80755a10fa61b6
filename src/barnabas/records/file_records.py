"""A range of a log file that is sent to a socket, mostly without being read.

`UnifiedLog.read` makes it on the request's thread. Inside the Fetch answer it reaches the Processor, whose Send
transfers it with sendfile or pread and releases it. The file counts its holders: a descriptor that was closed while a
range is still to be sent could be reused for the file of another topic.
Kafka: FileRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from mypy_extensions import i64

_PIECE_BYTES: Final = 256 * 1024


class CountedFile(Protocol):
    """An open file that closes when its last holder releases it. Any thread may call it."""

    def fileno(self) -> int:
        """Return the descriptor, which is valid while the file is retained."""

    def retain(self) -> None:
        """Add a holder."""

    def release(self) -> None:
        """Remove a holder; the last one closes the file."""

    def is_cached(self, position: int) -> bool:
        """Return whether the byte there can be read without waiting for the disk."""

    def prefetch(self, position: int, size: int) -> None:
        """Have the disk begin to read a range."""

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes at `position`; fewer only at the end of the file."""


class FileRecords:
    """`size` bytes of `file` from `position`. The maker has retained the file; the last user calls `release`, once.

    content: the bytes themselves, when the search for the range has read them already; else None.
    """

    __slots__ = ("content", "file", "position", "size")

    def __init__(self, file: CountedFile, position: i64, size: i64, content: bytes | None = None) -> None:
        self.file = file
        self.position: i64 = position
        self.size: i64 = size
        self.content = content

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Read the range; fewer bytes only if the file was truncated meanwhile."""
        content = self.content
        return self.file.read(self.position, self.size) if content is None else content

    def is_cached(self) -> bool:
        """Return whether the range can be sent without waiting for the disk, as far as its last byte tells."""
        return self.content is not None or self.file.is_cached(self.position + self.size - 1)

    def bring_into_cache(self) -> None:
        """Read the range from the disk now, on a thread that may wait. Raises OSError.

        The same reader will ask for the range behind it next, so the disk begins to read that, too.
        """
        # The bytes that are read are dropped: they are in the page cache now, from which sendfile takes them.
        end = self.position + self.size
        self.file.prefetch(self.position, 2 * self.size)
        for position in range(self.position, end, _PIECE_BYTES):
            self.file.read(position, min(_PIECE_BYTES, end - position))

    def release(self) -> None:
        """Give the file back. The range must not be used afterwards."""
        self.file.release()

    def __repr__(self) -> str:
        return f"FileRecords(position={self.position}, size={self.size})"
