"""The keys of whole batches, and records with other times. Bad ones: tests/unit/records/test_every_reader.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.compression import Codec
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import read_records
from barnabas.storage.cleaner.batch_cleaner import batch_keys, timestamp_delta, with_timestamp_delta

records = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=200)),
        st.one_of(st.none(), st.binary(max_size=200)),
        st.integers(-(2**62), 2**62),
        st.integers(0, 300),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


@given(records, st.sampled_from([Codec.NONE, Codec.ZSTD]), st.binary(max_size=5))
def test_keys_are_those_that_decoding_finds(rows: list[tuple], codec: Codec, before: bytes) -> None:  # type: ignore[type-arg]
    builder = RecordBatchBuilder(codec, base_offset=1000)
    offset = 1000
    for key, value, timestamp, gap, headers in rows:
        offset += gap
        builder.append(timestamp, key, value, headers, offset=offset)
        offset += 1
    batch = RecordBatch(before + builder.build() + before, len(before))
    decoded = list(batch.records())
    body, found = batch_keys(batch)
    assert found.keys == [record.key for record in decoded]
    assert found.offsets == [record.offset for record in decoded]
    assert found.tombstones == [place for place, record in enumerate(decoded) if record.value is None]
    assert found.keyless == found.keys.count(None)
    for start, stop, record in zip(found.starts, found.starts[1:], decoded, strict=False):
        assert batch.base_timestamp + timestamp_delta(body, start)[0] == record.timestamp
        moved = with_timestamp_delta(body, start, stop, 77)
        (again,) = read_records(moved, 1, 1000, 0, None)
        assert again == record._replace(timestamp=77)
