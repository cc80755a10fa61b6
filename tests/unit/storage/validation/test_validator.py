"""What a leader refuses, and what it stores of what it accepts, at each level of validation."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.compression import Codec, compress
from barnabas.records.legacy_records import encode_message, encode_message_set
from barnabas.records.record_batch import HEADER, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.layout import zigzag
from barnabas.records.v2.walk import Record
from barnabas.runtime.files import Buffer
from barnabas.storage.log_append_info import AppendOrigin, InvalidRecords
from barnabas.storage.validation import legacy as legacy_module
from barnabas.storage.validation import validator as validator_module
from barnabas.storage.validation.validator import AT_ONCE_BYTES
from tests.support.stored_batches import changed
from tests.unit.storage.log_harness import NOW, Broker, batch, log_config, read_all, without_place

LEVELS = ("header", "framing", "full")


def refuse(produced: Buffer | None, **settings: object) -> ApiError:
    """Append to a log of these settings; the error it raises, having changed nothing."""
    log = Broker(config=log_config(**settings)).log()
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(produced, 0)
    assert (log.log_end_offset, log.local.segments.size) == (0, 0)
    return caught.value


def store(produced: bytes, **settings: object) -> RecordBatch:
    """Append to a log of these settings; the batch as it is stored."""
    log = Broker(config=log_config(**settings)).log()
    info = log.append_as_leader(produced, 3)
    (stored,) = read_all(log)
    view = RecordBatch(stored)
    assert view.is_valid_crc()
    assert (view.base_offset, view.last_offset, view.partition_leader_epoch) == (0, info.last_offset, 3)
    assert view.max_timestamp == info.max_timestamp
    assert list(view.records())
    return view


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("produced", "code"),
    [
        (changed(batch(2), base_offset=5), ErrorCode.INVALID_RECORD),
        (changed(batch(2), crc=1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(2), length=40), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(2), length=-1), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(2), magic=3), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(2), count=3), ErrorCode.INVALID_RECORD),
        (changed(batch(2), count=0, last_delta=-1), ErrorCode.INVALID_RECORD),
        (changed(batch(2), count=-1), ErrorCode.INVALID_RECORD),
        (changed(batch(2), last_delta=-5), ErrorCode.INVALID_RECORD),
        (changed(batch(2), attributes=0x20), ErrorCode.INVALID_RECORD),
        (changed(batch(2), attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(batch(2), producer_id=9, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(2) + batch(2), ErrorCode.INVALID_RECORD),
    ],
)  # fmt: skip
def test_lies_in_the_header_are_refused(level: str, produced: bytes, code: ErrorCode) -> None:
    for given in (produced, memoryview(produced)):
        assert refuse(given, record_validation=level).code is code


def test_lying_count_is_refused_where_records_are_walked() -> None:
    """Consistent in the header, but not with the records."""
    lie = changed(batch(3), count=2, last_delta=1)
    store_header = Broker(config=log_config(record_validation="header")).log()
    store_header.append_as_leader(lie, 0)
    for level in ("framing", "full"):
        assert refuse(lie, record_validation=level).code is ErrorCode.INVALID_RECORD
        packed = changed(batch(3, codec=Codec.ZSTD), count=2, last_delta=1)
        if level == "full":
            assert refuse(packed, record_validation=level).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("level", LEVELS)
def test_good_batches_stay_byte_for_byte(codec: Codec, level: str) -> None:
    produced = batch(4, codec=codec)
    log = Broker(config=log_config(record_validation=level)).log()
    assert not log.append_as_leader(produced, 0).conversion_ns
    assert [without_place(one) for one in read_all(log)] == [without_place(produced)]


@pytest.mark.parametrize("produced", [None, b"", batch(2)[:-1], batch(2)[:30], batch(2)[:5]])
def test_nothing_whole_is_no_append(produced: bytes | None) -> None:
    log = Broker().log()
    info = log.append_as_leader(produced, 0)
    assert (info.first_offset, info.valid_bytes, log.log_end_offset) == (-1, 0, 0)


@pytest.mark.parametrize("rest", [b"\0" * 5, batch(1)[:-1], batch(1)[:20]])
def test_a_cut_off_second_batch_is_trimmed(rest: bytes) -> None:
    log = Broker().log()
    assert log.append_as_leader(batch(2) + rest, 0).valid_bytes == len(batch(2))
    assert [without_place(one) for one in read_all(log)] == [without_place(batch(2))]


def test_sizes() -> None:
    size = len(batch(1))
    assert refuse(batch(1), max_message_bytes=size - 1).code is ErrorCode.MESSAGE_TOO_LARGE
    store(batch(1), max_message_bytes=size)
    assert refuse(batch(1), segment_bytes=size - 1).code is ErrorCode.RECORD_LIST_TOO_LARGE
    store(batch(1), segment_bytes=size)


def test_append_time_is_stamped_with_a_right_checksum() -> None:
    for codec in (Codec.NONE, Codec.LZ4):
        log = Broker(config=log_config(message_timestamp_type="LogAppendTime")).log()
        info = log.append_as_leader(batch(3, codec=codec, timestamp=NOW - 5000), 0)
        assert (info.log_append_time_ms, info.max_timestamp) == (NOW, NOW)
        view = RecordBatch(read_all(log)[0])
        assert view.is_valid_crc()
        assert view.timestamp_type == 1
        assert {record.timestamp for record in view.records()} == {NOW}


def test_append_time_of_a_producer() -> None:
    """A topic of append time refuses it; a topic of create time stores it as create time, as Kafka does."""
    stamped = changed(batch(2), attributes=8)
    error = refuse(stamped, message_timestamp_type="LogAppendTime")
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecords)
    assert store(stamped).timestamp_type == 0


@pytest.mark.parametrize("setting", ["message_timestamp_before_max_ms", "message_timestamp_after_max_ms"])
def test_timestamps_too_far_off_are_named(setting: str) -> None:
    sign = -1 if "before" in setting else 1
    builder = RecordBatchBuilder()
    for offset, difference in enumerate((0, 1000, 1001, 5000)):
        builder.append(NOW + sign * difference, b"k", b"%d" % offset)
    error = refuse(builder.build(), **{setting: 1000})
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecords)
    assert [index for index, _ in error.record_errors] == [2, 3]
    store(batch(1, timestamp=NOW + sign * 1000), **{setting: 1000})
    store(batch(1, timestamp=-1), **{setting: 1000})


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_compacted_topics_want_keys(codec: Codec) -> None:
    builder = RecordBatchBuilder(codec)
    for key in (b"a", None, b"c", None):
        builder.append(NOW, key, b"v")
    error = refuse(builder.build(), cleanup_policy="compact")
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecords)
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert "Compacted topic cannot accept message without key" in str(error.record_errors[0][1])
    store(batch(2, codec=codec), cleanup_policy="compact,delete")


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topics_codec(source: Codec, target: str) -> None:
    produced = RecordBatchBuilder(source, producer_id=5, producer_epoch=1, base_sequence=7)
    for number in range(5):
        produced.append(NOW + number, b"k%d" % number, b"v" * 100, [("h", b"x"), ("i", None)])
    data = produced.build()
    stored = store(data, compression_type=target)
    assert stored.codec == (Codec.NONE if target == "uncompressed" else Codec.from_name(target))
    assert list(stored.records()) == list(RecordBatch(data).records())
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (5, 1, 7)


def test_rebuilt_batch_may_have_become_too_large() -> None:
    packed = batch(50, codec=Codec.ZSTD, size=100)
    error = refuse(packed, compression_type="uncompressed", max_message_bytes=1000)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_are_converted(magic: int, codec: Codec) -> None:
    records = [Record(offset, NOW + offset, b"k", b"v%d" % offset) for offset in range(4)]
    stored = store(encode_message_set(magic, records, codec))
    assert stored.codec == codec
    assert [(r.offset, r.key, r.value) for r in stored.records()] == [(r.offset, r.key, r.value) for r in records]
    assert {r.timestamp for r in stored.records()} == ({-1} if magic == 0 else {NOW + n for n in range(4)})


def test_old_formats_are_held_to_the_rules_too() -> None:
    plain = encode_message_set(1, [Record(0, NOW, None, b"v"), Record(1, NOW, b"k", b"v")])
    error = refuse(plain, cleanup_policy="compact")
    assert isinstance(error, InvalidRecords)
    assert [index for index, _ in error.record_errors] == [0]
    broken = bytearray(plain)
    broken[-1] ^= 1
    assert refuse(bytes(broken)).code is ErrorCode.CORRUPT_MESSAGE
    wrapper = encode_message_set(1, [Record(0, NOW, b"k", b"v")], Codec.GZIP)
    assert refuse(wrapper + wrapper).code is ErrorCode.INVALID_RECORD
    stored = store(plain, message_timestamp_type="LogAppendTime")
    assert {record.timestamp for record in stored.records()} == {NOW}


def test_brokers_may_write_control_records() -> None:
    marker = RecordBatchBuilder(producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    marker.append(NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")
    log = Broker(config=log_config(cleanup_policy="compact", compression_type="gzip")).log()
    log.append_as_leader(marker.build(), 0, origin=AppendOrigin.COORDINATOR)
    assert RecordBatch(read_all(log)[0]).is_control
    assert refuse(marker.build()).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("claimed", [NOW + 99999, NOW - 99999, -1])
def test_full_corrects_the_largest_timestamp(codec: Codec, claimed: int) -> None:
    lie = changed(batch(3, codec=codec), max_timestamp=claimed)
    assert store(lie, record_validation="framing").max_timestamp == claimed
    assert store(lie, record_validation="full").max_timestamp == NOW + 2


def test_timestamps_before_the_epoch_count_as_none() -> None:
    """Kafka looks for the largest from -1 on."""
    early = changed(batch(2), base_timestamp=-100, max_timestamp=-99)
    assert store(early, record_validation="full").max_timestamp == -1


@pytest.mark.parametrize("deltas", [(0, 5, 2), (0, 0, 0)])
def test_offset_deltas_stay_in_an_uncompressed_batch_and_are_refused_in_a_compressed_one(
    deltas: tuple[int, ...],
) -> None:
    """As in Kafka, which cannot rebuild a compressed batch whose keys and values it has skipped."""
    for codec in Codec:
        produced = with_deltas(codec, deltas)
        if codec:
            assert refuse(produced, record_validation="full").code is ErrorCode.INVALID_RECORD
        else:
            stored = store(produced, record_validation="full")
            assert [record.offset for record in stored.records()] == list(deltas)


def with_deltas(codec: Codec, deltas: tuple[int, ...]) -> bytes:
    """A batch of records with these offset deltas, in this order."""
    body = b"".join(b"\x10\0\0" + zigzag(delta) + b"\x02k\x02v\0" for delta in deltas)
    packed = compress(codec, body)
    last = len(deltas) - 1
    header = HEADER.pack(0, 49 + len(packed), -1, 2, 0, codec, last, NOW, NOW, -1, -1, -1, len(deltas))
    return changed(header + packed)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer(wrap: Callable[[bytes], bytes]) -> None:
    assert Broker().log().append_as_leader(wrap(batch(3)), 0).record_count == 3


@pytest.mark.parametrize("codec", list(Codec))
def test_large_records_are_read_in_a_stream(codec: Codec) -> None:
    """Eight requests of 7 KB took 2.6 GB: each of them was decompressed as a whole, all at once."""
    produced = batch(2, size=16 << 20, codec=codec)
    broker = Broker(config=log_config(max_message_bytes=1 << 30, segment_bytes=1 << 30))
    validator = broker.log().validator
    tracemalloc.start()
    try:
        stored = validator.validate(memoryview(produced), AppendOrigin.CLIENT)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert stored is not None
    assert stored.header.length == len(produced)


@pytest.mark.interpreted  # a compiled module keeps its own lock
def test_large_batches_are_validated_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []

    class Watched:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None:
            entered.append(-1)

    monkeypatch.setattr(validator_module, "LARGE_BATCHES", Watched())
    for codec in Codec:
        entered.clear()
        store(batch(3, codec=codec))
        assert not entered, "a small batch must never wait for a large one"
        store(batch(3, size=AT_ONCE_BYTES // 2, codec=codec), max_message_bytes=4 * AT_ONCE_BYTES)
        # One that is not compressed needs no more memory than its frame.
        assert entered == ([1, -1] if codec else [])


@pytest.mark.parametrize("source", [Codec.NONE, Codec.ZSTD])
def test_large_records_are_held_to_the_same_rules(source: Codec) -> None:
    large = {"max_message_bytes": 4 * AT_ONCE_BYTES}
    records = batch(3, size=AT_ONCE_BYTES // 2, codec=source)
    assert [record.value for record in store(records, compression_type="gzip", **large).records()] == [
        bytes([number]) * (AT_ONCE_BYTES // 2) for number in range(3)
    ]
    assert refuse(changed(records, count=4, last_delta=3), **large).code is ErrorCode.INVALID_RECORD
    without_key = batch(3, size=AT_ONCE_BYTES // 2, codec=source, key=None)
    assert refuse(without_key, cleanup_policy="compact", **large).code is ErrorCode.INVALID_RECORD
    assert store(changed(records, max_timestamp=NOW), **large).max_timestamp == NOW + 2


def test_coordinators_records_may_be_too_large() -> None:
    """Their keys and values are those of clients: commits with long metadata, transactions of many partitions."""
    for settings in ({}, {"compression_type": "uncompressed"}):
        validator = Broker(config=log_config(max_message_bytes=200, **settings)).log().validator
        assert validator.validate(batch(1, size=50), AppendOrigin.COORDINATOR) is not None
        with pytest.raises(ApiError) as refused:
            validator.validate(batch(1, size=300), AppendOrigin.COORDINATOR)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression_type", ["producer", "uncompressed"])
def test_coordinators_records_are_not_read(compression_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This broker has encoded them a moment ago, whichever of the coordinators' two topics they go to."""
    validator = Broker(config=log_config(compression_type=compression_type)).log().validator
    produced = changed(batch(3), crc=1, fix_crc=False)
    stored = validator.validate(produced, AppendOrigin.COORDINATOR)
    assert stored is not None
    assert (stored.crc, stored.head, stored.rest) == (1, b"", produced[21:])
    assert refuse(produced, compression_type=compression_type).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip"])
def test_a_negative_timestamp_is_kept_and_never_encoded_anew(source: Codec, target: str) -> None:
    """Kafka stores a batch as it is, and throws when it rebuilds one: its answer is UNKNOWN_SERVER_ERROR."""
    rebuilds = target != "producer" and Codec.from_name("none" if target == "uncompressed" else target) != source
    for timestamp in (-2, -(2**40)):
        produced = batch(3, timestamp=timestamp, codec=source)
        if rebuilds:
            refused = refuse(produced, compression_type=target)
            assert refused.code is ErrorCode.INVALID_TIMESTAMP
            assert refused.message == f"Invalid negative timestamp {timestamp}"
            stamped = store(produced, compression_type=target, message_timestamp_type="LogAppendTime")
            assert stamped.max_timestamp == NOW
        else:
            assert next(store(produced, compression_type=target).records()).timestamp == timestamp
    # -1 is no timestamp, and may be stored in every form.
    assert next(store(batch(1, timestamp=-1, codec=source), compression_type=target).records()).timestamp == -1


@pytest.mark.parametrize("magic", [0, 1])
def test_large_message_sets_are_validated_one_after_the_other(magic: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []

    class Watched:
        def __enter__(self) -> None:
            entered.append(1)

        def __exit__(self, *_: object) -> None:
            entered.append(-1)

    monkeypatch.setattr(legacy_module, "LARGE_BATCHES", Watched())
    store(encode_message_set(magic, [Record(0, NOW, b"key", b"value")], Codec.GZIP))
    assert not entered
    large = encode_message_set(magic, [Record(0, NOW, b"key", bytes(2 << 20))], Codec.GZIP)
    assert len(large) < 1 << 20
    store(large, max_message_bytes=4 << 20)
    assert entered == [1, -1]
    # Pieces are bounded in every format.
    wrapper = encode_message(magic, 0, NOW, None, gzip.compress(b"") * 20_000, Codec.GZIP)
    assert refuse(wrapper).code is ErrorCode.CORRUPT_MESSAGE
