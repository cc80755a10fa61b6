"""Fetches on scripted brokers: skewed partitions, fetching ahead, closer replicas, topics that are created again."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import TP0, ScriptedCluster, batches, consumer_of
from tests.support.scripted_selector import SentRequest


def asked(request: SentRequest) -> dict[int, int]:
    """The offset that a fetch asks for, by partition."""
    return {each.partition: each.fetch_offset for topic in request.body.topics for each in topic.partitions}


def test_records_that_were_fetched_ahead_stay_while_a_partition_is_paused() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 20)
    consumer = consumer_of(cluster, TP0, max_partition_fetch_bytes=8000, max_poll_records=1)
    offsets: list[int] = []
    while len(offsets) < 20:
        offsets += [record.offset for record in consumer.poll(60_000)]
        consumer.pause([TP0])
        assert consumer.poll(0) == []
        consumer.resume([TP0])
    assert offsets == list(range(20))
    # The end of the log is asked for again and again, everything before it once.
    assert [asked(each)[0] for each in cluster.sent(ApiKey.FETCH) if asked(each).get(0, 20) < 20] == [0, 8, 16]


@pytest.mark.parametrize("max_poll_records", [1, 3, 500])
def test_no_fetch_waits_while_records_are_known_to_be_there(max_poll_records: int) -> None:
    cluster = ScriptedCluster({"t": [0, 0, 0]})
    cluster.logs["t", 0] = batches(0, 40)
    cluster.logs["t", 1] = batches(0, 3)
    partitions = [TopicPartition("t", number) for number in range(3)]
    consumer = consumer_of(cluster, *partitions, max_partition_fetch_bytes=8000, max_poll_records=max_poll_records)
    consumer.position(TP0)
    before_ns = cluster.clock.nanoseconds()
    read = 0
    while read < 43:
        fetches = len(cluster.sent(ApiKey.FETCH))
        some = consumer.poll(60_000)
        assert some
        read += len(some)
        waiting = [each for each in cluster.sent(ApiKey.FETCH)[fetches:] if each.body.max_wait_ms]
        # Only the first fetch, when nothing is known, and those behind the last record may wait.
        assert not waiting or fetches == 0 or read == 43
        assert cluster.clock.nanoseconds() == before_ns or read == 43
    assert consumer.poll(100) == []
    assert cluster.sent(ApiKey.FETCH)[-1].body.max_wait_ms == 500


@pytest.mark.parametrize("seed", range(40))
def test_a_node_may_wait_only_behind_its_last_record_however_skewed(seed: int) -> None:
    chance = Random(seed)
    brokers = chance.choice((1, 1, 3))
    leaders = [chance.randrange(brokers) for _ in range(8)]
    cluster = ScriptedCluster({"t": leaders}, brokers=brokers)
    counts = [chance.choice((0, 1, 5, 30, 60)) for _ in leaders]
    for number, count in enumerate(counts):
        cluster.logs["t", number] = batches(0, count)
    partitions = [TopicPartition("t", number) for number in range(len(leaders))]
    consumer = consumer_of(
        cluster,
        *partitions,
        max_partition_fetch_bytes=chance.choice((1000, 4000, 20_000)),
        fetch_max_bytes=chance.choice((3000, 10_000, 1 << 20)),
        max_poll_records=chance.choice((1, 3, 10, 500)),
    )
    for each in partitions:
        consumer.position(each)
    serve = cluster.handlers[ApiKey.FETCH]
    asked_before: set[str] = set()
    long_polls = 0

    def watched(request: SentRequest) -> FetchResponse:
        nonlocal long_polls
        node = request.connection_id
        # What a node has is known from its first answer on.
        if request.body.max_wait_ms and node in asked_before:
            long_polls += 1
            led = [each for each in partitions if str(leaders[each.partition]) == node]
            assert [consumer.position(each) for each in led] == [counts[each.partition] for each in led]
        asked_before.add(node)
        answer: FetchResponse = serve(request)
        # A broker fills an answer partition by partition: where it is full, the last ones get nothing.
        left = request.body.max_bytes
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.records = partition.records if left > 0 else b""
                left -= len(partition.records or b"")
        return answer

    cluster.handlers[ApiKey.FETCH] = watched
    read = dict.fromkeys(range(len(leaders)), 0)
    while sum(read.values()) < sum(counts):
        for record in consumer.poll(60_000):
            assert record.offset == read[record.partition]
            read[record.partition] += 1
    assert list(read.values()) == counts
    assert consumer.poll(1000) == []
    assert long_polls


def test_the_next_records_are_fetched_before_the_last_are_read() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 40)
    consumer = consumer_of(cluster, TP0, max_partition_fetch_bytes=10_000, max_poll_records=4)
    assert len(consumer.poll(1000)) == 4
    assert [asked(each) for each in cluster.sent(ApiKey.FETCH)] == [{0: 0}]
    assert len(consumer.poll(1000)) == 4
    assert [asked(each) for each in cluster.sent(ApiKey.FETCH)] == [{0: 0}, {0: 10}]
    # The records behind the old position are of no use any more, neither those here nor those on their way.
    consumer.seek(TP0, 2)
    assert [record.offset for record in consumer.poll(1000)] == [2, 3, 4, 5]


def test_an_error_of_a_fetch_ahead_comes_after_the_records_before_it() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 20)
    consumer = consumer_of(cluster, TP0, max_partition_fetch_bytes=10_000, max_poll_records=6, auto_offset_reset="none")
    consumer.seek(TP0, 0)
    cluster.errors["t", 0] = [ErrorCode.NONE, *[ErrorCode.OFFSET_OUT_OF_RANGE] * 2]
    assert [record.offset for record in consumer.poll(1000)] == [0, 1, 2, 3, 4, 5]
    assert [record.offset for record in consumer.poll(1000)] == [6, 7, 8, 9]
    with pytest.raises(ApiError, match=r"t-0, offset: 10"):
        consumer.poll(1000)


def test_a_high_watermark_without_records_does_not_make_the_consumer_spin() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 5)
    serve = cluster.handlers[ApiKey.FETCH]

    def without_records(request: SentRequest) -> FetchResponse:
        answer: FetchResponse = serve(request)
        answer.responses[0].partitions[0].records = b""
        if request.body.max_wait_ms:
            cluster.clock.advance(request.body.max_wait_ms)
        return answer

    cluster.handlers[ApiKey.FETCH] = without_records
    consumer = consumer_of(cluster, TP0)
    consumer.poll(5000)
    assert all(each.body.max_wait_ms for each in cluster.sent(ApiKey.FETCH))


def test_records_are_read_from_the_replica_that_the_leader_names() -> None:
    cluster = ScriptedCluster({"t": [0]}, brokers=2)
    cluster.logs["t", 0] = batches(0, 3)
    serve = cluster.handlers[ApiKey.FETCH]
    closer = 1
    follower_error = ErrorCode.NONE

    def by_place(request: SentRequest) -> FetchResponse:
        if request.connection_id != "0":
            cluster.errors["t", 0] = [follower_error]
        answer: FetchResponse = serve(request)
        if request.connection_id == "0" and closer:
            answer.responses[0].partitions[0].preferred_read_replica = closer
            answer.responses[0].partitions[0].records = b""
        return answer

    cluster.handlers[ApiKey.FETCH] = by_place
    consumer = consumer_of(cluster, TP0, client_rack="here", metadata_max_age_ms=60_000)
    assert len(consumer.poll(10_000)) == 3
    assert [each.connection_id for each in cluster.sent(ApiKey.FETCH)][:2] == ["0", "1"]
    assert cluster.sent(ApiKey.FETCH)[0].body.rack_id == "here"
    # The leader is asked again when the choice expires.
    seen = len(cluster.sent(ApiKey.FETCH))
    cluster.clock.advance(61_000)
    consumer.poll(2_000)
    assert "0" in {each.connection_id for each in cluster.sent(ApiKey.FETCH)[seen:]}
    # What is out of range at a follower may be there at the leader.
    follower_error, closer = ErrorCode.OFFSET_OUT_OF_RANGE, 1
    cluster.logs["t", 0] += batches(3, 4)
    consumer.poll(10)
    closer = 0
    assert [record.offset for record in consumer.poll(10_000)] == [3]


def test_a_topic_that_is_created_again_is_read_by_its_new_id() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 2)
    consumer = consumer_of(cluster, TP0)
    assert len(consumer.poll(1000)) == 2
    cluster.topic_ids["t"] = b"\2" * 16
    cluster.logs["t", 0] = batches(0, 1)
    assert [record.offset for record in consumer.poll(10_000)] == [0]
    assert cluster.sent(ApiKey.FETCH)[-1].body.topics[0].topic_id == b"\2" * 16


def test_a_leader_that_an_answer_names_is_asked_at_once() -> None:
    cluster = ScriptedCluster({"t": [0]}, brokers=2)
    cluster.logs["t", 0] = batches(0, 3)
    consumer = consumer_of(cluster, TP0, max_poll_records=1)
    assert [record.offset for record in consumer.poll(1_000)] == [0]
    fetch = cluster.handlers[ApiKey.FETCH]

    def moved(request: SentRequest) -> FetchResponse:
        """Broker 0 does not lead any more, and no broker answers a request for metadata."""
        asked_ns.append((request.connection_id, cluster.clock.nanoseconds()))
        answer: FetchResponse = fetch(request)
        if request.connection_id != "0":
            return answer
        partition = answer.responses[0].partitions[0]
        partition.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.records = b""
        partition.current_leader = FetchResponse.LeaderIdAndEpoch(1, 1)
        answer.node_endpoints = [FetchResponse.NodeEndpoint(1, "127.0.0.1", 9092)]
        return answer

    cluster.handlers[ApiKey.FETCH] = moved
    cluster.topics["t"] = [1]
    cluster.handlers[ApiKey.METADATA] = lambda request: None
    cluster.logs["t", 0] += batches(3, 5)
    asked_ns: list[tuple[str, int]] = []
    offsets: list[int] = []
    for _ in range(4):
        offsets += [record.offset for record in consumer.poll(1_000)]
    assert offsets == [1, 2, 3, 4]
    first, second = asked_ns[:2]
    assert (first[0], second[0]) == ("0", "1")
    assert second[1] - first[1] < 100_000_000, "the back-off is 100 ms"


def test_an_answer_that_cannot_be_handled_does_not_end_the_fetches_from_its_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batches(0, 3)
    consumer = consumer_of(cluster, TP0)
    consumer.position(TP0)

    def broken(*_arguments: object) -> int:
        raise AssertionError("an answer that breaks the protocol")

    with monkeypatch.context() as patched:
        patched.setattr(consumer._reading._fetcher, "_take_answer", broken)
        assert consumer.poll(0) == []
    assert "an answer that breaks the protocol" in caplog.text
    assert [record.offset for record in consumer.poll(60_000)] == [0, 1, 2]
