"""An open descriptor that closes when its last holder releases it.

A SegmentFile holds it while the file may be needed again; each range of the file on its way to a socket holds it too.
Without the count, a descriptor that is closed early could get its number reused by another topic's file, and the answer
would carry that topic's bytes. Any thread retains and releases; `_lock` guards the count.
"""

from __future__ import annotations

import threading

from barnabas.runtime.files import File


class OpenFile:
    """A counted open file; implements `records.file_records.CountedFile`. Its maker is the first holder."""

    __slots__ = ("_holders", "_lock", "file", "fileno", "is_cached", "prefetch", "read")

    def __init__(self, file: File) -> None:
        self.file = file
        # The file's bound methods are used as methods of this object: a read saves one call.
        self.fileno = file.fileno
        self.is_cached = file.is_cached
        self.prefetch = file.prefetch
        self.read = file.read
        self._lock = threading.Lock()
        self._holders = 1

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
        # Outside of the lock: no thread can retain the file any more, and closing may wait for the disk.
        self.file.close()

    @property
    def is_closed(self) -> bool:
        """Whether the last holder has released the file."""
        with self._lock:
            return self._holders == 0
