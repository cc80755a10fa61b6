"""Tables as records: types and columns, the choice of partitions, cutting, and what the future says of failures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import groupby, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.errors import ClientTimeout
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.clients.producer import RecordMetadata
from barnabas.clients.producer.batches.deliveries import Deliveries, Delivery, FinalState
from barnabas.clients.producer.partition_choice import partition_for_key
from barnabas.clients.producer.producer_record import DeliveryCallback
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch import HEADER_SIZE, EncodedBatch, RecordBatch

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from barnabas.clients.arrow import BatchFormat, TableMetadata, TableNotDelivered  # noqa: E402
from barnabas.clients.arrow.table_columns import ColumnNames  # noqa: E402
from barnabas.clients.arrow.table_producer import TableLimits, TableProducer  # noqa: E402

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ALL = ColumnNames("value", "key", "headers", "partition", "timestamp")


class Queue:
    """A producer that keeps the batches, and answers at once unless it is told to wait."""

    def __init__(self, partition_count: int = 3, **limits: Any) -> None:
        self.partition_count = partition_count
        self.batches: list[tuple[int, bytes]] = []
        self.answer: Callable[[int, int, RecordBatch, DeliveryCallback], None] = self.accept
        self.tables = TableProducer(
            self.send_batch,
            self.partitions,
            TableLimits(
                BatchFormat(limits.get("codec", Codec.NONE), batch_bytes=limits.get("batch_bytes", 1 << 18)),
                limits.get("record_bytes", 1 << 20),
                "max.request.size",
            ),
            Random(1),
            ignore_keys=limits.get("ignore_keys", False),
        )

    def partitions(self, topic: str, partition: int | None) -> tuple[PartitionInfo, ...]:
        if partition is not None and partition >= self.partition_count:
            raise ClientTimeout(f"Partition {partition} of topic {topic} not present")
        return tuple(PartitionInfo(topic, each, 0, 0, (0,), (0,), ()) for each in range(self.partition_count))

    def send_batch(
        self, topic: str, partition: int, batch: EncodedBatch, on_delivery: DeliveryCallback | None = None
    ) -> Future[RecordMetadata]:
        read = RecordBatch(batch.data)
        read.check()
        self.batches.append((partition, batch.data))
        assert on_delivery is not None
        self.answer(len(self.batches) - 1, partition, read, on_delivery)
        return Future()

    def accept(self, number: int, partition: int, batch: RecordBatch, ended: DeliveryCallback) -> None:
        before = sum(RecordBatch(data).count for at, data in self.batches[:-1] if at == partition)
        ended(RecordMetadata("t", partition, before, -1), None)

    def send(self, table: object, names: ColumnNames = ALL) -> TableMetadata:
        return self.tables.send("t", table, names, NOW_MS).result(0)

    def rows(self, partition: int) -> list[tuple[Any, ...]]:
        """The records of a partition: timestamp, key, value, headers."""
        return [
            tuple(record[1:]) for at, data in self.batches if at == partition for record in RecordBatch(data).records()
        ]


payloads = st.none() | st.binary(max_size=30) | st.sampled_from([b"", b"x" * 13, b"y" * 2_000])
rows_of_tables = st.lists(
    st.tuples(
        payloads,
        st.none() | st.text(max_size=12),
        st.none() | st.lists(st.tuples(st.text(max_size=5), payloads), max_size=3),
        st.none() | st.integers(0, 2),
    ),
    max_size=60,
)
VALUE_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int16(), pa.binary())]
KEY_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
HEADER_TYPES = [HEADERS, pa.large_list(HEADERS.value_type), pa.map_(pa.string(), pa.binary())]
TIME_TYPES = [pa.int64(), pa.timestamp("ms"), pa.timestamp("us", tz="Europe/Berlin")]


@settings(deadline=None)
@given(
    rows_of_tables,
    st.lists(st.integers(0, 60), max_size=3),
    st.sampled_from(VALUE_TYPES),
    st.sampled_from(KEY_TYPES),
    st.sampled_from(HEADER_TYPES),
    st.sampled_from(TIME_TYPES),
    st.sampled_from(Codec),
    st.integers(1, 6_000),
)
def test_every_row_arrives_once_in_order_whatever_the_types_and_chunks(
    rows: list[Any], cuts: list[int], values: Any, keys: Any, headers: Any, times: Any, codec: Codec, batch_bytes: int
) -> None:
    """Each row's timestamp is its number."""
    items = [row[2] if row[2] is None or pa.types.is_map(headers) else _items(row[2]) for row in rows]
    scale = 1_000 if times == TIME_TYPES[2] else 1
    columns = {
        "value": pa.array([row[0] for row in rows], pa.binary()).cast(values),
        "key": pa.array([row[1] for row in rows], pa.string()).cast(keys),
        "headers": pa.array(items, headers),
        "partition": pa.array([row[3] for row in rows], pa.int16()),
        "timestamp": pa.array([number * scale for number in range(len(rows))], pa.int64()).cast(times),
    }
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    table = pa.table({name: _in_chunks(column, bounds) for name, column in columns.items()})
    queue = Queue(codec=codec, batch_bytes=batch_bytes)
    metadata = queue.send(table)

    expected = [
        (number, None if key is None else key.encode(), value, tuple(headers or ()))
        for number, (value, key, headers, _) in enumerate(rows)
    ]
    assert sorted(row for partition in range(3) for row in queue.rows(partition)) == expected
    home = {number: _home(row) for number, row in enumerate(rows)}
    for partition in range(3):
        arrived = [row[0] for row in queue.rows(partition)]
        # Rows with neither partition nor key may go anywhere.
        assert all(home[number] in {partition, None} for number in arrived)
        assert arrived == sorted(arrived)
    assert metadata.record_count == len(rows)
    assert [batch.partition for batch in metadata.batches] == [partition for partition, _ in queue.batches]
    for _, data in queue.batches:
        batch = RecordBatch(data)
        assert batch.codec == codec
        assert batch.count == 1 or codec or len(data) - HEADER_SIZE <= batch_bytes


def _items(pairs: list[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in pairs]


def _in_chunks(column: Any, bounds: list[int]) -> Any:
    return pa.chunked_array([column[start:stop] for start, stop in pairwise(bounds)], column.type)


def _home(row: Any) -> int | None:
    if row[3] is not None:
        return int(row[3])
    return None if row[1] is None else partition_for_key(row[1].encode(), 3)


def test_numbers_hold_for_all_rows_and_missing_times_are_now() -> None:
    queue = Queue()
    table = pa.table({"v": ["a", "b"], "at": pa.array([None, 5], pa.int64())})
    queue.send(table, ColumnNames("v", partition=2, timestamp="at"))
    assert queue.rows(2) == [(NOW_MS, None, b"a", ()), (5, None, b"b", ())]
    queue.send(table.to_batches()[0], ColumnNames("v", partition=1, timestamp=7))
    assert queue.rows(1) == [(7, None, b"a", ()), (7, None, b"b", ())]
    # A column of type null, as pyarrow makes of [None, None], and no value column at all: two tombstones each.
    queue.send(pa.table({"k": ["x", "y"], "n": [None, None]}), ColumnNames("n", "k", partition=0))
    queue.send(pa.table({"k": ["x", "y"]}), ColumnNames(None, "k", partition=0))
    assert [row[1:3] for row in queue.rows(0)] == [(b"x", None), (b"y", None)] * 2
    assert queue.send(table[:0], ColumnNames("v")).batches == ()


BAD_TABLES = [
    ({"value": [1]}, {}, TypeError, "value: column 'value' is int64, and must be binary or text"),
    ({"value": ["a"]}, {"key": "k"}, ValueError, "key: the table has no column 'k'; its columns are value"),
    ({"value": ["a"], "h": ["b"]}, {"headers": "h"}, TypeError, "headers: column 'h' is string, and must be list<"),
    ({"value": ["a"], "p": ["0"]}, {"partition": "p"}, TypeError, "column 'p' is string, and must be integers"),
    ({"value": ["a", "b"], "p": [0, -1]}, {"partition": "p"}, ValueError, "row 1 of column 'p' is -1, and must not be"),
    ({"value": ["a"]}, {"partition": -2}, ValueError, "partition must not be negative, not -2"),
    ({"value": ["a"], "t": [1.5]}, {"timestamp": "t"}, TypeError, "column 't' is double, and must be timestamps or"),
    ({"value": ["a"], "t": [-9]}, {"timestamp": "t"}, ValueError, "timestamp: row 0 of column 't' is -9"),
    ({"value": ["a"]}, {"key": 3}, TypeError, "key must be the name of a column, not 3"),
    ({"value": ["a", "b" * 3_000]}, {}, ValueError, "row 1 takes up to 3036 bytes .* 1939 that max.request.size"),
]


@pytest.mark.parametrize(("columns", "names", "kind", "text"), BAD_TABLES, ids=[case[3][:30] for case in BAD_TABLES])
def test_a_bad_table_is_refused_whole(columns: Any, names: Any, kind: type[Exception], text: str) -> None:
    queue = Queue(record_bytes=2_000)
    with pytest.raises(kind, match=text):
        queue.send(pa.table(columns), ColumnNames(**names))
    assert queue.batches == []


def test_a_header_without_a_key_is_named_by_its_row() -> None:
    rows = [[], None, [{"key": "a", "value": b"1"}], [{"key": "b", "value": None}, {"key": None, "value": b"2"}]]
    table = pa.table({"value": ["v"] * 4, "h": _in_chunks(pa.array(rows, HEADERS), [0, 2, 4])})
    with pytest.raises(ValueError, match="row 3 of column 'h' has a header without a key"):
        Queue().send(table, ColumnNames(headers="h"))
    with pytest.raises(TypeError, match="not list"):
        Queue().send([b"v"])


def test_rows_without_a_key_fill_a_batch_before_they_change_the_partition() -> None:
    queue = Queue(batch_bytes=1_000)
    for _ in range(20):
        queue.send(pa.table({"value": [bytes(64)] * 5}), ColumnNames())
    # Ten rows of 100 bytes are a batch's share: a partition has that of two tables, and then it is another's turn.
    assert {RecordBatch(data).count for _, data in queue.batches} == {5}
    turns = [len(list(group)) for _, group in groupby(partition for partition, _ in queue.batches)]
    assert all(turn % 2 == 0 for turn in turns)
    assert {partition for partition, _ in queue.batches} == {0, 1, 2}
    # One table of 40 rows: four full batches, each of one partition.
    queue.batches.clear()
    queue.send(pa.table({"value": [bytes(64)] * 40}), ColumnNames())
    assert [RecordBatch(data).count for _, data in queue.batches] == [10] * 4
    ignoring = Queue(batch_bytes=1_000, ignore_keys=True)
    ignoring.send(pa.table({"value": [bytes(60)] * 10, "k": list("abcdefghij")}), ColumnNames(key="k"))
    assert len(ignoring.batches) == 1


def test_a_failure_ends_the_table_and_names_its_rows() -> None:
    queue = Queue(batch_bytes=400)

    def fail_second(number: int, partition: int, batch: RecordBatch, ended: DeliveryCallback) -> None:
        if number == 1:
            ended(None, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            queue.accept(number, partition, batch, ended)

    queue.answer = fail_second
    table = pa.table({"value": [b"%3d" % row + bytes(61) for row in range(12)], "p": [0, 1] * 6})
    with pytest.raises(TableNotDelivered, match="8 of 12 rows were not delivered to t") as raised:
        queue.send(table, ColumnNames(partition="p"))
    error = raised.value
    assert isinstance(error.__cause__, ApiError)
    # The rows of partition 0 go first, four to a batch: the second batch failed, and none was sent after it.
    assert len(queue.batches) == 2
    assert [batch.record_count for batch in error.delivered.batches] == [4]
    assert table.take(error.failed_rows)["value"].to_pylist() == [
        value for row, value in enumerate(table["value"].to_pylist()) if row not in {0, 2, 4, 6}
    ]


def test_the_future_waits_for_every_batch_and_for_an_unknown_partition_fails() -> None:
    queue = Queue(batch_bytes=150)
    waiting: list[DeliveryCallback] = []
    queue.answer = lambda number, partition, batch, ended: waiting.append(ended)
    future = queue.tables.send("t", pa.table({"value": [bytes(64)] * 3}), ColumnNames(partition=1), NOW_MS)
    assert future.cancel() is False
    for number, ended in enumerate(waiting):
        assert not future.done()
        ended(RecordMetadata("t", 1, 10 + number, -1), None)
    assert [batch.base_offset for batch in future.result(0).batches] == [10, 11, 12]

    unknown = queue.tables.send("t", pa.table({"value": ["v"], "p": [3]}), ColumnNames(partition="p"), NOW_MS)
    error = unknown.exception(0)
    assert isinstance(error, TableNotDelivered)
    assert isinstance(error.__cause__, ClientTimeout)
    assert error.failed_rows.to_pylist() == [0]


def test_a_ready_batch_that_was_split_ends_with_its_last_record() -> None:
    def split() -> tuple[Future[RecordMetadata], list[Deliveries]]:
        whole: Future[RecordMetadata] = Future()
        ready = Deliveries()
        ready.add(Delivery(whole, None))
        moved = ready.move(3)
        pieces = [Deliveries(), Deliveries()]
        for piece, delivery in zip([pieces[0], pieces[0], pieces[1]], moved, strict=True):
            piece.add(delivery)
        ready.hand_over(pieces)
        return whole, pieces

    whole, (first, second) = split()
    first.succeed(TopicPartition("t", 0), 7, -1)
    assert not whole.done()
    second.succeed(TopicPartition("t", 0), 12, -1)
    assert whole.result(0).offset == 7

    whole, (first, second) = split()
    first.succeed(TopicPartition("t", 0), 7, -1)
    second.fail(FinalState.FAILED, ApiError(ErrorCode.MESSAGE_TOO_LARGE))
    assert isinstance(whole.exception(0), ApiError)
