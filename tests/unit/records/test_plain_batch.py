"""A plain batch is byte for byte what the builder makes of the same records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.record_batch_builder import RecordBatchBuilder, plain_batch

KEYS = st.binary(max_size=20) | st.integers(2040, 2060).map(bytes) | st.integers(4090, 4100).map(bytes)


@given(st.integers(-1, 2**62), st.lists(st.tuples(KEYS, KEYS | st.none()), min_size=1, max_size=5))
def test_same_bytes_as_the_builder(timestamp_ms: int, records: list[tuple[bytes, bytes | None]]) -> None:
    assert plain_batch(timestamp_ms, records) == _built(timestamp_ms, records)


def test_more_records_than_the_table_of_small_numbers_has() -> None:
    records = [(b"key", None), (b"k" * 8200, b"v")] * 2100
    assert plain_batch(1, records) == _built(1, records)


def _built(timestamp_ms: int, records: list[tuple[bytes, bytes | None]]) -> bytes:
    builder = RecordBatchBuilder()
    for key, value in records:
        builder.append(timestamp_ms, key, value)
    return builder.build()
