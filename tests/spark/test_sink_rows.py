"""Rows of a sink reach the right topics and partitions, in order, with nothing lost."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from barnabas.clients.producer.partition_choice import partition_for_key
from barnabas.records.compression import Codec
from barnabas.records.record_batch import batches
from barnabas.records.v2.walk import Record
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.sink_options import SinkOptions
from barnabas_spark.writing.row_sender import RowAddresser

COUNTS = {"a": 4, "b": 2}


def addressed(rows: object, **options: str) -> dict[tuple[str, int], list[Record]]:
    parsed = SinkOptions.parse({"kafka.bootstrap.servers": "h:1", **options})
    found: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for topic, partition, encoded in RowAddresser(parsed, COUNTS.__getitem__, first_turn=0).batches(rows):
        found[topic, partition] += [record for batch in batches(encoded.data) for record in batch.records()]
    return dict(found)


def test_keyed_rows_go_by_hash_in_order() -> None:
    keys = [f"key-{i % 7}" for i in range(500)]
    rows = pa.record_batch({"key": pa.array(keys), "value": pa.array([f"{i}" for i in range(500)])})
    found = addressed(rows, topic="a")
    assert sum(map(len, found.values())) == 500
    for (topic, partition), records in found.items():
        assert topic == "a"
        assert {partition_for_key(record.key or b"", 4) for record in records} == {partition}
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(("batch_size", "counts"), [("0", [1] * 10), ("450", [3, 3, 3, 1]), ("10000", [10])])
def test_batches_are_cut_and_compressed_as_the_options_say(batch_size: str, counts: list[int]) -> None:
    given = {"topic": "a", "kafka.batch.size": batch_size, "kafka.compression.type": "zstd"}
    options = SinkOptions.parse({"kafka.bootstrap.servers": "h:1", **given})
    rows = pa.record_batch({"value": pa.array([b"x" * 100] * 10)})
    encoded = [each.batch.data for each in RowAddresser(options, COUNTS.__getitem__, first_turn=0).batches(rows)]
    found = [batch for data in encoded for batch in batches(data)]
    assert [len(list(batch.records())) for batch in found] == counts
    assert {batch.codec for batch in found} == {Codec.ZSTD}


def test_rows_may_name_topic_and_partition() -> None:
    rows = pa.record_batch(
        {
            "value": pa.array([b"0", b"1", b"2", b"3"]),
            "topic": pa.array(["a", "b", "a", "b"]),
            "partition": pa.array([3, None, 0, 1], pa.int32()),
            "key": pa.array([None, b"k", b"k", b"k"]),
            "offset": pa.array([1, 2, 3, 4]),
        }
    )
    found = {place: [record.value for record in records] for place, records in addressed(rows).items()}
    assert found.pop(("a", 3)) == [b"0"]
    assert found.pop(("a", 0)) == [b"2"]
    by_hash = partition_for_key(b"k", 2)
    assert found == ({("b", 1): [b"1", b"3"]} if by_hash == 1 else {("b", by_hash): [b"1"], ("b", 1): [b"3"]})


def test_the_topic_option_overrides_the_column() -> None:
    rows = pa.record_batch({"value": pa.array([b"0"]), "topic": pa.array([None], pa.string())})
    assert [topic for topic, _ in addressed(rows, topic="b")] == ["b"]


def test_headers_are_written_unless_told_otherwise() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"1"}], None], kind)
    rows = pa.record_batch({"value": pa.array([b"0", b"1"]), "headers": headers})
    ((_, records),) = addressed(rows, topic="a").items()
    assert [record.headers for record in records] == [(("h", b"1"),), ()]
    ((_, records),) = addressed(rows, topic="a", includeHeaders="false").items()
    assert [record.headers for record in records] == [(), ()]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"topic": pa.array([None], pa.string())}, {}, "NULL in its 'topic' column"),
        ({"partition": pa.array([2], pa.int32())}, {"topic": "b"}, "names partition 2; topic 'b' has 0 to 1"),
        ({"partition": pa.array([-1], pa.int32())}, {"topic": "b"}, "names partition -1"),
    ],
)
def test_a_row_that_goes_nowhere_is_refused(columns: dict[str, object], options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        addressed(pa.record_batch({"value": pa.array([b"0"]), **columns}), **options)
