"""Holds the replicas of a partition, as files, against each other and against what a writer was told.

Called by campaigns while every writer rests and every broker runs. Shares no code with the broker's storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from barnabas.records.record_batch import batches
from tests.chaos.ledger import PartitionLedger
from tests.chaos.verification import Found

SETTLED_SECONDS = 120


def check_replicas(name: str, book: PartitionLedger, directories: Sequence[Path]) -> None:
    """Wait until all replicas have the same bytes; each record must be there once, in order, at its offset."""
    found = _records(equal_replicas(name, directories, lambda log: len(_records(log)) >= len(book.sent)))
    assert [record.offset for record in found] == list(range(len(found))), f"{name}: gaps"
    assert [record.value for record in found] == book.sent, f"{name}: other records than were sent"
    at = {record.value: record.offset for record in found}
    wrong = [value[:40] for value, offset in book.acknowledged.items() if at.get(value) != offset]
    assert not wrong, f"{name}: not where they were acknowledged: {wrong[:5]}"


def check_acknowledged(
    name: str, acknowledged: Mapping[bytes, int], directories: Sequence[Path], settled_seconds: float = SETTLED_SECONDS
) -> None:
    """Wait until each replica has all acknowledged records at their offsets, while writers may write.

    Raises AssertionError: not in time.
    """
    deadline = time.monotonic() + settled_seconds
    for directory in directories:
        while True:
            at = {each.value: each.offset for each in _records(_log_of(directory))}
            lost = {value[:40]: offset for value, offset in acknowledged.items() if at.get(value) != offset}
            if not lost:
                break
            assert time.monotonic() < deadline, (
                f"{name}: {len(lost)} of {len(acknowledged)} acknowledged records are lost in {directory}, which has"
                f" {len(at)} records: {list(lost.items())[:5]}"
            )
            time.sleep(0.2)


def equal_replicas(name: str, directories: Sequence[Path], is_whole: Callable[[bytes], bool]) -> bytes:
    """Return the log, segments joined, once all replicas have the same bytes and the log is whole.

    Raises AssertionError: not in time.
    """
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        logs = [_log_of(directory) for directory in directories]
        if len(set(logs)) == 1 and is_whole(logs[0]):
            return logs[0]
        if time.monotonic() > deadline:
            ends = [[(batch.base_offset, batch.end) for batch in batches(log)][-1:] for log in logs]
            raise AssertionError(
                f"{name}: the replicas have {[len(log) for log in logs]} bytes, equal: {len(set(logs)) == 1}, and their"
                f" last batches (offset, end) are {ends}: not the whole log after {SETTLED_SECONDS} s"
            )
        time.sleep(0.2)


def _log_of(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


def _records(log: bytes) -> list[Found]:
    return [Found(each.offset, each.key, each.value) for batch in batches(log) for each in batch.records()]
