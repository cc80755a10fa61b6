"""What the validator accepts, stores and refuses, against a plain model at all levels and settings; mutated batches.

The model decodes every record and follows Kafka's rules one after another; kafka-python is the second opinion on what
was stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.record_batch import NO_TIMESTAMP, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.log_append_info import InvalidRecords
from tests.support.stored_batches import changed
from tests.unit.storage.log_harness import NOW, Broker, log_config, read_all

HOUR = 3_600_000
APPEND_TIME_BIT = 8

timestamps = st.sampled_from((NO_TIMESTAMP, 0, NOW - HOUR - 1, NOW - HOUR, NOW, NOW + HOUR, NOW + HOUR + 1, NOW - 7))
keys = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2)
rows = st.lists(st.tuples(timestamps, keys, keys, headers), min_size=1, max_size=80)


class Settings(NamedTuple):
    """Of a topic."""

    validation: str
    compacted: bool
    append_time: bool
    before_limited: bool
    after_limited: bool
    compression: str

    def as_config(self) -> dict[str, str]:
        configs = {
            "record_validation": self.validation,
            "cleanup_policy": "compact" if self.compacted else "delete",
            "message_timestamp_type": "LogAppendTime" if self.append_time else "CreateTime",
            "compression_type": self.compression,
        }
        if self.before_limited:
            configs["message_timestamp_before_max_ms"] = str(HOUR)
        if self.after_limited:
            configs["message_timestamp_after_max_ms"] = str(HOUR)
        return configs

    @property
    def looks_at_records(self) -> bool:
        """Whether single timestamps are compared with the limits, not only the batch's largest one."""
        return self.validation == "full" or self.compacted or (self.before_limited and not self.append_time)


settings_of_topic = st.builds(
    Settings,
    st.sampled_from(("header", "framing", "full")),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
)


def expected_refusals(settings: Settings, records: list[Record], *, stamped: bool) -> tuple[ErrorCode, list[int]]:
    """LogValidator.validateRecord, record by record."""
    code, blamed = ErrorCode.INVALID_RECORD, []
    earliest = NOW - HOUR if settings.before_limited else -(2**63)
    latest = NOW + HOUR if settings.after_limited else 2**63
    for index, record in enumerate(records):
        if settings.compacted and record.key is None:
            blamed.append(index)
        elif not settings.append_time and record.timestamp != NO_TIMESTAMP:
            if not earliest <= record.timestamp <= latest:
                code = ErrorCode.INVALID_TIMESTAMP
                blamed.append(index)
        elif stamped:
            code = ErrorCode.INVALID_TIMESTAMP
            blamed.append(index)
    return code if blamed else ErrorCode.NONE, blamed


def second_opinion(stored: bytes) -> list[tuple[Any, ...]]:
    """Offsets, timestamps, keys, values and headers as kafka-python reads them."""
    found = MemoryRecords(stored)
    read = []
    while (batch := found.next_batch()) is not None:
        assert batch.validate_crc()
        read += [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    return read


def new_log(settings: Settings) -> UnifiedLog:
    broker = Broker(config=log_config(**settings.as_config()))
    assert broker.clock.milliseconds() == NOW
    return broker.log()


@given(rows, st.sampled_from(tuple(Codec)), st.booleans(), settings_of_topic)
def test_good_batches(
    given_rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
    stamped: bool,
    settings: Settings,
) -> None:
    builder = RecordBatchBuilder(codec, producer_id=5, producer_epoch=1, base_sequence=0)
    for timestamp, key, value, header_list in given_rows:
        builder.append(timestamp, key, value, header_list)
    produced = builder.build()
    if stamped:
        produced = changed(produced, attributes=codec | APPEND_TIME_BIT)
    records = list(RecordBatch(produced).records())
    code, blamed = expected_refusals(settings, records, stamped=stamped)
    if code and not settings.looks_at_records and not (stamped and settings.append_time):
        # Only what the header says is looked at: the largest timestamp.
        code, blamed = expected_refusals(settings, [max(records, key=lambda record: record.timestamp)], stamped=stamped)
    log = new_log(settings)
    if code is not ErrorCode.NONE:
        with pytest.raises(InvalidRecords) as refused:
            log.append_as_leader(produced, 3)
        assert refused.value.code is code
        if settings.looks_at_records:
            assert [index for index, _ in refused.value.record_errors] == blamed
        assert log.log_end_offset == 0
        return
    info = log.append_as_leader(produced, 3)
    (stored,) = read_all(log, max_bytes=1 << 20)
    batch = RecordBatch(stored)
    assert batch.is_valid_crc()
    expected_codec = codec if settings.compression == "producer" else None
    if settings.compression == "uncompressed":
        expected_codec = Codec.NONE
    assert batch.codec == (expected_codec if expected_codec is not None else Codec.from_name(settings.compression))
    assert (batch.base_offset, batch.count, batch.last_offset) == (0, len(records), info.last_offset)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 0)
    assert batch.timestamp_type == settings.append_time
    assert batch.max_timestamp == info.max_timestamp
    if settings.append_time:
        assert info.log_append_time_ms == info.max_timestamp == NOW
        records = [record._replace(timestamp=NOW) for record in records]
    else:
        assert info.log_append_time_ms == -1
        assert info.max_timestamp == max(record.timestamp for record in records)
    found = list(batch.records())
    if stamped and not settings.append_time:
        # The batch is create time again, so its records have what their producer gave them before it stamped them.
        found = [record._replace(timestamp=info.max_timestamp) for record in found]
    assert found == records
    if not stamped:
        assert second_opinion(stored) == [
            (record.offset, record.timestamp, record.key, record.value, record.headers) for record in records
        ]


mutations = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4)


@given(rows, st.sampled_from(tuple(Codec)), mutations, settings_of_topic, st.booleans())
def test_mutated_batches_raise_nothing_but_api_errors(
    given_rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
    changes: list[tuple[int, int]],
    settings: Settings,
    fix_crc: bool,
) -> None:
    """And what `full` accepts of them, everybody can read."""
    builder = RecordBatchBuilder(codec)
    for timestamp, key, value, header_list in given_rows:
        builder.append(timestamp, key, value, header_list)
    data = bytearray(builder.build())
    for place, byte in changes:
        data[place % len(data)] = byte
    produced = bytes(data)
    if fix_crc and int.from_bytes(produced[8:12], "big") == len(produced) - 12:
        produced = changed(produced)
    log = new_log(settings)
    try:
        info = log.append_as_leader(produced, 0)
    except ApiError:
        info = None
    if info is None or info.first_offset == -1:
        assert log.log_end_offset == 0
        return
    (stored,) = read_all(log, max_bytes=1 << 20)
    batch = RecordBatch(stored)
    assert batch.is_valid_crc()
    assert batch.count == batch.last_offset_delta + 1 == log.log_end_offset
    if settings.validation != "full":
        return
    records = list(batch.records())
    assert len(records) == batch.count
    if batch.codec:
        assert [record.offset for record in records] == list(range(batch.count))
    assert info.max_timestamp == max(NO_TIMESTAMP, *(record.timestamp for record in records))
    try:
        read = second_opinion(stored)
    except CorruptRecordError as error:
        # kafka-python wants header names in UTF-8; Java and we replace what is none. It wraps the error.
        if isinstance(error.__context__, UnicodeDecodeError):
            return
        raise
    assert [(offset, key, value) for offset, _, key, value, _ in read] == [
        (record.offset, record.key, record.value) for record in records
    ]


@pytest.mark.parametrize("base", [2**63 - 2, -(2**63) + 1])
def test_timestamps_beyond_64_bits(base: int) -> None:
    builder = RecordBatchBuilder()
    builder.append(NOW, b"k", b"v")
    builder.append(NOW + (5 if base > 0 else -5), b"k", b"v")
    produced = changed(builder.build(), base_timestamp=base)
    log = Broker(config=log_config(record_validation="full")).log()
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(produced, 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD
