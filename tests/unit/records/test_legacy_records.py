"""Message sets of magic 0 and 1 against kafka-python's builder and reader, and the conversions both ways."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from barnabas.records.compression import Codec, compress, decompress
from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.legacy_records import LegacyBatch, encode_message, encode_message_set, legacy_batches
from barnabas.records.memory_records import any_batches, magic_at
from barnabas.records.record_batch import LOG_APPEND_TIME, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.record_conversion import up_convert
from barnabas.records.v2.walk import Record
from tests.support.down_conversion import down_convert

NULLABLE = st.none() | st.binary(max_size=200)
ROWS = st.lists(st.tuples(st.integers(0, 2**43), NULLABLE, NULLABLE), min_size=1, max_size=30)
MAGICS = st.sampled_from([0, 1])
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def records_of(rows: list[tuple[int, bytes | None, bytes | None]], base: int = 0) -> list[Record]:
    return [Record(base + i, *row) for i, row in enumerate(rows)]


def expected(records: list[Record], magic: int) -> list[Record]:
    return [r._replace(timestamp=r.timestamp if magic else -1) for r in records]


def read(buffer: bytes | bytearray) -> list[Record]:
    return [record for batch in any_batches(buffer) for record in batch.records()]


@given(ROWS, MAGICS)
def test_uncompressed_bytes_equal_kafka_pythons(rows: list, magic: int) -> None:  # type: ignore[type-arg]
    theirs = LegacyRecordBatchBuilder(magic, 0, 1 << 30)
    for record in records_of(rows):
        theirs.append(record.offset, record.timestamp, record.key, record.value)
    ours = encode_message_set(magic, records_of(rows))
    assert ours == bytes(theirs.build())
    assert read(ours) == expected(records_of(rows), magic)


@given(ROWS, MAGICS, st.sampled_from(OLD_CODECS[1:]), st.integers(0, 2**50))
def test_compressed_round_trip(rows: list, magic: int, codec: Codec, base: int) -> None:  # type: ignore[type-arg]
    records = records_of(rows, base)
    data = encode_message_set(magic, records, codec)
    (batch,) = legacy_batches(data)
    assert batch.is_valid_crc()
    assert (batch.codec, batch.base_offset, batch.last_offset) == (codec, base, records[-1].offset)
    assert batch.max_timestamp == (max(r.timestamp for r in records) if magic else -1)
    assert list(batch.records()) == expected(records, magic)


@given(ROWS, MAGICS, st.sampled_from([Codec.GZIP, Codec.SNAPPY]))
def test_kafka_python_reads_our_wrappers(rows: list, magic: int, codec: Codec) -> None:  # type: ignore[type-arg]
    records = records_of(rows, 1000)
    try:
        theirs = list(LegacyRecordBatch(bytearray(encode_message_set(magic, records, codec)), magic))
    except (ImportError, AttributeError):
        pytest.skip("kafka-python has no snappy here")
    assert [(r.offset, r.key, r.value) for r in theirs] == [(r.offset, r.key, r.value) for r in records]


def test_inner_offsets_are_absolute_in_magic_0_and_relative_in_magic_1() -> None:
    records = records_of([(1, None, b"a"), (1, None, b"b")], 500)
    for magic, first in ((0, 500), (1, 0)):
        batch = LegacyBatch(encode_message_set(magic, records, Codec.GZIP))
        inner = decompress(Codec.GZIP, batch.key_and_value()[1] or b"", 1000)
        assert [message.last_offset for message in legacy_batches(inner)] == [first, first + 1]


def test_a_wrapper_left_at_offset_0_keeps_its_inner_offsets() -> None:
    inner = encode_message_set(1, records_of([(1, None, b"a"), (1, None, b"b")]))
    batch = LegacyBatch(encode_message(1, 0, 1, None, compress(Codec.GZIP, inner), Codec.GZIP))
    assert [r.offset for r in batch.records()] == [0, 1]


def test_append_time_of_the_wrapper_wins() -> None:
    inner = encode_message_set(1, records_of([(1, None, b"a"), (2, None, b"b")]))
    batch = LegacyBatch(encode_message(1, 1, 999, None, compress(Codec.GZIP, inner), Codec.GZIP | 8))
    assert batch.timestamp_type == LOG_APPEND_TIME
    assert [r.timestamp for r in batch.records()] == [999, 999]


@given(ROWS, MAGICS, st.sampled_from(OLD_CODECS), st.integers(0, 2**50))
def test_up_conversion(rows: list, magic: int, codec: Codec, base: int) -> None:  # type: ignore[type-arg]
    data = up_convert(encode_message_set(magic, records_of(rows), codec), base_offset=base)
    batch = RecordBatch(data)
    assert batch.is_valid_crc()
    assert (batch.length, batch.codec, batch.count) == (len(data), codec, len(rows))
    assert list(batch.records()) == expected(records_of(rows, base), magic)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_up_conversion_of_very_many_messages(codec: Codec) -> None:
    records = records_of([(number, None, b"%d" % number) for number in range(9001)], 0)
    batch = RecordBatch(up_convert(encode_message_set(1, records, codec)))
    assert batch.is_valid_crc()
    assert list(batch.records()) == records


def test_up_conversion_of_mixed_messages_with_append_time_and_another_codec() -> None:
    data = encode_message(0, 7, -1, b"k", b"old") + encode_message_set(1, records_of([(5, None, b"new")]), Codec.LZ4)
    batch = RecordBatch(up_convert(data, codec=Codec.ZSTD, log_append_time=77))
    assert batch.codec is Codec.ZSTD
    assert list(batch.records()) == [Record(0, 77, b"k", b"old"), Record(1, 77, None, b"new")]
    assert RecordBatch(up_convert(data)).codec is Codec.LZ4
    assert [r.timestamp for r in RecordBatch(up_convert(data)).records()] == [-1, 5]


@given(ROWS, MAGICS, st.sampled_from(OLD_CODECS), st.integers(0, 2**50))
def test_down_conversion_and_back(rows: list, magic: int, codec: Codec, base: int) -> None:  # type: ignore[type-arg]
    builder = RecordBatchBuilder(codec, base_offset=base)
    for row in rows:
        builder.append(row[0], row[1], row[2], [("dropped", b"header")])
    old = down_convert(builder.build(), magic)
    assert {batch.magic for batch in any_batches(old)} == {magic}
    assert all(batch.is_valid_crc() and batch.codec == codec for batch in any_batches(old))
    assert read(old) == expected(records_of(rows, base), magic)
    back = up_convert(old, base_offset=base)
    assert list(RecordBatch(back).records()) == expected(records_of(rows, base), magic)


def test_down_conversion_skips_control_batches_and_early_records_and_keeps_old_messages() -> None:
    def batch(offset: int, count: int, codec: Codec = Codec.NONE, is_control: bool = False) -> bytes:
        builder = RecordBatchBuilder(codec, base_offset=offset, is_control=is_control)
        for _ in range(count):
            builder.append(3, b"\x00\x00\x00\x01", b"v")
        return builder.build()

    old = encode_message_set(1, [Record(0, 3, None, b"old")])
    data = old + batch(1, 3) + batch(4, 1, is_control=True) + batch(5, 2, Codec.GZIP) + batch(7, 1)[:-1]
    converted = down_convert(data, 1, first_offset=3)
    assert converted.startswith(old)
    assert [r.offset for r in read(converted)] == [0, 3, 5, 6]
    assert [b.magic for b in any_batches(down_convert(data, 0))] == [0, 0, 0, 0, 0]
    with pytest.raises(UnsupportedCodec):
        down_convert(batch(0, 1, Codec.ZSTD), 1)


def test_append_time_survives_down_conversion() -> None:
    for codec in OLD_CODECS:
        builder = RecordBatchBuilder(codec, timestamp_type=LOG_APPEND_TIME, log_append_time=50)
        builder.append(1, None, b"v")
        (message,) = any_batches(down_convert(builder.build(), 1))
        assert (message.timestamp_type, message.max_timestamp) == (LOG_APPEND_TIME, 50)
        assert next(message.records()).timestamp == 50


def test_lies_are_refused() -> None:
    good = encode_message_set(1, records_of([(1, b"k", b"v")] * 3), Codec.GZIP)
    nested = encode_message(1, 0, 1, None, compress(Codec.GZIP, good), Codec.GZIP)
    mixed = encode_message(1, 0, 1, None, compress(Codec.GZIP, encode_message(0, 0, 1, None, b"v")), Codec.GZIP)
    empty = encode_message(1, 0, 1, None, compress(Codec.GZIP, b""), Codec.GZIP)
    no_value = encode_message(1, 0, 1, None, None, Codec.GZIP)
    zstd = encode_message(1, 0, 1, None, compress(Codec.ZSTD, good), Codec.ZSTD)
    long_key = bytearray(encode_message(1, 0, 1, b"k", b"v"))
    struct.pack_into(">i", long_key, 26, 2**31 - 1)
    trailing = bytearray(encode_message(1, 0, 1, b"k", b"value"))
    struct.pack_into(">i", trailing, 31, 4)
    for data in (nested, mixed, empty, no_value, zstd, bytes(long_key), bytes(trailing), good[:-1], good + b"x", b""):
        with pytest.raises(CorruptRecord):
            up_convert(data)
    inner = bytearray(encode_message(1, 0, 1, b"k", b"v"))
    inner[-1] ^= 1
    with pytest.raises(CorruptRecord, match="checksum"):
        list(LegacyBatch(encode_message(1, 0, 1, None, compress(Codec.GZIP, inner), Codec.GZIP)).records())


@given(st.data(), MAGICS, st.sampled_from(OLD_CODECS))
def test_damage_raises_nothing_but_corrupt_record(data: st.DataObject, magic: int, codec: Codec) -> None:
    damaged = bytearray(encode_message_set(magic, records_of(data.draw(ROWS)), codec))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for action in (up_convert, lambda buffer: down_convert(buffer, 0), read):
        with contextlib.suppress(CorruptRecord, UnsupportedCodec):
            action(damaged)


@pytest.mark.parametrize(("buffer", "magic"), [(bytes(17), 0), (bytes(16) + b"\x02", 2)])
def test_magic_at(buffer: bytes, magic: int) -> None:
    assert magic_at(buffer) == magic
    for bad in (buffer[:16], bytes(16) + b"\x03", bytes(16) + b"\xff"):
        with pytest.raises(CorruptRecord):
            magic_at(bad)


def test_numbers_beyond_64_bits_wrap_on_the_way_down() -> None:
    builder = RecordBatchBuilder(base_offset=2**63 - 2)
    builder.append(2**63 - 1, None, b"a")
    data = bytearray(builder.build())
    data[-6] = 2  # a timestamp delta of 1
    (message,) = any_batches(down_convert(data, 1))
    assert message.max_timestamp == -(2**63)
