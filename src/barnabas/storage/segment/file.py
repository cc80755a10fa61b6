"""One file of a segment, by its path: opened on first use, closed when others need the descriptor, opened again.

A SegmentFile is owned by a LogSegment or an index. Any thread reads; the thread that holds the log's lock writes. Its
`_lock` guards the descriptor and the path; it is not held during reads and writes. The descriptor is an OpenFile, which
may be held elsewhere too; the `_lock` of that guards the count of holders.

Beside it stand the bound on the descriptors of all logs (`OpenFiles`) and the places where a segment's readers will go
on (`SequentialReads`).
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from barnabas.records.file_records import FileRecords
from barnabas.records.record_batch import HEADER_SIZE, BatchHeader
from barnabas.runtime.files import Buffer, File, Files, OperatingSystemFile
from barnabas.runtime.locks import Lock
from barnabas.storage.errors import is_shortage

if TYPE_CHECKING:
    from mypy_extensions import i64

DEFAULT_LIMIT: Final = 4096
"""The descriptors that the logs of a manager hold."""


class OpenFiles:
    """The files that hold a descriptor, oldest first; a file that was used since it came here gets a second chance.

    One per log manager, shared by all its logs; any thread. `_lock` guards the order; it is never held while a file is
    opened or closed, and inside it no other lock is taken.

    limit: descriptors held at most, beside those that answers on their way to a socket keep open.
    """

    __slots__ = ("_holding", "_lock", "files", "limit")

    def __init__(self, files: Files, limit: int = DEFAULT_LIMIT) -> None:
        self.files = files
        self.limit = limit
        self._lock = Lock()
        self._holding: dict[SegmentFile, None] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._holding)

    def opened(self, file: SegmentFile) -> None:
        """Note that `file` has opened its descriptor, and close others if there are too many.

        Call without any file's lock.
        """
        victims: list[SegmentFile] = []
        with self._lock:
            # Second chance, with a dictionary as the queue. Worked example, limit 3: A, B, C hold descriptors, A was
            # used since it came in. D opens: A is oldest, loses its mark and goes to the end; B, next, has no mark and
            # is the victim. The queue is C, D, A. `chances` ends the search when every file has a mark: the oldest goes
            # then.
            holding = self._holding
            holding[file] = None
            chances = len(holding)
            while len(holding) > self.limit:
                oldest = next(iter(holding))
                del holding[oldest]
                if chances > 0 and (oldest.recently_used or oldest is file):
                    oldest.recently_used = False
                    holding[oldest] = None
                    chances -= 1
                else:
                    victims.append(oldest)
        # Without the lock: `release_descriptor` takes the file's lock, under which other threads may wait for ours.
        for victim in victims:
            victim.release_descriptor()

    def closed(self, file: SegmentFile) -> None:
        """Note that `file` has closed its descriptor."""
        with self._lock:
            self._holding.pop(file, None)


class OpenFile:
    """An open descriptor that closes when its last holder releases it. Its maker is the first holder.

    A SegmentFile holds it while the file may be needed again; each range of the file on its way to a socket holds it
    too. Without the count, a descriptor that is closed early could get its number reused by another topic's file, and
    the answer would carry that topic's bytes. Any thread retains and releases. Implements
    `records.file_records.CountedFile`.
    """

    __slots__ = ("_holders", "_lock", "file", "fileno", "is_cached", "of_system", "prefetch", "read")

    def __init__(self, file: File) -> None:
        self.file = file
        self.of_system = file if isinstance(file, OperatingSystemFile) else None
        """The same file; None on a simulated disk. Compiled, a call on this class is no look-up by name."""
        # The file's bound methods are used as methods of this object: a read saves one call.
        self.fileno = file.fileno
        self.is_cached = file.is_cached
        self.prefetch = file.prefetch
        self.read = file.read
        self._lock = Lock()
        self._holders: i64 = 1

    def try_retain(self) -> bool:
        """Add a holder; False if the file is closed already."""
        with self._lock:
            if self._holders == 0:
                return False
            self._holders += 1
            return True

    def retain(self) -> None:
        """Add a holder, where the caller knows that there is another one. Raises ValueError when the file is closed."""
        if not self.try_retain():
            raise ValueError("the file is closed")

    def release(self) -> None:
        """Remove a holder; the last one closes the file. Raises ValueError when there was none."""
        with self._lock:
            if self._holders == 0:
                raise ValueError("the file was released more often than retained")
            self._holders -= 1
            if self._holders:
                return
        # Outside of the lock: no other thread can retain the file, and closing may wait for the disk.
        self.file.close()

    @property
    def is_closed(self) -> bool:
        """Whether the last holder has released the file."""
        with self._lock:
            return self._holders == 0


class SegmentFile:
    """A file that holds no descriptor while it is not used. Every method raises OSError."""

    __slots__ = ("__weakref__", "_is_gone", "_lock", "_open", "_open_files", "path", "recently_used")

    def __init__(self, path: str, open_files: OpenFiles) -> None:
        self.path = path
        self.recently_used = False
        self._open_files = open_files
        self._lock = Lock()
        self._open: OpenFile | None = None
        self._is_gone = False

    def sibling(self, path: str) -> SegmentFile:
        """Return another file of the same segment."""
        return SegmentFile(path, self._open_files)

    def borrow(self, *, create: bool = False) -> OpenFile:
        """Return the open file, retained for the caller, who must release it once.

        Raises FileNotFoundError when the file was closed for good, or does not exist and `create` is False.
        """
        # Without the lock first: `try_retain` fails for a file that was closed in between, and then the lock decides.
        open_file = self._open
        if open_file is not None and open_file.try_retain():
            self.recently_used = True
            return open_file
        with self._lock:
            open_file = self._open
            if open_file is not None and open_file.try_retain():
                return open_file
            # A reader that is late must not open a file that was deleted, or the next file of the same name.
            if self._is_gone:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
            open_file = self._open = OpenFile(self._open_files.files.open(self.path, create=create))
            open_file.retain()
        # Outside of the lock: this may close other files, and takes their locks for it.
        self._open_files.opened(self)
        return open_file

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._open is not None or self._open_files.files.exists(self.path)

    def create(self) -> None:
        """Make an empty file, unless there is one."""
        self.borrow(create=True).release()

    def size(self) -> int:
        """Return the length in bytes."""
        open_file = self.borrow()
        try:
            return open_file.file.size()
        finally:
            open_file.release()

    def modified_ms(self) -> int:
        """Return the time of the last change, in milliseconds since the epoch."""
        return self._open_files.files.modified_ms(self.path)

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end."""
        open_file = self.borrow()
        try:
            return open_file.read(position, size)
        finally:
            open_file.release()

    def write(self, buffers: tuple[Buffer, ...], position: i64, *, create: bool = False) -> None:
        """Write all buffers at `position`; on an error the file is cut back to `position`."""
        # Every append comes here; with the descriptor open, as it usually is, the call of `borrow` is saved.
        open_file = self._open
        if open_file is None or not open_file.try_retain():
            open_file = self.borrow(create=create)
        try:
            of_system = open_file.of_system
            if of_system is not None:
                of_system.write(buffers, position)
            else:
                open_file.file.write(buffers, position)
        finally:
            open_file.release()

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        open_file = self.borrow()
        try:
            open_file.file.truncate(size)
        finally:
            open_file.release()

    def sync(self) -> None:
        """Return when the content is on stable storage.

        A sync that fails may have lost data even where the disk is only full, so it never counts as a shortage: the
        error is turned into EIO, which takes the log directory offline. Raises OSError.
        """
        open_file = self.borrow()
        try:
            open_file.file.sync()
        except OSError as error:
            if is_shortage(error):
                raise OSError(errno.EIO, f"sync failed: {error.strerror}", self.path) from error
            raise
        finally:
            open_file.release()

    def rename(self, path: str) -> None:
        """Give the file another name; an open descriptor goes on."""
        # Name and path change together under the lock: `borrow` must not open the old name in between.
        with self._lock:
            self._open_files.files.replace(self.path, path)
            self.path = path

    def moved_to(self, path: str) -> None:
        """Note that the directory was renamed, and that the file has this path now."""
        with self._lock:
            self.path = path

    def release_descriptor(self) -> None:
        """Give up the descriptor; the file is opened again when it is used."""
        with self._lock:
            open_file, self._open = self._open, None
        if open_file is not None:
            open_file.release()

    def close(self) -> None:
        """Close the file. Another use opens it again."""
        self._open_files.closed(self)
        self.release_descriptor()

    def close_for_good(self) -> None:
        """Close the file and refuse to open it again: a late reader would keep a deleted file, and its disk space."""
        with self._lock:
            self._is_gone = True
        self.close()

    def delete(self) -> None:
        """Close the file for good, and remove it if it exists."""
        self.close_for_good()
        files = self._open_files.files
        if files.exists(self.path):
            files.unlink(self.path)

    def __repr__(self) -> str:
        return f"SegmentFile({self.path!r})"


MOST_SEQUENTIAL_BYTES: Final = 64 * 1024
"""Reads of at most this size are made at once; larger ones go out by sendfile, where a search does not matter."""
MAX_PLACES: Final = 64


class SequentialReads:
    """Next offset -> position, of the readers seen last. One per segment.

    A consumer that goes on where a small read ended finds its batch without the index, and with the same `pread` that
    reads the batch. Any thread; entries are set and taken one at a time, which dictionaries do atomically. A truncation
    cuts the file first and replaces this object then, so that an entry of a slow reader, which may be wrong now, goes
    into the old object.
    """

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, int] = {}

    def note(self, next_offset: i64, position: i64) -> None:
        """Note that the batch before `next_offset` ends at this position."""
        places = self._places
        # Readers that never came back left their places here. Clearing them all is rare and needs no order of use.
        if len(places) >= MAX_PLACES:
            places.clear()
        places[next_offset] = position

    def take(self, offset: i64) -> i64:
        """Return the position of the batch that holds `offset`, if a reader was expected there; else -1."""
        return self._places.pop(offset, -1)

    def read(self, file: SegmentFile, offset: i64, position: i64, size: i64) -> FileRecords | None:
        """Read `size` bytes; None unless the batch of `offset` lies there, whole and of the newest format.

        Raises OSError.
        """
        open_file = file.borrow()
        try:
            of_system = open_file.of_system
            content = open_file.read(position, size) if of_system is None else of_system.read(position, size)
        except OSError:
            open_file.release()
            raise
        # The entry was a guess: a cleaning may have put another segment's batches here. The header tells.
        header = BatchHeader.parse(content)
        if header is not None and HEADER_SIZE <= header.length <= len(content):
            last_offset = header.base_offset + header.last_offset_delta
            if header.base_offset <= offset <= last_offset:
                self.note(last_offset + 1, position + header.length)
                return FileRecords(open_file, position, len(content), content)
        open_file.release()
        return None
