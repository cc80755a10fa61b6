"""The Arrow decoder against the plain record iterator, the encoder against both, and both against damaged bytes."""

from __future__ import annotations

import struct
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.arrow import (
    COLUMNS,
    RECORD_SCHEMA,
    BatchFormat,
    FetchedBatches,
    RecordColumns,
    Wanted,
    decode_batches,
    encode_batches,
    record_batch_of,
)
from barnabas.clients.arrow.record_fields import Extent, uniform_fields
from barnabas.clients.arrow.row_partitions import key_partitions
from barnabas.clients.arrow.row_partitions import murmur2 as murmur2_of_column
from barnabas.clients.producer.partition_choice import murmur2, partition_for_key
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import ATTRIBUTES_POSITION, CRC_POSITION, LOG_APPEND_TIME, RecordBatch, batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

Fields: TypeAlias = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

payloads = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"x" * 12, b"x" * 13, b"y" * 63, b"z" * 20_000])
headers = st.lists(st.tuples(st.text(max_size=8), payloads), max_size=3)
timestamps = st.integers(-1, 2**41)
records = st.tuples(timestamps, payloads, payloads, headers)
batch_contents = st.tuples(st.sampled_from(Codec), st.lists(records, min_size=1, max_size=20))


def build(base_offset: int, codec: Codec, rows: list[Fields]) -> bytes:
    builder = RecordBatchBuilder(codec, base_offset=base_offset)
    for row in rows:
        builder.append(*row)
    return builder.build()


def build_all(contents: list[tuple[Codec, list[Fields]]], gap: int = 0) -> bytes:
    pieces = []
    offset = 100
    for codec, rows in contents:
        pieces.append(build(offset, codec, rows))
        offset += len(rows) + gap
    return b"".join(pieces)


def decoded(buffer: bytes, start_offset: int = 0, end_offset: int = 1 << 62) -> list[Record]:
    """The Arrow decoder's rows in the plain iterator's form."""
    rows = decode_batches(buffer, TopicPartition("topic", 3), start_offset=start_offset, end_offset=end_offset)
    rows.validate(full=True)
    assert rows.schema == RECORD_SCHEMA
    milliseconds = (rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000).tolist()
    return [
        Record(offset, timestamp, key, value, tuple((item["key"], item["value"]) for item in items))
        for offset, timestamp, key, value, items in zip(
            rows.column("offset").to_pylist(),
            milliseconds,
            rows.column("key").to_pylist(),
            rows.column("value").to_pylist(),
            rows.column("headers").to_pylist(),
            strict=True,
        )
    ]


def plain(buffer: bytes) -> list[Record]:
    return [record for batch in any_batches(buffer) for record in batch.records()]


def with_valid_crc(batch: bytes) -> bytes:
    crc = crc32c(batch[ATTRIBUTES_POSITION:])
    return batch[:CRC_POSITION] + struct.pack(">I", crc) + batch[ATTRIBUTES_POSITION:]


@settings(deadline=None)
@given(st.lists(batch_contents, min_size=1, max_size=4), st.integers(0, 3))
def test_rows_equal_those_of_the_plain_iterator(contents: list[tuple[Codec, list[Fields]]], gap: int) -> None:
    buffer = build_all(contents, gap)
    assert decoded(buffer) == plain(buffer)


@settings(deadline=None)
@given(st.lists(batch_contents, min_size=1, max_size=3), st.integers(95, 170), st.integers(95, 170))
def test_only_the_asked_offsets_come_out(contents: list[tuple[Codec, list[Fields]]], start: int, end: int) -> None:
    buffer = build_all(contents)
    assert decoded(buffer, start, end) == [record for record in plain(buffer) if start <= record.offset < end]


@settings(deadline=None, max_examples=300)
@given(st.lists(records, min_size=1, max_size=6), st.data(), st.sampled_from([Codec.NONE, Codec.NONE, Codec.SNAPPY]))
def test_damage_behind_a_right_checksum_is_found_as_by_the_plain_iterator(
    rows: list[Fields], data: st.DataObject, codec: Codec
) -> None:
    """The checksum proves nothing about a hostile producer: whatever lies behind it, both decoders agree."""
    damaged = bytearray(build(0, codec, rows))
    for _ in range(data.draw(st.integers(1, 3))):
        # Not the length, magic or timestamps: 64-bit sums of hostile ones wrap in numpy.
        position = data.draw(st.integers(57, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    buffer = with_valid_crc(bytes(damaged))
    try:
        expected = plain(buffer)
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            decoded(buffer)
    else:
        assert [record[2:] for record in decoded(buffer, -(1 << 62))] == [record[2:] for record in expected]


runs = st.lists(st.tuples(st.integers(1, 120), st.sampled_from([0, 3, 60, 61, 70, 9_000])), min_size=1, max_size=4)


@settings(deadline=None, max_examples=30)  # each builds hundreds of records
@given(runs, st.integers(0, 400), st.sampled_from([Codec.NONE, Codec.ZSTD]))
def test_runs_of_records_of_one_size_are_found_exactly(runs: list[tuple[int, int]], odd: int, codec: Codec) -> None:
    """Lengths of one to three bytes; offsets that need a second byte from 64 on; one record that differs."""
    rows: list[Fields] = [(5, b"k", b"v" * size, []) for count, size in runs for _ in range(count)]
    rows[odd % len(rows)] = (5, None, b"odd", [("h", b"")])
    buffer = build(7, codec, rows) + build(7 + len(rows), codec, rows[:30])
    assert decoded(buffer) == plain(buffer)


sizes = st.sampled_from([-1, 0, 3, 12, 13, 54, 100, 300])


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([1, 2, 63, 64, 65, 130]), min_size=1, max_size=4),
    sizes,
    sizes,
    st.sampled_from([0, -3, 63, 64]),
    st.sampled_from([Codec.NONE, Codec.ZSTD]),
)
def test_places_of_records_laid_out_alike_are_computed(
    counts: list[int], key_size: int, value_size: int, time: int, codec: Codec
) -> None:
    """A size of -1 is NULL. Times that need a second byte, and lengths that grow to two bytes, are read one by one."""
    key = None if key_size < 0 else b"k" * key_size
    value = None if value_size < 0 else b"v" * value_size
    first: Fields = (1_000, key, value, [])
    other: Fields = (1_000 + time, key, value, [])
    contents = [(codec, [first, *[other] * (count - 1)]) for count in counts]
    buffer = build_all(contents, gap=1)
    assert decoded(buffer) == plain(buffer)


def test_offsets_of_three_bytes_are_computed_too() -> None:
    buffer = build_all([(Codec.NONE, [(5, b"k", b"v", [])] * 8_200)] * 2)
    assert decoded(buffer) == plain(buffer)
    [found] = [each for each in batches(buffer) if each.base_offset == 100]
    extents = [Extent(61, found.end, found.count)]
    fields = uniform_fields(buffer, np.frombuffer(buffer, np.uint8), extents)
    assert fields is not None
    assert fields.offset_deltas.tolist() == list(range(8_200))
    # One record of another offset, as compaction leaves them, is enough to have all fields read.
    gap = bytearray(buffer)
    position = int(fields.keys.positions[8_195]) - 2
    gap[position - 1] += 1
    assert uniform_fields(bytes(gap), np.frombuffer(gap, np.uint8), extents) is None


def test_a_short_length_that_leaves_fewer_bytes_than_records_is_found() -> None:
    damaged = bytearray(build(0, Codec.NONE, [(5, b"k", b"v" * 16, [])] * 61))
    damaged[61] = 42  # the first record's length, which was 44
    with pytest.raises(CorruptRecord):
        decoded(with_valid_crc(bytes(damaged)), -(1 << 62))


def test_a_wrong_checksum_is_refused() -> None:
    batch = bytearray(build(0, Codec.NONE, [(1, b"k", b"v", [])]))
    batch[-2] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        decoded(bytes(batch))
    assert len(decode_batches(bytes(batch), TopicPartition("t", 0), verify_crc=False)) == 1


def test_every_cut_leaves_the_whole_batches_before_it() -> None:
    first = build(0, Codec.NONE, [(1, b"k", b"v", [])])
    second = build(1, Codec.GZIP, [(1, b"k", b"w", [])])
    for size in range(len(first), len(first) + len(second)):
        fetched = FetchedBatches((first + second)[:size])
        assert fetched.next_offset == 1
        assert [len(chunk.offsets) for chunk in fetched.decode()] == [1]
    assert FetchedBatches(first[:-1]).next_offset is None
    assert decode_batches(first[:-1], TopicPartition("t", 0)).num_rows == 0


def test_a_count_beyond_the_bytes_allocates_nothing() -> None:
    batch = bytearray(build(0, Codec.NONE, [(1, b"k", b"v", [])]))
    batch[57:61] = struct.pack(">i", 2**31 - 1)
    with pytest.raises(CorruptRecord, match="cannot hold"):
        decoded(with_valid_crc(bytes(batch)))


def test_a_record_may_hold_very_many_headers() -> None:
    many: list[tuple[str, bytes | None]] = [(f"h{i}", None if i % 3 else b"v" * (i % 50)) for i in range(5_000)]
    buffer = build(0, Codec.NONE, [(1, b"k", b"v", many), (2, None, b"w", []), (3, b"", None, many[:2])])
    assert decoded(buffer) == plain(buffer)


def test_header_keys_that_are_no_text_are_replaced_as_in_java() -> None:
    batch = build(0, Codec.NONE, [(1, b"k", b"v", [("ab", b"1")])]).replace(b"ab", b"\xff\xfe")
    assert decoded(with_valid_crc(batch))[0].headers == (("\ufffd\ufffd", b"1"),)


def test_control_batches_are_skipped_but_passed() -> None:
    marker = RecordBatchBuilder(base_offset=1, is_control=True, is_transactional=True)
    marker.append(5, struct.pack(">hh", 0, 1), b"\0" * 6)
    fetched = FetchedBatches(build(0, Codec.NONE, [(1, b"k", b"v", [])]) + marker.build())
    assert [chunk.offsets.tolist() for chunk in fetched.decode()] == [[0]]
    assert fetched.next_offset == 2


def test_records_of_aborted_transactions_are_left_out() -> None:
    """Two producers' transactions overlap; the second one of the first producer is committed."""
    aborted = [
        FetchResponse.AbortedTransaction(producer_id=8, first_offset=2),
        FetchResponse.AbortedTransaction(producer_id=7, first_offset=0),
    ]
    written = [part_of(0, 7), part_of(1, -1), part_of(2, 8), part_of(3, 7), marker_of(4, 7), part_of(5, 7)]
    written += [part_of(6, 8), part_of(7, 9), marker_of(8, 8), marker_of(9, 7)]
    buffer = b"".join(written)
    fetched = FetchedBatches(buffer, aborted)
    for _ in range(2):
        assert [offset for chunk in fetched.decode() for offset in chunk.offsets.tolist()] == [1, 5, 7]
    assert fetched.next_offset == 10
    assert [chunk.offsets.tolist() for chunk in FetchedBatches(buffer).decode()] == [[0, 1, 2, 3, 5, 6, 7]]
    # The producer of a marker decides what is read: its checksum counts like that of records.
    damaged = bytearray(buffer)
    damaged[sum(map(len, written[:5])) - 1] ^= 1
    with pytest.raises(CorruptRecord):
        list(FetchedBatches(bytes(damaged), aborted).decode())


def part_of(offset: int, producer_id: int) -> bytes:
    """A batch of one record in a transaction of the producer; of none for -1."""
    builder = RecordBatchBuilder(base_offset=offset, producer_id=producer_id, is_transactional=producer_id >= 0)
    builder.append(1, None, b"v")
    return builder.build()


def marker_of(offset: int, producer_id: int) -> bytes:
    builder = RecordBatchBuilder(base_offset=offset, producer_id=producer_id, is_control=True, is_transactional=True)
    builder.append(1, struct.pack(">hh", 0, 0), b"\0" * 6)
    return builder.build()


def test_a_batch_stamped_by_the_broker_gives_its_time_to_all_records() -> None:
    builder = RecordBatchBuilder(base_offset=7, timestamp_type=LOG_APPEND_TIME, log_append_time=9_000)
    builder.append(1, b"a", b"b")
    builder.append(2, b"c", b"d")
    buffer = build(5, Codec.NONE, [(3, b"", b"", [])]) + builder.build()
    assert [record.timestamp for record in decoded(buffer)] == [3, 9_000, 9_000]
    assert decode_batches(buffer, TopicPartition("t", 0)).column("timestampType").to_pylist() == [0, 1, 1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_are_read_too(magic: int, codec: Codec) -> None:
    rows = [Record(10, 1_000, b"a", b"1"), Record(11, 2_000, None, b"2"), Record(12, 3_000, b"c", None)]
    buffer = encode_message_set(magic, rows, codec) + build(13, Codec.NONE, [(4, b"d", b"4", [("h", b"")])])
    assert decoded(buffer) == plain(buffer)
    assert decoded(buffer, 11, 12)[0].value == b"2"
    types = decode_batches(buffer, TopicPartition("t", 0)).column("timestampType").to_pylist()
    assert types == [-1 if magic == 0 else 0] * 3 + [0]


def test_large_fetches_come_in_chunks() -> None:
    buffer = build_all([(Codec.ZSTD, [(1, b"k", bytes(10_000), [])] * 5)] * 6)
    chunks = list(FetchedBatches(buffer).decode(chunk_bytes=100_000))
    assert [len(chunk.offsets) for chunk in chunks] == [10, 10, 10]


def test_only_the_asked_columns_are_made() -> None:
    buffer = build(0, Codec.NONE, [(1, b"k", b"v", [("a", b"b")])])
    rows = decode_batches(buffer, TopicPartition("t", 4), columns=["partition", "value"])
    assert rows.to_pylist() == [{"partition": 4, "value": b"v"}]
    chunk = next(FetchedBatches(buffer).decode(wanted=Wanted(keys=False, headers=False)))
    assert chunk.keys is None
    row = record_batch_of(chunk, "t", 4, [name for name in COLUMNS if name != "key"])
    assert row.column("headers").to_pylist() == [[]]
    assert row.column("headers").null_count == 0


# The encoder


def columns_of(rows: list[Fields]) -> RecordColumns:
    return RecordColumns(
        len(rows),
        pa.array([row[1] for row in rows], pa.binary()),
        pa.array([row[2] for row in rows], pa.binary()),
        pa.array([[{"key": name, "value": value} for name, value in row[3]] for row in rows], RECORD_SCHEMA[7].type),
        np.array([row[0] for row in rows], np.int64),
    )


def plain_fields(batch: bytes) -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    return [(record.timestamp, record.key, record.value, list(record.headers)) for record in plain(batch)]


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=30), st.sampled_from(Codec))
def test_an_encoded_batch_is_byte_equal_to_a_built_one(rows: list[Fields], codec: Codec) -> None:
    (encoded,) = encode_batches(columns_of(rows), BatchFormat(codec, batch_bytes=1 << 30))
    assert encoded.data == build(0, codec, rows)
    assert encoded.record_count == len(rows)


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=60), st.integers(1, 3_000))
def test_batches_are_cut_in_order_and_below_the_limit(rows: list[Fields], batch_bytes: int) -> None:
    encoded = list(encode_batches(columns_of(rows), BatchFormat(batch_bytes=batch_bytes)))
    assert [fields for each in encoded for fields in plain_fields(each.data)] == rows
    for each in encoded:
        (batch,) = batches(each.data)
        batch.check()
        assert batch.count == each.record_count == batch.last_offset_delta + 1
        assert len(each.data) - 61 <= batch_bytes or each.record_count == 1


def test_columns_may_be_slices_text_or_missing() -> None:
    keys = pa.array(["zero", "one", None, "three"])[1:]
    values = pa.array([b"-", b"1", b"2", None], pa.binary())[1:]
    headers = pa.array([None, [{"key": "a", "value": b"1"}], None, []], RECORD_SCHEMA[7].type)[1:]
    (encoded,) = encode_batches(RecordColumns(3, keys, values, headers), now_ms=77)
    assert plain_fields(encoded.data) == [
        (77, b"one", b"1", [("a", b"1")]),
        (77, None, b"2", []),
        (77, b"three", None, []),
    ]
    (encoded,) = encode_batches(RecordColumns(2, None, pa.nulls(2)), now_ms=5)
    assert plain_fields(encoded.data) == [(5, None, None, []), (5, None, None, [])]
    assert list(encode_batches(RecordColumns(0, None, pa.array([], pa.binary())))) == []


def test_a_header_without_a_key_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"1"}]], RECORD_SCHEMA[7].type)
    with pytest.raises(ValueError, match="header without a key"):
        list(encode_batches(RecordColumns(1, None, pa.array([b"v"]), headers)))


def test_encoding_in_several_groups_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.clients.arrow.encoder._JOINED_BYTES", 1_000)
    rows: list[Fields] = [(i, b"k%d" % i, b"v" * (i * 37 % 400), [("h", b"%d" % i)]) for i in range(200)]
    encoded = list(encode_batches(columns_of(rows), BatchFormat(batch_bytes=300)))
    assert [fields for each in encoded for fields in plain_fields(each.data)] == rows
    whole = list(encode_batches(columns_of(rows), BatchFormat(batch_bytes=5_000)))
    assert [fields for each in whole for fields in plain_fields(each.data)] == rows
    assert RecordBatch(whole[0].data).producer_id == -1


# Keys to partitions


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=30), st.integers(0, 5), st.integers(1, 100))
def test_keys_go_where_kafkas_partitioner_puts_them(keys: list[bytes], skip: int, count: int) -> None:
    column = pa.array([b"front"] * skip + keys, pa.binary())[skip:]
    assert murmur2_of_column(column).tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys]
    assert key_partitions(column, count).tolist() == [partition_for_key(key, count) for key in keys]
