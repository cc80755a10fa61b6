"""What the log raises besides `ApiError`: replication and loading go wrong in ways no client is answered about.

Used by this package and by whoever replicates. No state.
"""

from __future__ import annotations

import errno

SHORTAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


def is_shortage(error: OSError) -> bool:
    """Whether the disk is full, or too many files are open: what was tried has failed, but the disk has not.

    Not to be asked about a sync: what a failed one was to write may be lost, whatever the reason.
    """
    return error.errno in SHORTAGES


class OffsetsOutOfOrder(Exception):
    """The batches of a follower's append don't rise in offset."""


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
