"""What Fetch answers where settings, versions, limits or epochs forbid it, to the letter of Apache Kafka 3.9."""

from __future__ import annotations

import time

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import legacy_batches
from barnabas.records.record_batch import batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch, only_partition, record_bytes
from tests.support.server_fixtures import Server

STAMP = 1_700_000_000_000
LONG_MS = 600_000
SOON_MS = 300
READ_COMMITTED = 1


def fill(client: RawClient, topic: str, codec: Codec = Codec.NONE, **configs: str) -> int:
    """Three batches of one record of 1,000 bytes; their size together."""
    client.create_topic(topic, configs={name.replace("_", "."): value for name, value in configs.items()})
    size = 0
    for number in range(3):
        batch = make_batch([bytes([number]) * 1000], codec, STAMP)
        assert client.produce(topic, batch).error_code == ErrorCode.NONE
        size += len(batch)
    return size


def ask(client: RawClient, topic: str, version: int, **fields: int) -> FetchResponse:
    """Fetch offset 0 with these fields of request (isolation_level, replica_id) or partition (all others)."""
    request = client.fetch_request(topic, 0, version)
    for name, value in fields.items():
        if name == "isolation_level":
            request.isolation_level = value
        elif name == "replica_id" and version >= 15:
            request.replica_state = FetchRequest.ReplicaState(value, -1)
        elif name == "replica_id":
            request.replica_id = value
        else:
            setattr(request.topics[0].partitions[0], name, value)
    return client.call(request, version, FetchResponse)


@each_version(ApiKey.FETCH, lowest=4)
def test_committed_records_come_with_a_list_of_aborted_transactions(
    client: RawClient, topic: str, version: int
) -> None:
    """There is none, which is an empty list; who reads uncommitted ones gets null."""
    size = fill(client, topic)
    committed = only_partition(ask(client, topic, version, isolation_level=READ_COMMITTED))
    assert (committed.error_code, len(record_bytes(committed))) == (ErrorCode.NONE, size)
    assert (committed.last_stable_offset, committed.aborted_transactions) == (3, [])
    assert only_partition(ask(client, topic, version)).aborted_transactions is None


@each_version(ApiKey.FETCH, lowest=7)
def test_an_isolation_level_that_does_not_exist(client: RawClient, topic: str, version: int) -> None:
    fill(client, topic)
    assert ask(client, topic, version, isolation_level=5).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@each_version(ApiKey.FETCH)
def test_zstd_batches_for_old_versions(client: RawClient, topic: str, version: int) -> None:
    """Before v4 they would have to be converted, which cannot be; from v4 on they are the client's to know."""
    size = fill(client, topic, Codec.ZSTD)
    fetched = client.fetch(topic, 0, version)
    if version < 4:
        assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
        assert not fetched.records
    else:
        assert (fetched.error_code, len(record_bytes(fetched))) == (ErrorCode.NONE, size)


@each_version(ApiKey.FETCH)
@pytest.mark.parametrize("offset", [0, 3, 9])
def test_topics_of_zstd_are_closed_to_versions_before_10(
    client: RawClient, topic: str, version: int, offset: int
) -> None:
    fill(client, topic, compression_type="zstd")
    fetched = client.fetch(topic, offset, version)
    if version < 10:
        assert (fetched.error_code, fetched.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
        assert not fetched.records
    else:
        assert fetched.error_code == (ErrorCode.OFFSET_OUT_OF_RANGE if offset > 3 else ErrorCode.NONE)


@each_version(ApiKey.FETCH)
@pytest.mark.parametrize("offset", [0, 3])
def test_topics_that_are_not_converted(client: RawClient, topic: str, version: int, offset: int) -> None:
    fill(client, topic, message_downconversion_enable="false")
    fetched = client.fetch(topic, offset, version)
    expected = ErrorCode.UNSUPPORTED_VERSION if version < 4 else ErrorCode.NONE
    assert (fetched.error_code, fetched.high_watermark) == (expected, -1 if version < 4 else 3)


@each_version(ApiKey.FETCH, highest=3)
def test_converted_records_take_what_the_stored_ones_took(client: RawClient, topic: str, version: int) -> None:
    """The size is promised before all is converted: the rest is a message that is cut off."""
    size = fill(client, topic)
    fetched = client.fetch(topic, 0, version)
    data = record_bytes(fetched)
    assert len(data) == size
    messages = list(legacy_batches(data))
    assert [message.last_offset for message in messages] == [0, 1, 2]
    assert {message.magic for message in messages} == {0 if version < 2 else 1}
    assert messages[-1].end < len(data)


@each_version(ApiKey.FETCH, highest=3)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_compressed_records_are_converted_and_compressed_again(
    client: RawClient, topic: str, version: int, codec: Codec
) -> None:
    client.create_topic(topic)
    builder = RecordBatchBuilder(codec)
    for number in range(1000):
        builder.append(STAMP + number, b"key", b"%d" % number, [("header", b"is dropped")])
    assert client.produce(topic, builder.build()).error_code == ErrorCode.NONE
    fetched = client.fetch(topic, 500, version)
    records = [record for message in legacy_batches(record_bytes(fetched)) for record in message.records()]
    assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(1000)]
    assert {record.timestamp for record in records} == (
        {-1} if version < 2 else {STAMP + number for number in range(1000)}
    )


@each_version(ApiKey.FETCH, highest=3)
def test_plain_records_are_converted_from_the_offset_on(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, *(b"%d" % number for number in range(1000)))
    fetched = client.fetch(topic, 700, version)
    found = [message.last_offset for message in legacy_batches(record_bytes(fetched))]
    assert found == list(range(700, 700 + len(found)))
    assert len(found) == 300


def test_a_large_range_is_converted(client: RawClient, topic: str) -> None:
    """Some megabytes, step by step, while others are served."""
    client.create_topic(topic)
    for first in range(0, 40_000, 4000):
        client.produce_values(topic, *(b"%06d" % number * 10 for number in range(first, first + 4000)))
    seen: list[int] = []
    while len(seen) < 40_000:
        fetched = client.fetch(topic, len(seen), 3, partition_max_bytes=1 << 20)
        found = [message.last_offset for message in legacy_batches(record_bytes(fetched))]
        assert found[0] == len(seen)
        seen += found
    assert seen == list(range(40_000))


@each_version(ApiKey.FETCH, highest=2)
@pytest.mark.parametrize("limit", [0, 10, 500])
def test_old_versions_have_a_hard_limit(client: RawClient, topic: str, version: int, limit: int) -> None:
    """No whole batch fits: nothing can be converted."""
    fill(client, topic)
    fetched = client.fetch(topic, 0, version, partition_max_bytes=limit)
    assert (fetched.error_code, fetched.high_watermark, record_bytes(fetched)) == (ErrorCode.NONE, 3, b"")


@pytest.mark.parametrize("limits", [{"partition_max_bytes": 0}, {"max_bytes": 0}, {"max_bytes": 1100}])
def test_one_whole_batch_at_least(client: RawClient, topic: str, limits: dict[str, int]) -> None:
    size = fill(client, topic)
    fetched = client.fetch(topic, 0, 12, max_wait_ms=LONG_MS, **limits)
    (batch, *_) = batches(record_bytes(fetched))
    assert batch.length == size // 3


def test_more_is_asked_for_than_may_come(client: RawClient, topic: str) -> None:
    """min_bytes is never more than max_bytes: else no answer would be enough."""
    fill(client, topic)
    assert client.fetch(topic, 0, min_bytes=1 << 20, max_bytes=10, max_wait_ms=LONG_MS).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(0, LONG_MS), (-1, LONG_MS), (1, 0), (1, -1)])
def test_who_does_not_want_to_wait(client: RawClient, topic: str, min_bytes: int, max_wait_ms: int) -> None:
    fill(client, topic)
    fetched = client.fetch(topic, 3, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
    assert (fetched.error_code, record_bytes(fetched)) == (ErrorCode.NONE, b"")


def _several(client: RawClient, wanted: list[tuple[str, int]], max_wait_ms: int) -> dict[str, ErrorCode]:
    topics = [
        FetchRequest.FetchTopic(
            name, partitions=[FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
        )
        for name, offset in wanted
    ]
    request = FetchRequest(min_bytes=1, max_bytes=1 << 20, max_wait_ms=max_wait_ms, topics=topics)
    answer = client.call(request, 12, FetchResponse)
    return {each.topic: ErrorCode(each.partitions[0].error_code) for each in answer.responses}


def test_an_unknown_topic_does_not_end_a_long_poll(client: RawClient, topic: str) -> None:
    """Else a consumer of a topic that is gone would ask as fast as it can."""
    fill(client, topic)
    unknown = f"{topic}-unknown"
    before = time.monotonic()
    found = _several(client, [(topic, 3), (unknown, 0)], SOON_MS)
    assert time.monotonic() - before >= 0.9 * SOON_MS / 1000
    assert found == {topic: ErrorCode.NONE, unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_offset_out_of_range_ends_a_long_poll(client: RawClient, topic: str) -> None:
    fill(client, topic)
    other = f"{topic}-other"
    client.create_topic(other)
    found = _several(client, [(topic, 3), (other, 9)], LONG_MS)
    assert found == {topic: ErrorCode.NONE, other: ErrorCode.OFFSET_OUT_OF_RANGE}


@each_version(ApiKey.FETCH, lowest=9)
def test_fencing_by_leader_epoch(client: RawClient, topic: str, version: int) -> None:
    fill(client, topic)
    assert only_partition(ask(client, topic, version, current_leader_epoch=0)).error_code == ErrorCode.NONE
    refused = only_partition(ask(client, topic, version, current_leader_epoch=1))
    assert (refused.error_code, refused.high_watermark) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1)
    assert refused.current_leader is None


@each_version(ApiKey.FETCH, lowest=9)
def test_a_follower_that_is_none_of_ours(server: Server, client: RawClient, topic: str, version: int) -> None:
    """It must be one of the assigned replicas; from v16 on the answer says who leads, and where that is."""
    fill(client, topic)
    answer = ask(client, topic, version, replica_id=5)
    refused = only_partition(answer)
    assert (refused.error_code, record_bytes(refused)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
    if version < 16:
        assert (refused.current_leader, answer.node_endpoints) == (None, [])
    else:
        assert refused.current_leader == FetchResponse.LeaderIdAndEpoch(0, 0)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port) == (0, server.host, server.port)
    fenced = only_partition(ask(client, topic, version, replica_id=5, current_leader_epoch=0))
    assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@each_version(ApiKey.FETCH, lowest=12)
def test_a_reader_that_diverged_is_told_where(client: RawClient, topic: str, version: int) -> None:
    """KIP-595: its last epoch ends before it says, or is not known here."""
    fill(client, topic)
    agreed = only_partition(ask(client, topic, version, last_fetched_epoch=0, fetch_offset=2))
    assert (agreed.error_code, agreed.diverging_epoch) == (ErrorCode.NONE, None)
    beyond = only_partition(ask(client, topic, version, last_fetched_epoch=0, fetch_offset=9))
    assert (beyond.error_code, record_bytes(beyond)) == (ErrorCode.NONE, b"")
    assert beyond.diverging_epoch == FetchResponse.EpochEndOffset(0, 3)
