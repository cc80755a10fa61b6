"""What one Processor counts of the requests of one API: plain lists of its thread, which others read and sum.

Filled by `request_metrics`; a read may be a moment late. Lists of bucket counts (see `metrics.buckets`): stages that
most requests do not have are counted only where there was one, and `request_metrics` takes the rest for zero.
"""

from __future__ import annotations

from operator import add
from typing import Final

from barnabas.metrics.buckets import BUCKETS
from barnabas.network.error_counts import ErrorCounter, new_error_counts

BUCKET_LISTS: Final = (
    "request_queue",
    "local",
    "remote",
    "throttle",
    "response_queue",
    "response_send",
    "total",
    "request_bytes",
    "response_bytes",
    "conversions",
    "temporary_memory",
)


class RequestTable:
    """Counters since the start."""

    __slots__ = (
        "conversions",
        "error_counters",
        "errors",
        "first_current_version",
        "follower",
        "listener",
        "local",
        "plane",
        "queued",
        "remote",
        "request_bytes",
        "request_queue",
        "response_bytes",
        "response_queue",
        "response_send",
        "temporary_memory",
        "throttle",
        "total",
        "versions",
    )

    def __init__(self, versions: int, first_current_version: int, plane: str, listener: str) -> None:
        """versions: how many there are, from 0; those below `first_current_version` are deprecated."""
        self.versions = [0] * (versions + 1)
        """Requests by version; the last item is for those we do not know."""
        self.error_counters: list[ErrorCounter | None] = [None] * (versions + 1)
        self.errors = new_error_counts()
        self.first_current_version = first_current_version
        self.plane = plane
        self.listener = listener
        self.queued = 0
        """Requests that went through the request queue; the others were run at once."""
        self.request_queue = [0] * BUCKETS
        self.local = [0] * BUCKETS
        self.remote = [0] * BUCKETS
        self.throttle = [0] * BUCKETS
        self.response_queue = [0] * BUCKETS
        self.response_send = [0] * BUCKETS
        self.total = [0] * BUCKETS
        self.request_bytes = [0] * BUCKETS
        self.response_bytes = [0] * BUCKETS
        self.conversions = [0] * BUCKETS
        self.temporary_memory = [0] * BUCKETS
        self.follower: RequestTable | None = None
        """Of Fetch: where followers' requests are counted; this table then holds the consumers'."""

    def add(self, other: RequestTable) -> None:
        """Take over what another table of the same API holds. No Processor adds to either any more."""
        self.queued += other.queued
        for name in ("versions", "errors", *BUCKET_LISTS):
            setattr(self, name, list(map(add, getattr(self, name), getattr(other, name))))
