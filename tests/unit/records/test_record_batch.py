"""Batches of format v2 against kafka-python's builder and reader, with lies and damage."""

from __future__ import annotations

import contextlib
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from barnabas.records.compression import Codec
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    ControlRecord,
    RecordBatch,
    batches,
)
from barnabas.records.record_batch_builder import RecordBatchBuilder, estimate_size
from barnabas.records.v2.walk import Record, count_records

NULLABLE = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=20), NULLABLE), max_size=4).map(tuple)
TIMESTAMPS = st.integers(0, 2**43)
RECORDS = st.lists(st.tuples(TIMESTAMPS, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=40)


def build(records: list[tuple], codec: Codec = Codec.NONE, **options: int | bool) -> bytes:  # type: ignore[type-arg]
    builder = RecordBatchBuilder(codec, **options)  # type: ignore[arg-type]
    for record in records:
        builder.append(*record)
    return builder.build()


@given(RECORDS)
def test_bytes_equal_kafka_pythons(records: list[tuple]) -> None:  # type: ignore[type-arg]
    theirs = DefaultRecordBatchBuilder(2, 0, False, 77, 3, 100, 1 << 30)
    for offset, (timestamp, key, value, headers) in enumerate(records):
        theirs.append(offset, timestamp, key, value, headers)
    ours = build(records, producer_id=77, producer_epoch=3, base_sequence=100, partition_leader_epoch=0)
    assert ours == bytes(theirs.build())


@given(RECORDS, st.sampled_from(list(Codec)))
def test_others_read_what_we_build(records: list[tuple], codec: Codec) -> None:  # type: ignore[type-arg]
    ours = build(records, codec, producer_id=1, producer_epoch=0, base_sequence=5, is_transactional=True)
    for batch in (DefaultRecordBatch(ours), AiokafkaBatch(ours)):
        assert batch.validate_crc()
        assert batch.compression_type == codec
        assert batch.is_transactional
        read = [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
        assert read == records


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(0, 2**60))
def test_round_trip(records: list[tuple], codec: Codec, base_offset: int) -> None:  # type: ignore[type-arg]
    data = build(records, codec, base_offset=base_offset)
    batch = RecordBatch(memoryview(b"\x00" * 7 + data + b"\xff" * 9), 7)
    assert batch.is_valid_crc()
    assert batch.codec is codec
    assert batch.length == len(data)
    assert (batch.base_offset, batch.count, batch.next_offset) == (
        base_offset,
        len(records),
        base_offset + len(records),
    )
    assert batch.max_timestamp == max(r[0] for r in records)
    assert list(batch.records()) == [Record(base_offset + i, *r) for i, r in enumerate(records)]


@given(RECORDS)
def test_framing_counts_what_is_there(records: list[tuple]) -> None:  # type: ignore[type-arg]
    data = build(records)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert count_records(buffer, HEADER_SIZE, len(data)) == len(records)


@given(RECORDS, st.integers(0, 200))
def test_framing_refuses_a_walk_that_does_not_end_at_the_end(records: list[tuple], cut: int) -> None:  # type: ignore[type-arg]
    data = build(records)
    if 0 < cut <= len(data) - HEADER_SIZE:
        with contextlib.suppress(CorruptRecord):
            assert count_records(data, HEADER_SIZE, len(data) - cut) < len(records)


@pytest.mark.parametrize(
    "length",
    [
        b"\x01",  # -1
        b"\x00",  # 0
        b"\x0a",  # 5: less than any record
        b"\x80\x00",  # 0, in two bytes
        b"\x81\x01",  # negative, in two bytes
        b"\x80\x80\x00",
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x80\x01",  # six bytes
        b"\x80",  # cut off
        b"\xfe\xff\x03",
    ],
)
def test_framing_refuses_impossible_lengths(length: bytes) -> None:
    good = b"\x0c" + bytes(6)
    assert count_records(good * 3, 0, 21) == 3
    assert count_records(b"\x8c\x00" + bytes(6) + good, 0, 15) == 2  # more bytes than needed are not wrong
    for buffer in (good + length, length + bytes(6), good + length + bytes(6)):
        with pytest.raises(CorruptRecord):
            count_records(buffer, 0, len(buffer))


@pytest.mark.parametrize("lie", [0, 2, 4, -1, 2**31 - 1])
def test_a_lying_count_is_refused(lie: int) -> None:
    data = bytearray(build([(1, b"k", b"v", ())] * 3))
    struct.pack_into(">i", data, 57, lie)
    batch = RecordBatch(data)
    with pytest.raises(CorruptRecord):
        list(batch.records())


def test_timestamps_of_log_append_time() -> None:
    data = build([(5, None, b"v", ()), (9, None, b"v", ())], timestamp_type=LOG_APPEND_TIME, log_append_time=1000)
    batch = RecordBatch(data)
    assert (batch.timestamp_type, batch.max_timestamp) == (LOG_APPEND_TIME, 1000)
    assert [r.timestamp for r in batch.records()] == [1000, 1000]
    assert [r.timestamp for r in DefaultRecordBatch(data)] == [1000, 1000]


def test_offsets_with_gaps_and_other_fields() -> None:
    builder = RecordBatchBuilder(Codec.ZSTD, base_offset=100, partition_leader_epoch=7)
    for offset in (103, 110):
        builder.append(1, None, None, offset=offset)
    with pytest.raises(ValueError, match="offset 110 is not above the last one, 110"):
        builder.append(1, None, None, offset=110)
    batch = RecordBatch(builder.build())
    assert [r.offset for r in batch.records()] == [103, 110]
    assert (batch.base_offset, batch.last_offset, batch.count, batch.partition_leader_epoch) == (100, 110, 2, 7)
    assert not batch.is_control
    assert batch.last_sequence == -1


def test_sequence_numbers_wrap() -> None:
    data = build([(1, None, None, ())] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert RecordBatch(data).last_sequence == DefaultRecordBatch(data).last_sequence == 0


def test_control_batch() -> None:
    batch = RecordBatch(build([(1, struct.pack(">hh", 0, 1), b"", ())], is_control=True, is_transactional=True))
    assert batch.is_control
    assert ControlRecord.parse(next(batch.records()).key) == ControlRecord(0, 1)
    for key in (None, b"", b"\x00\x00\x00"):
        with pytest.raises(CorruptRecord):
            ControlRecord.parse(key)


def test_the_checksum_does_not_cover_offset_and_epoch() -> None:
    data = bytearray(build([(1, b"k", b"v", ())]))
    struct.pack_into(">q", data, 0, 12345)
    struct.pack_into(">i", data, 12, 9)
    assert RecordBatch(data).is_valid_crc()
    data[-1] ^= 1
    assert not RecordBatch(data).is_valid_crc()
    with pytest.raises(CorruptRecord, match="checksum"):
        RecordBatch(data).check()


def test_batches_stop_before_a_cut_one() -> None:
    one, two = build([(1, b"a", b"b", ())]), build([(1, b"c", b"d" * 100, ())], base_offset=1)
    data = one + two
    for end in range(len(data) + 1):
        found = [batch.base_offset for batch in batches(memoryview(data)[:end])]
        assert found == [0, 1][: (end >= len(one)) + (end >= len(data))]
    header_only = RecordBatch(two[:HEADER_SIZE])
    assert not header_only.is_valid_crc()
    with pytest.raises(CorruptRecord):
        list(header_only.records())


@given(st.data(), st.sampled_from(list(Codec)))
def test_damage_raises_nothing_but_corrupt_record(data: st.DataObject, codec: Codec) -> None:
    damaged = bytearray(build(data.draw(RECORDS), codec))
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        for batch in batches(damaged):
            _ = batch.is_valid_crc(), repr(batch), batch.last_sequence
            for _ in batch.records(1 << 20):
                pass
    except CorruptRecord:
        pass
    with contextlib.suppress(CorruptRecord):
        count_records(damaged, HEADER_SIZE, len(damaged))


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_but_corrupt_record(garbage: bytes) -> None:
    try:
        for batch in batches(garbage):
            list(batch.records(1 << 20))
    except CorruptRecord:
        pass


@given(RECORDS)
def test_the_estimate_is_an_upper_bound(records: list[tuple]) -> None:  # type: ignore[type-arg]
    estimate = HEADER_SIZE + sum(estimate_size(*record[1:]) for record in records)
    assert len(build(records)) <= estimate


def test_size_is_exact_before_compression() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, b"k" * 5000, b"v", [("h", None)])
    assert builder.append(2, None, b"v" * 70) == builder.size == len(builder.build())


def test_a_record_that_cannot_be_encoded_leaves_the_builder_as_it_was() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, None, b"a")
    with pytest.raises((AttributeError, TypeError)):  # compiled code looks at the type first
        builder.append(99, None, b"b", [(5, b"")])  # type: ignore[list-item]
    builder.append(2, None, b"c")
    batch = RecordBatch(builder.build())
    assert [(record.offset, record.value) for record in batch.records()] == [(0, b"a"), (1, b"c")]
    assert batch.max_timestamp == 2
