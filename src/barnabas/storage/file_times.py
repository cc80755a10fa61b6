"""Modification times of segment files, which the cleaner hands on from old segments to new ones.

Used by the cleaner's thread and its process; holds no state. A Protocol of its own, since only the cleaner asks.
"""

from __future__ import annotations

import os
from typing import Protocol


class FileTimes(Protocol):
    """When files were last written, in milliseconds since the epoch. Both raise OSError."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""

    def set_modified_ms(self, path: str, milliseconds: int) -> None:
        """Let the file look as if last written then."""


class OperatingSystemFileTimes:
    """Those of the machine's file system."""

    __slots__ = ()

    def modified_ms(self, path: str) -> int:
        """See FileTimes."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, milliseconds: int) -> None:
        """See FileTimes."""
        os.utime(path, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
