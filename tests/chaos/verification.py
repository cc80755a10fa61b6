"""Holds what the broker has after a start against what the writers were told, and its indexes against its logs.

Called by the campaign while every writer rests. Shares no code with the broker's storage: records come by Fetch, files
are read with `struct`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.records.record_batch import batches
from tests.chaos.ledger import Ledger, PartitionLedger
from tests.chaos.topic_churn import TopicChurn
from tests.support.raw_client import SECONDS, RawClient, record_bytes
from tests.support.waiting import wait_until

_BATCH = struct.Struct(">qi11xi8xq")
"""Base offset, length, last offset delta, max timestamp."""
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
OVERLAP = 500
"""Records looked at again by the next inventory of what is new."""


class Found(NamedTuple):
    """A record as it was fetched."""

    offset: int
    key: bytes | None
    value: bytes | None


def fetched(client: RawClient, topic: str, partition: int, offset: int = 0) -> list[Found]:
    """Every record from `offset`, or from the log's start if that is later; offsets rise."""
    found: list[Found] = []
    first = client.list_offset(topic, -2, partition=partition)
    assert first.error_code == ErrorCode.NONE, first
    position = max(offset, first.offset)
    end = client.end_offset(topic, partition)
    while position < end:
        answer = client.fetch(topic, position, partition=partition, partition_max_bytes=4 << 20)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention is at work
            return fetched(client, topic, partition, position)
        assert answer.error_code == ErrorCode.NONE, answer
        data = record_bytes(answer)
        assert data, f"{topic}-{partition} has nothing at {position} before its end at {end}"
        for batch in batches(data):
            records = batch.records()
            found += [Found(each.offset, each.key, each.value) for each in records if each.offset >= position]
            position = max(position, batch.next_offset)
    assert all(earlier.offset < later.offset for earlier, later in pairwise(found))
    return found


def check_exactly_once(client: RawClient, ledger: Ledger, from_offset: list[int]) -> None:
    """An idempotent producer's partitions: every record there once, in the order of sending, at its offset."""
    for partition, book in enumerate(ledger.partitions):
        assert not book.failed, f"{ledger.topic}-{partition}: {len(book.failed)} deliveries failed"
        start = from_offset[partition]
        found = fetched(client, ledger.topic, partition, start)
        assert [record.offset for record in found] == list(range(start, len(book.sent)))
        assert [record.value for record in found] == book.sent[start:], f"{ledger.topic}-{partition}: other records"
        _check_acknowledged(ledger.topic, partition, book, found, start)
        from_offset[partition] = max(0, len(found) + start - OVERLAP)


def check_at_most_once(client: RawClient, ledger: Ledger, from_offset: list[int]) -> None:
    """acks=1 without retries: every acknowledged record at its offset, none twice, none unknown, none out of order."""
    for partition, book in enumerate(ledger.partitions):
        start = from_offset[partition]
        found = fetched(client, ledger.topic, partition, start)
        assert [record.offset for record in found] == list(range(start, start + len(found)))
        numbers = [_number_of(record.value) for record in found]
        assert all(earlier < later for earlier, later in pairwise(numbers)), f"{ledger.topic}-{partition}: out of order"
        assert [record.value for record in found] == [book.sent[number] for number in numbers]
        _check_acknowledged(ledger.topic, partition, book, found, start)
        from_offset[partition] = max(0, len(found) + start - OVERLAP)


def _number_of(value: bytes | None) -> int:
    assert value is not None
    return int(value.split(b" ", 1)[0].rpartition(b"/")[2])


def _check_acknowledged(topic: str, partition: int, book: PartitionLedger, found: list[Found], start: int) -> None:
    at = {record.value: record.offset for record in found}
    for value, offset in book.acknowledged.items():
        if offset >= start:
            assert at.get(value) == offset, (
                f"{topic}-{partition}: {value[:40]!r} of offset {offset} is at {at.get(value)}"
            )


def check_suffix(client: RawClient, ledger: Ledger) -> int:
    """A topic with retention: what is left is the gapless end of what was sent. Returns the records that are gone."""
    gone = 0
    for partition, book in enumerate(ledger.partitions):
        found = fetched(client, ledger.topic, partition)
        end = client.end_offset(ledger.topic, partition)
        assert end == len(book.sent), f"{ledger.topic}-{partition} ends at {end}, {len(book.sent)} records were sent"
        start = end - len(found)
        assert [record.value for record in found] == book.sent[start:]
        gone += start
    return gone


def check_compacted(client: RawClient, ledger: Ledger) -> int:
    """A compacted topic: every record left is where it was, and the last one of every key is there.

    Returns the number of records that compaction removed.
    """
    removed = 0
    for partition, book in enumerate(ledger.partitions):
        found = fetched(client, ledger.topic, partition)
        for record in found:
            assert record.value == book.sent[record.offset], (
                f"{ledger.topic}-{partition}: other record at {record.offset}"
            )
            assert record.key == book.sent[record.offset].split(b" ", 1)[0]
        left = {record.key: record.value for record in found}
        assert left == book.last_of_key, f"{ledger.topic}-{partition}: the last values differ"
        assert client.end_offset(ledger.topic, partition) == len(book.sent)
        removed += len(book.sent) - len(found)
    return removed


def check_topics(client: RawClient, churn: TopicChurn) -> None:
    """Topics that were made are there with their records; deleted ones are gone, at the latest after a moment."""
    for name, values in list(churn.values.items()):
        if name in churn.undecided:
            _settle(client, churn, name)
        else:
            client.wait_for_leaders(name, 2)
            at = {record.offset: record.value for record in fetched(client, name, 0)}
            assert at | values == at, f"{name} lost acknowledged records"
    for name in churn.deleted:
        _wait_until_gone(client, name)


def _settle(client: RawClient, churn: TopicChurn, name: str) -> None:
    """A deletion that was not answered may have happened or not."""
    topic = client.metadata(name)
    if topic.error_code == ErrorCode.NONE:
        churn.undecided.discard(name)  # alive, or about to go: the next deletion will tell
        return
    _wait_until_gone(client, name)
    del churn.values[name]
    churn.undecided.discard(name)
    churn.deleted.add(name)


def _wait_until_gone(client: RawClient, name: str) -> None:
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_until(lambda: client.metadata(name), SECONDS, lambda found: found.error_code == gone)


# -- indexes


def check_indexes(data_dir: Path) -> int:
    """Hold every index entry of every segment against its log; returns the number of entries."""
    checked = 0
    for log in sorted(data_dir.glob("*-*/*.log")):
        with suppress(FileNotFoundError):  # deleted meanwhile
            checked += _check_segment(log)
    return checked


class SegmentFiles(NamedTuple):
    """What the files of one segment hold."""

    log: bytes
    offset_index: bytes
    time_index: bytes


def _read_segment(log: Path) -> SegmentFiles:
    """Read the files of one and the same segment: the cleaner may swap in another one between two reads."""
    while True:
        before = log.stat().st_ino
        files = SegmentFiles(*(log.with_suffix(suffix).read_bytes() for suffix in (".log", ".index", ".timeindex")))
        if log.stat().st_ino == before:
            return files


def _check_segment(log: Path) -> int:
    base = int(log.stem)
    files = _read_segment(log)
    places = {position: (last, largest) for position, last, largest in _batch_places(files.log)}
    by_last_offset = dict(places.values())
    entries = _entries(files.offset_index, _OFFSET_ENTRY)
    for relative, position in entries:
        assert position in places, f"{log}: index entry at {position}, where no batch begins"
        assert places[position][0] == base + relative, f"{log}: index entry {base + relative} at {position}"
    times = _entries(files.time_index, _TIME_ENTRY)
    for timestamp, relative in times:
        assert by_last_offset.get(base + relative) == timestamp, (
            f"{log}: time index entry {timestamp} {base + relative}"
        )
    return len(entries) + len(times)


def _batch_places(data: bytes) -> Iterator[tuple[int, int, int]]:
    position = 0
    while position + _BATCH.size <= len(data):
        base, length, delta, largest = _BATCH.unpack_from(data, position)
        assert length > 0, f"a batch of {length} bytes at {position}"
        yield position, base + delta, largest
        position += 12 + length
    assert position == len(data), f"{len(data) - position} bytes behind the last batch"


def _entries(index: bytes, entry: struct.Struct) -> list[tuple[int, ...]]:
    """Entries up to the first that is all zero: a preallocated index is zero behind its end."""
    found = []
    for number, unpacked in enumerate(entry.iter_unpack(index[: len(index) // entry.size * entry.size])):
        if number and not any(unpacked):
            break
        if any(unpacked):
            found.append(unpacked)
    return found
