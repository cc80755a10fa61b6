"""The consumer on scripted brokers: positions, order, control batches, errors, changes of leader."""

from __future__ import annotations

import pytest

from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.clients.errors import ClientClosed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.rpc.client_request import UnsupportedVersion
from tests.support.scripted_cluster import TP0, TP1, ScriptedCluster, batch, consumer_of
from tests.support.scripted_selector import all_versions


def test_reads_all_codecs_in_order_and_keeps_positions() -> None:
    cluster = ScriptedCluster({"t": [0]})
    for number, codec in enumerate(Codec):
        cluster.logs["t", 0] += batch(number * 2, [b"%d" % (number * 2), b"%d" % (number * 2 + 1)], codec)
    consumer = consumer_of(cluster, TP0, max_poll_records=3)
    records: list[ConsumerRecord] = []
    while len(records) < 10:
        some = consumer.poll(1000)
        assert 0 < len(some) <= 3
        records += some
        assert consumer.position(TP0) == len(records)
    assert [record.value for record in records] == [b"%d" % number for number in range(10)]
    assert records[-1][2:] == (9, 1009, 0, b"k", b"9", (("h", b"x"),))
    assert consumer.poll(100) == []


def test_control_batches_are_skipped_and_gaps_are_crossed() -> None:
    cluster = ScriptedCluster({"t": [0]})
    compacted = RecordBatchBuilder(base_offset=4)
    compacted.append(1, None, b"kept", offset=6)
    compacted.append(1, None, b"removed", offset=9)
    data = bytearray(compacted.build())
    cluster.logs["t", 0] = batch(0, [b"a", b"b"]) + batch(2, [b""], is_control=True) + bytes(data)
    consumer = consumer_of(cluster, TP0)
    assert [(record.offset, record.value) for record in consumer.poll(1000)] == [
        (0, b"a"),
        (1, b"b"),
        (6, b"kept"),
        (9, b"removed"),
    ]
    assert consumer.position(TP0) == 10


def test_only_a_control_batch_moves_the_position() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b""], is_control=True)
    consumer = consumer_of(cluster, TP0)
    assert consumer.poll(10) == []
    assert consumer.position(TP0) == 1


def test_seeking_forward_inside_a_batch_and_back() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b"a", b"b", b"c"], Codec.LZ4)
    consumer = consumer_of(cluster, TP0)
    consumer.seek(TP0, 2)
    assert [record.offset for record in consumer.poll(1000)] == [2]
    consumer.seek(TP0, 1)
    assert [record.offset for record in consumer.poll(1000, 1)] == [1]
    consumer.seek_to_beginning()
    assert [record.offset for record in consumer.poll(1000, 1)] == [0]
    consumer.seek_to_end([TP0])
    assert consumer.position(TP0) == 3
    with pytest.raises(LookupError):
        consumer.seek(TP1, 0)


def test_begins_at_the_end_by_default() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b"a"])
    consumer = consumer_of(cluster, TP0, auto_offset_reset="latest")
    assert consumer.poll(10) == []
    cluster.logs["t", 0] += batch(1, [b"b"])
    assert [record.value for record in consumer.poll(5000)] == [b"b"]


def test_a_reader_of_committed_records_does_not_begin_at_the_high_watermark_of_an_old_broker() -> None:
    """ListOffsets v1 has no level of isolation: the end that it answers may lie behind an open transaction."""
    cluster = ScriptedCluster({"t": [0]})
    answer = all_versions(MetadataRequest, FetchRequest, ListOffsetsRequest)
    for each in answer.api_keys:
        if each.api_key == ApiKey.LIST_OFFSETS:
            each.max_version = 1
    cluster.handlers[ApiKey.API_VERSIONS] = lambda _: answer
    cluster.logs["t", 0] += batch(0, [b"a"])
    with pytest.raises(UnsupportedVersion):
        consumer_of(cluster, TP0, isolation_level="read_committed").poll(1000)
    assert not cluster.sent(ApiKey.LIST_OFFSETS)


def test_out_of_range_resets_or_raises() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b"a"])
    consumer = consumer_of(cluster, TP0)
    consumer.seek(TP0, 50)
    assert [record.offset for record in consumer.poll(5000)] == [0]
    cluster = ScriptedCluster({"t": [0]})
    strict = consumer_of(cluster, TP0, auto_offset_reset="none")
    with pytest.raises(ApiError, match="no reset policy"):
        strict.poll(1000)
    strict.seek(TP0, 50)
    with pytest.raises(ApiError) as raised:
        strict.poll(5000)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_change_of_leader_is_followed() -> None:
    cluster = ScriptedCluster({"t": [0]}, brokers=2)
    cluster.logs["t", 0] = batch(0, [b"a"])
    cluster.errors["t", 0] = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    consumer = consumer_of(cluster, TP0)
    consumer.position(TP0)
    cluster.topics["t"] = [1]
    assert [record.value for record in consumer.poll(10_000)] == [b"a"]
    assert cluster.sent(ApiKey.FETCH)[-1].connection_id == "1"


def test_a_lost_connection_is_made_again() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b"a"])
    consumer = consumer_of(cluster, TP0)
    consumer.position(TP0)
    cluster.selector.disconnect("0")
    assert [record.value for record in consumer.poll(10_000)] == [b"a"]


def test_several_partitions_in_one_request_paused_ones_left_out() -> None:
    cluster = ScriptedCluster({"t": [0, 0]})
    cluster.logs["t", 0] = batch(0, [b"a"])
    cluster.logs["t", 1] = batch(0, [b"b"])
    consumer = consumer_of(cluster, TP0, TP1)
    assert sorted((record.partition, record.value) for record in consumer.poll(1000)) == [(0, b"a"), (1, b"b")]
    assert len(cluster.sent(ApiKey.FETCH)[0].body.topics[0].partitions) == 2
    consumer.pause([TP0])
    cluster.logs["t", 0] += batch(1, [b"c"])
    cluster.logs["t", 1] += batch(1, [b"d"])
    values = {record.value for _ in range(3) for record in consumer.poll(1000)}
    assert values == {b"d"}
    consumer.resume([TP0])
    assert {record.value for _ in range(3) for record in consumer.poll(1000)} == {b"c"}


def test_fetches_have_the_topic_id_and_begin_a_session() -> None:
    cluster = ScriptedCluster({"t": [0]})
    consumer = consumer_of(cluster, TP0)
    consumer.poll(10)
    request = cluster.sent(ApiKey.FETCH)[0]
    assert request.header.api_version == FetchRequest.max_version
    assert (request.body.session_id, request.body.session_epoch, request.body.replica_id) == (0, 0, -1)
    assert request.body.topics[0].topic_id == cluster.topic_id("t")


def test_a_wrong_checksum_is_raised_and_can_be_sought_past() -> None:
    cluster = ScriptedCluster({"t": [0]})
    damaged = bytearray(batch(2, [b"c"]))
    damaged[-1] ^= 1
    cluster.logs["t", 0] = batch(0, [b"a", b"b"]) + bytes(damaged) + batch(3, [b"d"])
    consumer = consumer_of(cluster, TP0)
    assert [record.value for record in consumer.poll(1000)] == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"t-0 at offset 2 .*checksum"):
            consumer.poll(1000)
    consumer.seek(TP0, 3)
    assert [record.value for record in consumer.poll(1000)] == [b"d"]


def test_offsets() -> None:
    cluster = ScriptedCluster({"t": [0, 1]}, brokers=2)
    cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    cluster.errors["t", 1] = [ErrorCode.LEADER_NOT_AVAILABLE]
    consumer = consumer_of(cluster)
    assert consumer.end_offsets([TP0, TP1]) == {TP0: 2, TP1: 0}
    assert consumer.beginning_offsets([TP0]) == {TP0: 0}
    assert consumer.offsets_for_times({TP0: 1001, TP1: 5}) == {TP0: OffsetAndTimestamp(1, 1001), TP1: None}
    assert len(consumer.partitions_for("t")) == 2
    with pytest.raises(ValueError, match="negative"):
        consumer.offsets_for_times({TP0: -1})


def test_unassigned_partitions_return_nothing() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0, [b"a"])
    consumer = consumer_of(cluster, TP0)
    consumer.poll(0)
    consumer.assign([])
    assert consumer.assignment() == set()
    with pytest.raises(RuntimeError, match="not subscribed"):
        consumer.poll(1000)
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_what_was_aborted_is_left_out_where_only_committed_records_are_read() -> None:
    def of(base: int, producer_id: int, *values: bytes) -> bytes:
        return batch(base, list(values), producer_id=producer_id, producer_epoch=0, is_transactional=True)

    def end(base: int, producer_id: int, *, is_abort: bool) -> bytes:
        marker = bytearray(EndTransactionMarker(is_abort, 0, 1).batch(producer_id, 0))
        marker[:8] = base.to_bytes(8, "big")  # no part of the checksum
        return bytes(marker)

    def aborted(producer_id: int, first_offset: int) -> FetchResponse.AbortedTransaction:
        return FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)

    data = b"".join(
        [
            of(0, 7, b"aborted"),
            of(1, 8, b"kept"),
            batch(2, [b"plain"]),
            end(3, 7, is_abort=True),
            of(4, 7, b"kept too"),
            end(5, 8, is_abort=False),
            end(6, 7, is_abort=False),
            of(7, 8, b"aborted", b"aborted"),
            end(9, 8, is_abort=True),
        ]
    )
    every = CompletedFetch(TP0, 0, data, check_crcs=True)
    assert [record.offset for record in every.take(99)] == [0, 1, 2, 4, 7, 8]
    committed = CompletedFetch(TP0, 0, data, check_crcs=True, aborted=[aborted(8, 7), aborted(7, 0)])
    assert [record.value for record in committed.take(99)] == [b"kept", b"plain", b"kept too"]
    assert committed.next_offset == 10
