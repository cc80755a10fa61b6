"""The scan accepts exactly what the reader decodes, and sums it up right: on good bodies and on mutated ones."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.record_reader import read_records
from barnabas.storage.validation import record_scan
from barnabas.storage.validation.record_scan import RecordSummary, scan_pieces, scan_records

fields = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.lists(
    st.tuples(st.integers(0, 1 << 41), fields, fields, headers, st.integers(0, 2)), min_size=1, max_size=6
)
mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3)


@given(records, mutations, st.integers(-1, 1))
def test_same_as_the_reader(
    given_records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
    changes: list[tuple[int, int]],
    lie: int,
) -> None:
    builder = RecordBatchBuilder()
    offset = 0
    for timestamp, key, value, header_list, gap in given_records:
        offset += gap
        builder.append(timestamp, key, value, header_list, offset=offset)
        offset += 1
    body = bytearray(builder.build()[HEADER_SIZE:])
    for place, byte in changes:
        body[place % len(body)] = byte
    count = max(1, len(given_records) + lie)
    expected: RecordSummary | None
    try:
        decoded = list(read_records(bytes(body), count, 0, 0, None))
        times = [record.timestamp for record in decoded]
        expected = RecordSummary(
            min(times),
            max(times),
            [record.offset for record in decoded] == list(range(count)),
            any(record.key is None for record in decoded),
        )
    except CorruptRecord:
        expected = None
    try:
        found = scan_records(bytes(body), count)
    except CorruptRecord:
        found = None
    assert found == expected


@given(records, mutations, st.integers(-1, 1), st.data())
def test_a_body_in_pieces_is_the_same_body(
    given_records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
    changes: list[tuple[int, int]],
    lie: int,
    data: st.DataObject,
) -> None:
    builder = RecordBatchBuilder()
    offset = 0
    for timestamp, key, value, header_list, gap in given_records:
        offset += gap
        builder.append(timestamp, key, value, header_list, offset=offset)
        offset += 1
    body = bytearray(builder.build()[HEADER_SIZE:])
    for place, byte in changes:
        body[place % len(body)] = byte
    count = max(1, len(given_records) + lie)
    expected = found = None
    with contextlib.suppress(CorruptRecord):
        expected = scan_records(bytes(body), count)
    size, window = data.draw(st.integers(1, 300)), data.draw(st.sampled_from((1, 10, 100, 1 << 20)))
    pieces = (bytes(body[start : start + size]) for start in range(0, len(body), size))
    with pytest.MonkeyPatch.context() as patch:
        # The compiled module keeps its own window.
        patch.setattr(record_scan, "_WINDOW_BYTES", window)
        with contextlib.suppress(CorruptRecord):
            found = scan_pieces(pieces, count)
    assert found == expected


def test_a_record_larger_than_a_window_is_skipped_in_a_stream() -> None:
    builder = RecordBatchBuilder()
    builder.append(5, b"small", b"value")
    builder.append(7, bytes(3 << 20), bytes(4 << 20), [("h" * 2000, bytes(2 << 20)), ("", None)])
    builder.append(6, None, b"value")
    body = builder.build()[HEADER_SIZE:]

    def pieces() -> Iterator[bytes]:
        yield from (body[start : start + 5000] for start in range(0, len(body), 5000))

    tracemalloc.start()
    try:
        assert scan_pieces(pieces(), 3) == scan_records(body, 3) == RecordSummary(0, 2, True, True)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        scan_pieces(pieces(), 3)
        assert tracemalloc.get_traced_memory()[1] - before < 4 << 20
    finally:
        tracemalloc.stop()
    for cut in (10, 3000, len(body) - 1):
        with pytest.raises(CorruptRecord):
            scan_pieces(iter((body[:cut],)), 3)
    with pytest.raises(CorruptRecord):
        scan_pieces(iter((body, b"x")), 3)


def test_offsets_of_one_two_and_three_bytes() -> None:
    builder = RecordBatchBuilder()
    for _ in range(20_000):
        builder.append(0, b"key", b"value")
    assert scan_records(builder.build()[HEADER_SIZE:], 20_000) == RecordSummary(0, 0, True, False)


def shape_of(chance: random.Random) -> Callable[[int], tuple[bytes | None, bytes | None]]:
    """Keys and values of a batch: all of the same lengths, mostly, or of any."""
    key_size, value_size = chance.choice((-1, 0, 3, 63, 64)), chance.choice((-1, 0, 5, 50, 55, 63, 64, 100, 9000))
    varied = chance.random() < 0.4

    def fields(index: int) -> tuple[bytes | None, bytes | None]:
        sizes = (chance.choice((-1, 0, 4)), chance.choice((0, 20, 60, 70))) if varied else (key_size, value_size)
        if chance.random() < 0.01:
            sizes = (sizes[0], sizes[1] + 1)
        key, value = (None if size < 0 else bytes([index & 0xFF]) * size for size in sizes)
        return key, value

    return fields


def expected_summary(body: bytes, count: int) -> RecordSummary | None:
    try:
        decoded = list(read_records(body, count, 0, 0, None))
    except CorruptRecord:
        return None
    times = [record.timestamp for record in decoded]
    consecutive = [record.offset for record in decoded] == list(range(count))
    return RecordSummary(min(times), max(times), consecutive, any(record.key is None for record in decoded))


@pytest.mark.parametrize("seed", range(8))
def test_long_runs_are_the_same_as_the_reader_too(seed: int) -> None:
    """Columns, tables and the careful way find the same, and none of them lets a changed byte through."""
    chance = random.Random(seed)
    refused = 0
    for _ in range(100):
        count = chance.choice((1, 2, 6, 7, 63, 64, 65, 70, 150))
        fields, slow = shape_of(chance), chance.choice((0, 0, 1, 40))
        builder = RecordBatchBuilder()
        for index in range(count):
            headers = [("h", b"v")] if chance.random() < 0.003 else []
            builder.append(index * slow // 4, *fields(index), headers)
        good = builder.build()[HEADER_SIZE:]
        assert scan_records(good, count) == expected_summary(good, count)
        for _ in range(6):
            body = bytearray(good)
            # Among the numbers of a record, where it hurts.
            place = chance.randrange(len(body)) if chance.random() < 0.5 else chance.randrange(min(12, len(body)))
            body[place] = chance.choice((0, 1, 2, 0x7E, 0x80, 0xFF, body[place] + 2 & 0xFF, body[place] ^ 1))
            changed = bytes(body[: chance.randrange(1, len(body))] if chance.random() < 0.1 else body)
            lied = count + chance.choice((0, 0, 0, -1, 1)) or 1
            expected = expected_summary(changed, lied)
            try:
                found = scan_records(changed, lied)
            except CorruptRecord:
                found = None
                refused += 1
            assert found == expected
    assert refused > 50
