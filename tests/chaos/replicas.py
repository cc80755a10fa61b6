"""Holds the replicas of a partition, as files, against each other and against what a writer was told.

Called by campaigns while every writer rests and every broker runs. Shares no code with the broker's storage.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from barnabas.records.record_batch import batches
from tests.chaos.ledger import PartitionLedger
from tests.chaos.verification import Found

SETTLED_SECONDS = 120


def check_replicas(name: str, book: PartitionLedger, directories: Sequence[Path]) -> None:
    """Wait until all replicas have the same bytes; each record must be there once, in order, at its offset."""
    found = _equal_replicas(name, directories, len(book.sent))
    assert [record.offset for record in found] == list(range(len(found))), f"{name}: gaps"
    assert [record.value for record in found] == book.sent, f"{name}: other records than were sent"
    at = {record.value: record.offset for record in found}
    wrong = [value[:40] for value, offset in book.acknowledged.items() if at.get(value) != offset]
    assert not wrong, f"{name}: not where they were acknowledged: {wrong[:5]}"


def _equal_replicas(name: str, directories: Sequence[Path], end_offset: int) -> list[Found]:
    """Return the records once all replicas have the same bytes to the end. Raises AssertionError: not in time."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        logs = [b"".join(each.read_bytes() for each in sorted(directory.glob("*.log"))) for directory in directories]
        if len(set(logs)) == 1 and len(found := _records(logs[0])) >= end_offset:
            return found
        if time.monotonic() > deadline:
            ends = [len(_records(each)) for each in logs]
            raise AssertionError(f"{name}: {end_offset} were sent, the replicas have {ends} records")
        time.sleep(0.2)


def _records(log: bytes) -> list[Found]:
    return [Found(each.offset, each.key, each.value) for batch in batches(log) for each in batch.records()]
