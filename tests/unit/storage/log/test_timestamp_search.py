"""Offsets by timestamp, against a model that knows every record."""

from __future__ import annotations

import random
import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from barnabas.storage.log.timestamp_search import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    segment_boundaries,
)
from barnabas.storage.log.unified_log import UnifiedLog
from tests.unit.storage.log_harness import NOW, Broker, log_config, read_all

CRC_AT, MAX_TIMESTAMP_AT = 17, 35
Row = tuple[int, int, int]
"""Offset, timestamp, leader epoch."""


def random_log(seed: int, append_time: bool, batch_count: int) -> tuple[UnifiedLog, list[Row]]:
    """A log of many small segments with wandering timestamps, some records without one; what is in it."""
    chance = random.Random(seed)
    settings = {
        "segment_bytes": str(chance.choice((300, 1000, 1 << 20))),
        "index_interval_bytes": str(chance.choice((0, 150, 4096))),
        "message_timestamp_type": "LogAppendTime" if append_time else "CreateTime",
    }
    broker = Broker(config=log_config(**settings))
    log = broker.log()
    clock = NOW
    epoch = 0
    for _ in range(batch_count):
        clock += chance.choice((0, 0, 1, 50, -30, 1000))
        epoch += chance.random() < 0.1
        broker.clock.advance(chance.randrange(20))
        count = chance.randrange(1, 6)
        stamps = [clock + chance.randrange(-40, 40) for _ in range(count)]
        if chance.random() < 0.2:
            rows = [Record(number, stamp, b"k", b"v") for number, stamp in enumerate(stamps)]
            magic = chance.choice((0, 1))
            log.append_as_leader(encode_message_set(magic, rows, chance.choice((Codec.NONE, Codec.GZIP))), epoch)
            continue
        builder = RecordBatchBuilder(chance.choice(tuple(Codec)))
        for stamp in stamps:
            builder.append(stamp, b"key", b"value")
        log.append_as_leader(builder.build(), epoch)
    log.raise_high_watermark_to_end()
    if chance.random() < 0.5:
        log.maybe_increment_log_start_offset(chance.randrange(log.log_end_offset), "the test says so")
    rows_left = [
        (record.offset, record.timestamp, batch.partition_leader_epoch)
        for data in read_all(log)
        for batch in batches(data)
        for record in batch.records()
        if record.offset >= log.log_start_offset
    ]
    return log, rows_left


@given(st.integers(0, 2**32), st.booleans(), st.integers(1, 60))
def test_search_agrees_with_a_model(seed: int, append_time: bool, batch_count: int) -> None:
    log, rows = random_log(seed, append_time, batch_count)
    stamps = sorted({timestamp for _, timestamp, _ in rows if timestamp >= 0})
    for asked in {0, NOW - 10_000, *stamps, *(stamp + 1 for stamp in stamps)}:
        expected = next(((stamp, offset, epoch) for offset, stamp, epoch in rows if stamp >= asked), None)
        assert log.offset_for_timestamp(asked) == expected, asked
    largest = max(timestamp for _, timestamp, _ in rows)
    found = log.offset_for_timestamp(MAX_TIMESTAMP)
    assert found == next((stamp, offset, epoch) for offset, stamp, epoch in rows if stamp == largest)


@given(st.integers(0, 2**32), st.integers(0, 20))
def test_special_timestamps(seed: int, batch_count: int) -> None:
    log, rows = random_log(seed, append_time=False, batch_count=batch_count or 1)
    epoch_at_start = rows[0][2]
    for earliest in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        assert log.offset_for_timestamp(earliest) == (-1, log.log_start_offset, epoch_at_start)
    assert log.offset_for_timestamp(LATEST_TIMESTAMP) == (-1, log.log_end_offset, rows[-1][2])
    assert log.offset_for_timestamp(LATEST_TIERED_TIMESTAMP) == (-1, -1, -1)


def test_an_empty_log() -> None:
    log = Broker().log()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_timestamp(MAX_TIMESTAMP) is None
    assert segment_boundaries(log.local, log.log_start_offset, LATEST_TIMESTAMP, 5, NOW) == [0]


@pytest.mark.parametrize("rolls", [True, False])
@pytest.mark.parametrize(
    ("cut", "timestamp", "offset"),
    [(0, 90, 1), (1, 90, 1), (2, 90, 3), (3, 90, 3), (4, 50, 5), (5, 50, 5)],
)
def test_the_largest_timestamp_of_what_delete_records_has_left(
    cut: int, timestamp: int, offset: int, rolls: bool
) -> None:
    """The record that had it may be gone while its segment, or its batch, is there."""
    log = Broker().log()
    for stamps in ((5, 90, 7), (90, 1), (50,)):
        builder = RecordBatchBuilder()
        for stamp in stamps:
            builder.append(stamp, b"key", b"value")
        log.append_as_leader(builder.build(), 0)
        if rolls:
            log.roll()
    log.raise_high_watermark_to_end()
    log.maybe_increment_log_start_offset(cut, "the test says so")
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == (timestamp, offset, 0)


def test_the_largest_timestamp_where_a_header_names_one_that_no_record_has() -> None:
    """Stored without a look at the records: the header of the first batch says 99."""
    log = Broker(config=log_config(record_validation="framing")).log()
    for stamps in ((70, 60), (80,), (75,)):
        builder = RecordBatchBuilder()
        for stamp in stamps:
            builder.append(stamp, b"key", b"value")
        data = bytearray(builder.build())
        if stamps == (70, 60):
            struct.pack_into(">q", data, MAX_TIMESTAMP_AT, 99)
            struct.pack_into(">I", data, CRC_AT, crc32c.crc32c(bytes(data[CRC_AT + 4 :])))
        log.append_as_leader(bytes(data), 0)
    (segment,) = log.local.segments
    assert segment.max_timestamp_and_offset().timestamp == 99
    assert segment.find_largest_timestamp(0) == (80, 2, 0)
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == (80, 2, 0)
    assert segment.find_largest_timestamp(3) == (75, 3, 0)
    assert segment.find_largest_timestamp(4) is None


def test_records_without_timestamps_are_found_as_the_largest_only() -> None:
    """As Kafka 3.9 does: nothing is not older than a time, but something has the largest timestamp, which is none."""
    log = Broker().log()
    rows = [Record(number, -1, b"k", b"v") for number in range(3)]
    log.append_as_leader(encode_message_set(0, rows), 0)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_timestamp(MAX_TIMESTAMP) == (-1, 0, 0)


def test_old_style_offsets_are_segment_boundaries() -> None:
    broker = Broker(config=log_config(segment_bytes="300"))
    log = broker.log()
    for number in range(6):
        builder = RecordBatchBuilder()
        builder.append(NOW + number, b"k", bytes(150))
        log.append_as_leader(builder.build(), 0)
    bases = [segment.base_offset for segment in log.local.segments]
    assert len(bases) == 6
    assert segment_boundaries(log.local, log.log_start_offset, LATEST_TIMESTAMP, 100, NOW) == [6, *reversed(bases)]
    assert segment_boundaries(log.local, log.log_start_offset, LATEST_TIMESTAMP, 2, NOW) == [6, 5]
    assert segment_boundaries(log.local, log.log_start_offset, EARLIEST_TIMESTAMP, 100, NOW) == [0]
