"""Fetch v0-18: formats, limits, long polls, refusals."""

from __future__ import annotations

import threading
import uuid

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.records.legacy_records import legacy_batches
from barnabas.records.record_batch import batches
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch, only_partition, record_bytes
from tests.support.server_fixtures import Server

VALUES = [b"value %d" % number for number in range(7)]
LONG_MS = 600_000
"""A wait that a test would not survive: an answer that comes was woken up."""


def _values_of(fetched: FetchResponse.PartitionData, version: int = 12) -> list[tuple[int, bytes | None]]:
    assert fetched.error_code == ErrorCode.NONE
    data = record_bytes(fetched)
    if version < 4:
        return [(record.offset, record.value) for each in legacy_batches(data) for record in each.records()]
    return [(record.offset, record.value) for batch in batches(data) for record in batch.records()]


@each_version(ApiKey.FETCH)
def test_every_version(client: RawClient, topic: str, version: int) -> None:
    """Versions before 4 get the message format of their time, as much of it as the batches took that it is made of."""
    client.create_topic(topic)
    client.produce_values(topic, *VALUES[:3])
    client.produce_values(topic, *VALUES[3:])
    fetched = client.fetch(topic, 0, version)
    read = _values_of(fetched, version)
    while len(read) < len(VALUES) and version < 4:
        more = _values_of(client.fetch(topic, len(read), version), version)
        read += [each for each in more if each[0] >= len(read)]
    assert read == list(enumerate(VALUES))
    assert fetched.high_watermark == len(VALUES)
    if version < 4:
        assert {each.magic for each in legacy_batches(record_bytes(fetched))} == {0 if version < 2 else 1}
    else:
        assert fetched.last_stable_offset == len(VALUES)
        assert fetched.aborted_transactions in (None, [])
    assert fetched.log_start_offset == (0 if version >= 5 else -1)


@each_version(ApiKey.FETCH)
def test_at_the_end(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, *VALUES)
    fetched = client.fetch(topic, len(VALUES), version)
    assert _values_of(fetched, version) == []
    assert fetched.high_watermark == len(VALUES)


@each_version(ApiKey.FETCH)
def test_out_of_range(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, *VALUES)
    for offset in (len(VALUES) + 1, 2**62, -1):
        fetched = client.fetch(topic, offset, version, max_wait_ms=LONG_MS)
        assert fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert not fetched.records


@each_version(ApiKey.FETCH, highest=12)
def test_unknown_topic(client: RawClient, topic: str, version: int) -> None:
    """Answered at once, however long the client would wait."""
    fetched = client.fetch(topic, 0, version, max_wait_ms=LONG_MS)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    fetched = client.fetch(topic, 0, version, partition=5, max_wait_ms=LONG_MS)
    assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_version(ApiKey.FETCH, lowest=13)
def test_unknown_topic_id(client: RawClient, version: int) -> None:
    place = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
    wanted = FetchRequest.FetchTopic(topic_id=uuid.uuid4().bytes, partitions=[place])
    answer = client.call(FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, topics=[wanted]), version, FetchResponse)
    assert only_partition(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_from_the_middle_of_a_batch(client: RawClient, topic: str) -> None:
    """The whole batch comes; the client skips what it did not ask for."""
    client.create_topic(topic)
    client.produce_values(topic, *VALUES)
    assert _values_of(client.fetch(topic, 4)) == list(enumerate(VALUES))


@each_version(ApiKey.FETCH, lowest=3)
def test_first_batch_comes_whole(client: RawClient, topic: str, version: int) -> None:
    """KIP-74: whatever the limits say, a consumer must be able to go on."""
    client.create_topic(topic)
    client.produce_values(topic, bytes(10_000))
    fetched = client.fetch(topic, 0, version, max_bytes=1, partition_max_bytes=1)
    assert _values_of(fetched, version) == [(0, bytes(10_000))]


def test_partition_limit(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    size = len(make_batch([bytes(1000)]))
    for _ in range(10):
        client.produce_values(topic, bytes(1000))
    fetched = client.fetch(topic, 0, partition_max_bytes=3 * size + 5)
    assert len(_values_of(fetched)) == 3
    assert len(fetched.records or b"") <= 3 * size + 5


def test_request_limit_over_partitions(client: RawClient, topic: str) -> None:
    """The first partition with data is served in spite of the limit, the others as far as bytes are left."""
    client.create_topic(topic, 3)
    for partition in range(3):
        client.produce_values(topic, bytes(1000), partition=partition)
    places = [FetchRequest.FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in range(3)]
    request = FetchRequest(min_bytes=1, max_bytes=1100, topics=[FetchRequest.FetchTopic(topic, partitions=places)])
    answer = client.call(request, 12, FetchResponse)
    sizes = [len(each.records or b"") for each in answer.responses[0].partitions]
    assert sizes[0] > 1000
    assert sizes[1] + sizes[2] < 1000


def test_several_partitions(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 3)
    for partition in (0, 2):
        client.produce_values(topic, b"%d" % partition, partition=partition)
    places = [FetchRequest.FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in (2, 1, 0, 9)]
    request = FetchRequest(min_bytes=1, max_bytes=1 << 20, topics=[FetchRequest.FetchTopic(topic, partitions=places)])
    answer = client.call(request, 12, FetchResponse)
    found = {each.partition_index: each for each in answer.responses[0].partitions}
    assert _values_of(found[0]) == [(0, b"0")]
    assert _values_of(found[1]) == []
    assert _values_of(found[2]) == [(0, b"2")]
    assert found[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@each_version(ApiKey.FETCH)
def test_long_poll_is_woken_by_data(server: Server, client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    waiting = client.send(client.fetch_request(topic, 0, version, max_wait_ms=LONG_MS), version)
    with RawClient(server) as producer:
        producer.produce_values(topic, b"woken")
    fetched = only_partition(client.receive(FetchResponse, version, waiting))
    assert _values_of(fetched, version) == [(0, b"woken")]


def test_long_poll_waits_for_min_bytes(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    waiting = client.send(client.fetch_request(topic, 0, max_wait_ms=LONG_MS, min_bytes=2000), 12)
    with RawClient(server) as producer:
        for _ in range(3):  # each below the minimum, two of them above it
            producer.produce_values(topic, bytes(990))
    fetched = only_partition(client.receive(FetchResponse, 12, waiting))
    assert len(_values_of(fetched)) in {2, 3}, "one record is below min_bytes"


def test_long_poll_counts_all_partitions(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic, 2)
    places = [FetchRequest.FetchPartition(partition=each, partition_max_bytes=1 << 20) for each in range(2)]
    wanted = [FetchRequest.FetchTopic(topic, partitions=places)]
    request = FetchRequest(max_wait_ms=LONG_MS, min_bytes=1500, max_bytes=1 << 20, topics=wanted)
    waiting = client.send(request, 12)
    with RawClient(server) as producer:
        for partition in range(2):
            producer.produce_values(topic, bytes(1000), partition=partition)
    answer = client.receive(FetchResponse, 12, waiting)
    assert [len(_values_of(each)) for each in answer.responses[0].partitions] == [1, 1]


def test_long_poll_that_times_out_returns_what_there_is(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    client.produce_values(topic, *VALUES)
    fetched = client.fetch(topic, 0, max_wait_ms=50, min_bytes=1 << 20)
    assert _values_of(fetched) == list(enumerate(VALUES))
    assert _values_of(client.fetch(topic, len(VALUES), max_wait_ms=50)) == []


def test_many_long_polls_on_one_partition(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    watchers = [RawClient(server) for _ in range(20)]
    waiting = [each.send(each.fetch_request(topic, 0, max_wait_ms=LONG_MS), 12) for each in watchers]
    client.produce_values(topic, b"for all")
    for watcher, correlation_id in zip(watchers, waiting, strict=True):
        fetched = only_partition(watcher.receive(FetchResponse, 12, correlation_id))
        assert _values_of(fetched) == [(0, b"for all")]
        watcher.close()


def test_long_poll_of_a_client_that_left(server: Server, client: RawClient, topic: str) -> None:
    """The answer has nowhere to go: nothing else may suffer."""
    client.create_topic(topic)
    for _ in range(5):
        with RawClient(server) as leaving:
            leaving.send(leaving.fetch_request(topic, 0, max_wait_ms=LONG_MS), 12)
    assert client.produce_values(topic, b"value") == 0
    assert _values_of(client.fetch(topic, 0)) == [(0, b"value")]


def test_follows_a_producer(server: Server, client: RawClient, topic: str) -> None:
    """A consumer that polls while a producer writes sees every record once and in order."""
    client.create_topic(topic)
    count = 500

    def produce() -> None:
        with RawClient(server) as producer:
            for number in range(count):
                producer.produce_values(topic, b"%d" % number)

    thread = threading.Thread(target=produce)
    thread.start()
    seen: list[tuple[int, bytes | None]] = []
    while len(seen) < count:
        seen += _values_of(client.fetch(topic, len(seen), max_wait_ms=LONG_MS))
    thread.join()
    assert seen == [(number, b"%d" % number) for number in range(count)]


def test_large_answer_to_a_slow_reader(server: Server, client: RawClient, topic: str) -> None:
    """40 MB through a small receive buffer: pieces of the file, other connections served in between."""
    client.create_topic(topic)
    values = [bytes([number]) * 1_000_000 for number in range(40)]
    for value in values:
        client.produce_values(topic, value)
    with RawClient(server, receive_buffer_bytes=8192) as slow:
        waiting = slow.send(slow.fetch_request(topic, 0, partition_max_bytes=50 << 20), 12)
        assert client.produce_values(topic, b"meanwhile") == len(values)
        fetched = only_partition(slow.receive(FetchResponse, 12, waiting))
    assert _values_of(fetched)[: len(values)] == list(enumerate(values))


def test_reader_that_leaves_in_the_middle_of_an_answer(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    for _ in range(10):
        client.produce_values(topic, bytes(1_000_000))
    for _ in range(3):
        with RawClient(server, receive_buffer_bytes=8192) as leaving:
            leaving.send(leaving.fetch_request(topic, 0, partition_max_bytes=50 << 20), 12)
            assert len(leaving.socket.recv(1000)) > 0
    assert len(_values_of(client.fetch(topic, 0, partition_max_bytes=50 << 20))) == 10


@each_version(ApiKey.FETCH, lowest=9)
def test_unknown_leader_epoch(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    request = client.fetch_request(topic, 0, version)
    request.topics[0].partitions[0].current_leader_epoch = 99
    fetched = only_partition(client.call(request, version, FetchResponse))
    assert fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@each_version(ApiKey.FETCH, lowest=7)
def test_a_full_request_that_asks_for_a_session(client: RawClient, topic: str, version: int) -> None:
    """A broker may grant one or not (session id 0); the answer is the full one."""
    client.create_topic(topic)
    client.produce_values(topic, *VALUES)
    request = client.fetch_request(topic, 0, version)
    request.session_epoch = 0
    answer = client.call(request, version, FetchResponse)
    assert _values_of(only_partition(answer), version) == list(enumerate(VALUES))


def test_empty_request(client: RawClient) -> None:
    answer = client.call(FetchRequest(max_wait_ms=10, min_bytes=1, max_bytes=1000), 12, FetchResponse)
    assert (answer.error_code, answer.responses) == (ErrorCode.NONE, [])


def test_across_segments(client: RawClient, topic: str) -> None:
    """Segments of 16 KB: a consumer walks from one to the next by the offsets it is given."""
    client.create_topic(topic, configs={"segment.bytes": "16384"})
    for number in range(100):
        client.produce_values(topic, b"%03d" % number * 300)
    seen: list[bytes | None] = []
    while len(seen) < 100:
        fetched = _values_of(client.fetch(topic, len(seen)))
        assert fetched[0][0] == len(seen)
        seen += [value for _, value in fetched]
    assert seen == [b"%03d" % number * 300 for number in range(100)]
