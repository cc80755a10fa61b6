"""Every reader of v2 records finds what the careful one finds: in uniform batches, in others, in damaged ones."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.arrow.decoder import EVERYTHING, UnpackedBatch, decode_record_batches
from barnabas.clients.consumer.fetch.batch_records import BatchRecords
from barnabas.clients.consumer.fetch.uniform_records import KnownShapes
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record, count_records, read_records, scan_keys
from barnabas.storage.validation import record_scan
from barnabas.storage.validation.record_scan import scan_pieces, scan_records

TP0 = TopicPartition("t", 0)
TIME_MS = 1_700_000_000_000
SIZES = (None, 0, 1, 3, 55, 62, 63, 64, 100, 500, 8192)
COUNTS = (1, 2, 6, 7, 16, 63, 64, 65, 70, 150)


class Layout(NamedTuple):
    """The records of a batch: sizes of key and value in turn (one pair: uniform), and those that are different."""

    record_count: int
    sizes: list[tuple[int | None, int | None]]
    time_step_ms: int
    base_offset: int
    odd: dict[int, str]


class Damage(NamedTuple):
    """What is done to a body: other bytes at some places, an end that is cut off, a count that lies."""

    bytes: list[tuple[int, int]]
    cut: int
    lie: int


class Read(NamedTuple):
    """The records before the first bad one, and whether there is a bad one."""

    records: list[Record]
    is_corrupt: bool


sizes = st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES))
layouts = st.builds(
    Layout,
    st.sampled_from(COUNTS),
    st.lists(sizes, min_size=1, max_size=1) | st.lists(sizes, min_size=2, max_size=5),
    st.sampled_from((0, 0, 1, -1, 90, 9000, 10**7)),
    st.sampled_from((0, 1 << 40)),
    st.dictionaries(
        st.integers(0, 149), st.sampled_from(("gap", "long gap", "null", "swap", "headers", "late")), max_size=3
    ),
)
places = st.integers(0, 40) | st.integers(0, 1 << 20)
some_bytes = st.sampled_from((0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0xFF)) | st.integers(0, 255)
damages = st.builds(
    Damage,
    st.lists(
        st.tuples(places, st.sampled_from((0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0xFF)) | st.integers(0, 255)), max_size=3
    ),
    st.just(0) | st.integers(0, 30),
    st.just(0) | st.integers(-1, 1),
)


def batch_of(layout: Layout) -> bytes:
    builder = RecordBatchBuilder(base_offset=layout.base_offset)
    timestamp, offset = TIME_MS, layout.base_offset
    for index in range(layout.record_count):
        key, value = (
            None if size is None else bytes((index & 0xFF,)) * size for size in layout.sizes[index % len(layout.sizes)]
        )
        headers: list[tuple[str, bytes | None]] = []
        match layout.odd.get(index):
            case "gap":
                offset += 1
            case "long gap":
                offset += 9000
            case "null":
                value = None
            case "swap":
                # As many bytes in all: only the lengths of key and value tell this record from the others.
                key, value = value, key
            case "headers":
                headers = [("", None), ("h" * 70, b"x" * 70)]
            case "late":
                timestamp += 70
        builder.append(timestamp, key, value, headers, offset=offset)
        timestamp += layout.time_step_ms
        offset += 1
    return builder.build()


def damaged(good: bytes, layout: Layout, damage: Damage) -> RecordBatch:
    batch = bytearray(good[: max(HEADER_SIZE + 1, len(good) - damage.cut)])
    for place, byte in damage.bytes:
        batch[HEADER_SIZE + place % (len(batch) - HEADER_SIZE)] = byte
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[HEADER_SIZE - 4 : HEADER_SIZE] = max(1, layout.record_count + damage.lie).to_bytes(4, "big")
    return RecordBatch(bytes(batch))


def read(batch: RecordBatch) -> Read:
    records: list[Record] = []
    try:
        records.extend(batch.records())
    except CorruptRecord:
        # `extend` has taken those before the error.
        return Read(records, True)
    return Read(records, False)


def consumed(batch: RecordBatch, limit: int, shapes: KnownShapes) -> Read:
    records: list[Record] = []
    try:
        decoder = BatchRecords(TP0, batch, shapes)
        while not decoder.is_done:
            taken = decoder.take(limit)
            assert len(taken) <= limit
            records += (Record(each[2], each[3], *each[5:]) for each in taken)
    except CorruptRecord:
        return Read(records, True)
    return Read(records, False)


def summary_of(body: bytes, count: int) -> tuple[int, int, bool, bool] | None:
    try:
        records = list(read_records(body, count, 0, 0, None))
    except CorruptRecord:
        return None
    times = [record.timestamp for record in records]
    consecutive = [record.offset for record in records] == list(range(count))
    return min(times), max(times), consecutive, any(record.key is None for record in records)


def check_validation(body: bytes, count: int, piece: int) -> None:
    expected = summary_of(body, count)
    pieces = (body[start : start + piece] for start in range(0, len(body), piece))
    if expected is None:
        with pytest.raises(CorruptRecord):
            scan_records(body, 0, count)
        with pytest.raises(CorruptRecord):
            scan_pieces(pieces, count)
    else:
        for found in (scan_records(body, 0, count), scan_records(b"head" + body, 4, count), scan_pieces(pieces, count)):
            assert expected == (
                *(found.min_timestamp_delta, found.max_timestamp_delta),
                *(found.offsets_consecutive, found.has_null_key),
            )
        assert count_records(body, 0, len(body)) == count


def check_cleaner(batch: RecordBatch, expected: Read) -> None:
    """The cleaner does not look behind a key: it may accept more."""
    try:
        found = scan_keys(bytes(batch.buffer), HEADER_SIZE, batch.end, batch.count, batch.base_offset)
    except CorruptRecord:
        assert expected.is_corrupt
        return
    assert found.starts == sorted(found.starts)
    assert (found.starts[0], found.starts[-1], len(found.starts)) == (HEADER_SIZE, batch.end, batch.count + 1)
    assert found.in_order == all(after == before + 1 for before, after in pairwise(found.offsets))
    unkeyed = scan_keys(bytes(batch.buffer), HEADER_SIZE, batch.end, batch.count, batch.base_offset, False)
    assert (unkeyed.starts, unkeyed.offsets, unkeyed.keyless) == (found.starts, found.offsets, found.keyless)
    assert (unkeyed.keys, unkeyed.tombstones) == ([], found.tombstones)
    if not expected.is_corrupt:
        assert found.keys == [record.key for record in expected.records]
        assert found.offsets == [record.offset for record in expected.records]
        assert found.tombstones == [place for place, record in enumerate(expected.records) if record.value is None]
        assert found.keyless == found.keys.count(None)


def check_arrow(batch: RecordBatch, expected: Read) -> None:
    unpacked = [UnpackedBatch.of(batch)]
    if expected.is_corrupt:
        with pytest.raises(CorruptRecord):
            decode_record_batches(unpacked, -(1 << 62), 1 << 62, EVERYTHING)
        return
    arrays = decode_record_batches(unpacked, -(1 << 62), 1 << 62, EVERYTHING)
    assert arrays.keys is not None
    assert arrays.values is not None
    assert arrays.headers is not None
    records = expected.records
    assert arrays.keys.to_pylist() == [record.key for record in records]
    assert arrays.values.to_pylist() == [record.value for record in records]
    assert arrays.offsets.tolist() == [record.offset for record in records]
    # Damage may make sums that no timestamp holds: columns wrap around.
    assert [time & 0xFFFFFFFFFFFFFFFF for time in arrays.timestamps.tolist()] == [
        record.timestamp & 0xFFFFFFFFFFFFFFFF for record in records
    ]
    headers = [tuple((each["key"], each["value"]) for each in row or ()) for row in arrays.headers.to_pylist()]
    assert headers == [record.headers for record in records]


@settings(deadline=None, max_examples=300)
@given(
    layouts,
    st.just(Damage([], 0, 0)) | damages,
    st.sampled_from((1, 7, 500)),
    st.integers(1, 300),
    st.sampled_from((1, 10, 100, 1 << 20)),
)
def test_every_reader_finds_what_the_careful_one_finds(
    layout: Layout, damage: Damage, limit: int, piece: int, window: int
) -> None:
    good = batch_of(layout)
    batch = damaged(good, layout, damage)
    expected = read(batch)
    assert expected.is_corrupt or len(expected.records) == batch.count
    shapes = KnownShapes()
    assert consumed(batch, limit, shapes) == expected
    # Once more, with what was learned of other records.
    consumed(RecordBatch(good), 500, shapes)
    assert consumed(batch, limit, shapes) == expected
    with pytest.MonkeyPatch.context() as patch:
        # The compiled module keeps its own window.
        patch.setattr(record_scan, "_WINDOW_BYTES", window)
        check_validation(bytes(batch.records_view()), batch.count, piece)
    check_cleaner(batch, expected)
    check_arrow(batch, expected)
