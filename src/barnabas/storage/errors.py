"""Errors of storage besides `ApiError`: of replication and loading, which no client gets as an answer.

Raised by this package, caught by `replica` and `broker`. Immutable.
"""

from __future__ import annotations

import errno

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
SHORTAGES = NO_ROOM | {errno.EMFILE, errno.ENFILE}


def is_shortage(error: OSError) -> bool:
    """Return whether the disk is full, or too many files are open: the operation failed, but the disk is not broken.

    Never ask this about a failed sync: the data that it was to write may be lost, whatever the reason.
    """
    return error.errno in SHORTAGES


class OffsetsOutOfOrder(Exception):
    """The batches of a follower's append do not rise in offset."""


class UnexpectedAppendOffset(Exception):
    """A follower's append begins below the log end offset."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicId(Exception):
    """The log on disk belongs to another topic of the same name."""


class LogDirectoryLocked(Exception):
    """Another process, or another broker of this one, uses the log directory."""


class InconsistentMetaProperties(Exception):
    """The `meta.properties` of the log directories contradict each other or the broker's settings."""
