"""The requests of the cleaner's thread to its worker, and the answers: numbers and paths that can cross a pipe.

Immutable values, and the Protocol of a worker: `work.CleanerWork`, or `child.CleanerChild` in front of one. Between the
broker and the cleaner's process a request and its answer are one line of JSON each: JSON makes arrays of them, and `of`
makes requests of these arrays again. Kafka has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from barnabas.storage.cleaner.segment_writer import CleanedSegmentTerms
from barnabas.storage.cleaner.stats import CopyStats
from barnabas.storage.producers.entry import LastRecord
from barnabas.storage.segment.transaction_index import AbortedTransactionEntry


class DirtySegment(NamedTuple):
    """A segment to take keys from: its log file from `position` to `size`; the next one begins at `end_offset`."""

    path: str
    position: int
    size: int
    end_offset: int


class MapRequest(NamedTuple):
    """Begin a cleaning: find the newest offset of each key from `start_offset` on, until the map is full."""

    start_offset: int
    segments: Sequence[DirtySegment]
    aborted: Sequence[AbortedTransactionEntry]
    map_bytes: int
    load_factor: float
    buffer_bytes: int
    bytes_per_second: float

    @classmethod
    def of(cls, plain: Sequence[Any]) -> MapRequest:
        """Make the request from its JSON array."""
        start_offset, segments, aborted, *rest = plain
        return cls(start_offset, [DirtySegment(*each) for each in segments], _entries(aborted), *rest)


class MapResult(NamedTuple):
    """latest_offset: up to where keys were taken; -1 if none were. utilization: how full the map is, 0 to 1."""

    latest_offset: int
    utilization: float
    bytes_read: int


class SourceSegment(NamedTuple):
    """A segment to copy from, whole, with the aborted transactions that overlap it."""

    path: str
    size: int
    keeps_legacy_tombstones: bool
    aborted: Sequence[AbortedTransactionEntry]


class GroupRequest(NamedTuple):
    """Copy what stays of some segments into one new one. modified_ms: the modification time that its files get."""

    target: CleanedSegmentTerms
    segments: Sequence[SourceSegment]
    now_ms: int
    delete_retention_ms: int
    last_records: Sequence[tuple[int, LastRecord]]
    """The newest record of each producer, by producer id."""
    modified_ms: int

    @classmethod
    def of(cls, plain: Sequence[Any]) -> GroupRequest:
        """Make the request from its JSON array."""
        target, segments, now_ms, delete_retention_ms, last_records, modified_ms = plain
        return cls(
            CleanedSegmentTerms(*target),
            [SourceSegment(path, size, keeps, _entries(aborted)) for path, size, keeps, aborted in segments],
            now_ms,
            delete_retention_ms,
            [(producer_id, LastRecord(*last)) for producer_id, last in last_records],
            modified_ms,
        )


class GroupResult(NamedTuple):
    """The result of a GroupRequest: the new segment's files are on stable storage."""

    size: int
    bytes_read: int
    bytes_written: int
    messages_read: int
    messages_written: int
    invalid_messages_read: int

    @property
    def stats(self) -> CopyStats:
        """The counts of the copy."""
        return CopyStats(*self[1:])


def _entries(plain: Sequence[Sequence[int]]) -> list[AbortedTransactionEntry]:
    return [AbortedTransactionEntry(*each) for each in plain]


class CleanerWorker(Protocol):
    """Does the work on files. Requests raise OSError, CorruptRecord, CleanerInterrupted, and other errors.

    Any thread may call `interrupt`; only the owner's thread calls the other methods.
    """

    def open(self) -> None:
        """Accept requests. From now on `interrupt` aborts the current request, or the next one."""

    def interrupt(self) -> None:
        """Abort the current request, which raises CleanerInterrupted, if the worker can do that."""

    def build_map(self, request: MapRequest) -> MapResult:
        """Begin a cleaning: fill the offset map."""

    def clean_group(self, request: GroupRequest) -> GroupResult:
        """Write the `.cleaned` files of one group of segments; none are left when this raises."""

    def close(self) -> None:
        """Give up resources: no request follows for now."""
