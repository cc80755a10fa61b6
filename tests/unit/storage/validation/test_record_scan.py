"""The scan of large bodies. That it accepts what the reader decodes: tests/unit/records/test_every_reader.py."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import CheckedRecords
from barnabas.storage.validation.record_scan import scan_pieces, scan_records


def facts(found: CheckedRecords) -> tuple[int, int, bool, bool]:
    return found.min_timestamp_delta, found.max_timestamp_delta, found.offsets_consecutive, found.has_null_key


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
        assert facts(scan_pieces(pieces(), 3)) == facts(scan_records(body, 0, 3)) == (0, 2, True, True)
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
    assert facts(scan_records(builder.build(), HEADER_SIZE, 20_000)) == (0, 0, True, False)
