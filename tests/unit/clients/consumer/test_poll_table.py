"""Records as tables from scripted brokers: `poll_table` returns what `poll` returns, and leaves the same positions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import LOG_APPEND_TIME
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from tests.support.scripted_cluster import TP0, TP1, ScriptedCluster, batch, consumer_of

pa = pytest.importorskip("pyarrow")

from barnabas.clients.arrow import TABLE_SCHEMA  # noqa: E402
from barnabas.clients.arrow.record_tables import TableDecoder  # noqa: E402
from barnabas.clients.consumer.fetch.table_taker import TableTaker  # noqa: E402

MANY_BYTES = 1 << 30


def records_of(table: Any) -> list[ConsumerRecord]:
    """The rows of a table as `poll` returns them."""
    assert table.schema == TABLE_SCHEMA
    table.validate(full=True)
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        ConsumerRecord(
            row["topic"],
            row["partition"],
            row["offset"],
            -1 if time_ms is None else time_ms,
            row["timestamp_type"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row, time_ms in zip(table.to_pylist(), times, strict=True)
    ]


# -- one answer

batches_of_logs = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "compressed", "transaction", "abort", "commit"]),
        st.integers(1, 6),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=12,
)


def build_log(parts: list[tuple[str, int, int]]) -> tuple[bytes, list[FetchResponse.AbortedTransaction]]:
    """A log of these batches. `transaction` batches belong to a producer; `abort` and `commit` end its transaction."""
    pieces = []
    aborted = []
    opened: dict[int, int] = {}
    offset = 10
    for kind, count, producer in parts:
        options: dict[str, Any] = {"base_offset": offset, "partition_leader_epoch": offset // 7}
        if kind in {"abort", "commit"}:
            marker = bytearray(EndTransactionMarker(kind == "abort", 0, 1).batch(producer, 0))
            marker[:8] = offset.to_bytes(8, "big")  # no part of the checksum
            pieces.append(bytes(marker))
            first = opened.pop(producer, None)
            if kind == "abort" and first is not None:
                aborted.append(FetchResponse.AbortedTransaction(producer_id=producer, first_offset=first))
            offset += 1
            continue
        if kind == "transaction":
            opened.setdefault(producer, offset)
            options |= {"producer_id": producer, "producer_epoch": 0, "is_transactional": True}
        builder = RecordBatchBuilder(Codec.LZ4 if kind == "compressed" else Codec.NONE, **options)
        for number in range(count):
            builder.append(1_000 + number, b"k%d" % offset, b"v" * number, [("h", None)] * (number % 2))
        pieces.append(builder.build())
        offset += count
    return b"".join(pieces), aborted


@settings(deadline=None)
@given(
    batches_of_logs,
    st.integers(0, 8),
    st.lists(st.tuples(st.sampled_from(["poll", "table", "bytes"]), st.integers(1, 9)), max_size=12),
)
def test_any_mixture_of_polls_and_tables_reads_each_record_once(
    parts: list[tuple[str, int, int]], skip: int, calls: list[tuple[str, int]]
) -> None:
    data, aborted = build_log(parts)
    decoder = TableDecoder(None)
    fetch = CompletedFetch(TP0, 10 + skip, data, check_crcs=True, aborted=aborted)
    read: list[ConsumerRecord] = []
    for how, limit in calls:
        if how == "poll":
            taken = fetch.take(limit)
            assert len(taken) <= limit
        else:
            taker = TableTaker(decoder, limit if how == "table" else None, MANY_BYTES if how == "table" else limit)
            taker.take(fetch)
            taken = records_of(decoder.table(taker.rows))
            assert how == "bytes" or len(taken) <= limit
        if taken:
            assert fetch.next_offset > taken[-1].offset
        read += taken
    read += fetch.take(1_000)

    plain = CompletedFetch(TP0, 10 + skip, data, check_crcs=True, aborted=aborted)
    assert read == plain.take(1_000)
    assert (fetch.next_offset, fetch.last_epoch) == (plain.next_offset, plain.last_epoch)


def test_good_batches_before_a_bad_one_come_first() -> None:
    good = batch(0, [b"a", b"b"]) + batch(2, [b"c"])
    # A checksum that is right says nothing about what a producer wrote: this batch claims a record too many.
    bad = RecordBatchBuilder(base_offset=3)
    bad.append(1, None, b"d")
    broken = bytearray(bad.build())
    broken[-1] = 7
    wrong_crc = bytes(broken)
    for check_crcs in (True, False):
        data = memoryview(good + wrong_crc)
        fetch = CompletedFetch(TP0, 0, data, check_crcs=check_crcs)
        taker = TableTaker(TableDecoder(["offset"]), None, MANY_BYTES)
        taken = taker.take(fetch)
        assert taken.next_offset == fetch.next_offset == 3
        assert isinstance(taken.error, CorruptRecord)
        assert "partition t-0 at offset 3 is invalid" in str(taken.error)
        assert [row["offset"] for rows in taker.rows for row in rows.to_pylist()] == [0, 1, 2]
        # The rows are copies, and the error keeps nothing alive: the buffer can be used again.
        fetch.close()
        data.release()


def test_batches_that_were_given_back_come_before_the_bad_one() -> None:
    bad = bytearray(batch(4, [b"e", b"f"]))
    bad[-1] ^= 1
    data = batch(0, [b"a", b"b"]) + batch(2, [b"c", b"d"]) + bytes(bad) + batch(6, [b"g"])

    def limited_table(fetch: CompletedFetch) -> tuple[int, Exception | None]:
        taker = TableTaker(TableDecoder(["offset"]), 1, MANY_BYTES)
        error = taker.take(fetch).error
        return sum(rows.num_rows for rows in taker.rows), error

    fetch = CompletedFetch(TP0, 0, data, check_crcs=True)
    assert [limited_table(fetch) for _ in range(4)] == [(1, None)] * 4
    count, error = limited_table(fetch)
    assert count == 0
    assert "partition t-0 at offset 4 is invalid" in str(error)

    fetch = CompletedFetch(TP0, 0, data, check_crcs=True)
    assert limited_table(fetch) == (1, None)
    # Not the good batch behind the bad one, whose records would be passed over without a word.
    assert [record.offset for record in fetch.take(100)] == [1, 2, 3]
    assert fetch.next_offset == 4
    with pytest.raises(CorruptRecord, match="partition t-0 at offset 4 is invalid"):
        fetch.take(100)


# -- the consumer


def test_tables_have_all_fields_of_all_partitions_and_move_the_positions() -> None:
    cluster = ScriptedCluster({"t": [0, 0]})
    stamped = RecordBatchBuilder(base_offset=4, timestamp_type=LOG_APPEND_TIME, log_append_time=9_000)
    stamped.append(1, None, None)
    old = encode_message_set(0, [Record(5, -1, b"old", b"format")])
    cluster.logs["t", 0] = batch(0, [b"a", b"b"], Codec.ZSTD) + batch(2, [b""], is_control=True)
    cluster.logs["t", 0] += batch(3, [b"c"]) + stamped.build() + old
    cluster.logs["t", 1] = batch(0, [b"d"])
    consumer = consumer_of(cluster, TP0, TP1)
    expected: list[ConsumerRecord] = []
    while len(expected) < 6:
        expected += consumer.poll(1_000)
    consumer.seek_to_beginning()
    read: list[ConsumerRecord] = []
    while len(read) < 6:
        read += records_of(consumer.poll_table(1_000))
    assert [each.timestamp_type for each in sorted(read)] == [0, 0, 0, 1, -1, 0]
    assert sorted(each._replace(timestamp_type=0) for each in read) == sorted(
        each._replace(timestamp_type=0) for each in expected
    )
    assert [consumer.position(each) for each in (TP0, TP1)] == [6, 1]
    empty = consumer.poll_table(5)
    assert (empty.num_rows, empty.schema) == (0, TABLE_SCHEMA)


def test_limits_seeks_pauses_and_columns() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = b"".join(
        batch(base, [b"%d" % (base + each) for each in range(5)]) for base in range(0, 20, 5)
    )
    consumer = consumer_of(cluster, TP0)
    assert consumer.poll_table(1_000, 7, columns=["value", "offset"]).to_pydict() == {
        "value": [b"%d" % number for number in range(7)],
        "offset": list(range(7)),
    }
    assert consumer.position(TP0) == 7
    assert [record.offset for record in consumer.poll(1_000, 1)] == [7]
    # Whole batches while the limit is not reached: the rest of the second, and all of the third.
    assert consumer.poll_table(1_000, max_bytes=200, columns=["offset"])["offset"].to_pylist() == list(range(8, 15))
    consumer.pause([TP0])
    assert consumer.poll_table(5).num_rows == 0
    consumer.resume([TP0])
    consumer.seek(TP0, 18)
    assert consumer.poll_table(1_000, columns=["offset"])["offset"].to_pylist() == [18, 19]
    with pytest.raises(ValueError, match="no column 'offsets'; the columns are topic, partition, offset"):
        consumer.poll_table(columns=["offsets"])
    with pytest.raises(TypeError, match="a list of names, not 'offset'"):
        consumer.poll_table(columns="offset")
    with pytest.raises(ValueError, match="max_records must be at least 1, not 0"):
        consumer.poll_table(max_records=0)


def test_an_error_waits_until_the_rows_before_it_were_returned() -> None:
    cluster = ScriptedCluster({"t": [0]})
    damaged = bytearray(batch(2, [b"c"]))
    damaged[-1] ^= 1
    cluster.logs["t", 0] = batch(0, [b"a", b"b"]) + bytes(damaged)
    consumer = consumer_of(cluster, TP0)
    assert consumer.poll_table(1_000).num_rows == 2
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="at offset 2"):
            consumer.poll_table(1_000)
    consumer.seek(TP0, 3)
    assert consumer.poll_table(5).num_rows == 0


def test_an_answer_without_a_whole_batch_is_an_error() -> None:
    data = batch(0, [b"a" * 100])
    fetch = CompletedFetch(TopicPartition("t", 0), 0, data[:80], check_crcs=True)
    error = TableTaker(TableDecoder(None), None, MANY_BYTES).take(fetch).error
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
