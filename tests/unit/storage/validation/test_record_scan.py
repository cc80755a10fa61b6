"""The scan accepts exactly what the reader decodes, and sums it up right: on good bodies and on mutated ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.record_reader import read_records
from barnabas.storage.validation.record_scan import RecordSummary, scan_records

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


def test_offsets_of_one_two_and_three_bytes() -> None:
    builder = RecordBatchBuilder()
    for _ in range(20_000):
        builder.append(0, b"key", b"value")
    assert scan_records(builder.build()[HEADER_SIZE:], 20_000) == RecordSummary(0, 0, True, False)
