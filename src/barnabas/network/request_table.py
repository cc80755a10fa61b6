"""The counts of one Processor for the requests of one API, in plain lists that other threads read and sum.

Filled by `request_metrics` on the Processor's thread; no lock, so a read may be a moment late. The lists hold bucket
counts (`metrics.histogram`). A stage that most requests do not have is counted only for the requests that have it;
`request_samples` adds the zeros.
Kafka: RequestMetrics.
"""

from __future__ import annotations

from operator import add
from typing import Final

from barnabas.metrics.histogram import BUCKETS
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
    """The counters of one API since the start."""

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
        """Requests by version; the last item is for unknown versions."""
        self.error_counters: list[ErrorCounter | None] = [None] * (versions + 1)
        self.errors = new_error_counts()
        self.first_current_version = first_current_version
        self.plane = plane
        self.listener = listener
        self.queued = 0
        """Requests that went through the request queue; the others ran at once."""
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
        """For Fetch, the table of followers' requests; this table then holds the consumers' requests."""

    def add(self, other: RequestTable) -> None:
        """Add the counts of another table of the same API. The Processors of both tables have ended."""
        self.queued += other.queued
        for name in ("versions", "errors", *BUCKET_LISTS):
            setattr(self, name, list(map(add, getattr(self, name), getattr(other, name))))
