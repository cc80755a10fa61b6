"""What is altered holds for the topic's open logs: setting by setting, without a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.records.compression import Codec
from barnabas.records.record_batch import RecordBatch
from tests.support.raw_client import SECONDS, RawClient, make_batch, record_bytes
from tests.support.raw_controller import RawController
from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.waiting import wait_until

SET, DELETE = 0, 1
TOPIC = 2
EARLIEST = -2
HOUR_MS = 3_600_000


def alter(client: RawClient, topic: str, **settings: str | None) -> None:
    """Set settings of a topic (names with `_` for `.`); None takes one away."""
    changes = [
        IncrementalAlterConfigsRequest.AlterableConfig(name.replace("_", "."), DELETE if value is None else SET, value)
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, topic, changes)
    request = IncrementalAlterConfigsRequest([resource])
    (result,) = client.call(request, 1, IncrementalAlterConfigsResponse).responses
    assert result.error_code == ErrorCode.NONE, result


eventually = partial(wait_until, seconds=SECONDS)
"""Settings reach the logs a moment after the answer."""


@pytest.fixture(scope="module", params=MODES)
def busy_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that looks for old segments all the time."""
    server = make_server(
        request.param,
        tmp_path_factory.mktemp("busy"),
        log_retention_check_interval_ms="100",
        log_initial_task_delay_ms="100",
    )
    with server.running():
        yield server


def produced(client: RawClient, topic: str, batch: bytes) -> int:
    """The error code of a produce."""
    return client.produce(topic, batch).error_code


def test_max_message_bytes(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    large = make_batch([b"x" * 2000])
    assert produced(client, topic, large) == ErrorCode.NONE
    alter(client, topic, max_message_bytes="1000")
    eventually(lambda: produced(client, topic, large) == ErrorCode.MESSAGE_TOO_LARGE)
    alter(client, topic, max_message_bytes=None)
    eventually(lambda: produced(client, topic, large) == ErrorCode.NONE)


def test_message_timestamp_type(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    assert client.produce(topic, make_batch([b"a"])).log_append_time_ms == -1
    alter(client, topic, message_timestamp_type="LogAppendTime")
    eventually(lambda: client.produce(topic, make_batch([b"a"])).log_append_time_ms > 0)


@pytest.mark.parametrize(("direction", "hours"), [("before", -2), ("after", 2)])
def test_message_timestamp_difference(client: RawClient, topic: str, direction: str, hours: int) -> None:
    client.create_topic(topic)
    stamped = make_batch([b"a"], timestamp_ms=int(time.time() * 1000) + hours * HOUR_MS)
    assert produced(client, topic, stamped) == ErrorCode.NONE
    alter(client, topic, **{f"message_timestamp_{direction}_max_ms": str(HOUR_MS)})
    eventually(lambda: produced(client, topic, stamped) == ErrorCode.INVALID_TIMESTAMP)


def test_compression_type(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    values = [b"x" * 500] * 4

    def codec_of_next() -> Codec:
        base_offset = client.produce(topic, make_batch(values)).base_offset
        return RecordBatch(record_bytes(client.fetch(topic, base_offset))).codec

    assert codec_of_next() is Codec.NONE
    alter(client, topic, compression_type="gzip")
    eventually(lambda: codec_of_next() is Codec.GZIP)
    alter(client, topic, compression_type="uncompressed")
    eventually(lambda: codec_of_next() is Codec.NONE)


def test_cleanup_policy(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    keyless = make_batch([b"a"])
    assert produced(client, topic, keyless) == ErrorCode.NONE
    alter(client, topic, cleanup_policy="compact")
    eventually(lambda: produced(client, topic, keyless) == ErrorCode.INVALID_RECORD)
    partition = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
    request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [partition])], 1000)
    (answered,) = client.call(request, 2, DeleteRecordsResponse).topics
    assert answered.partitions[0].error_code == ErrorCode.POLICY_VIOLATION
    alter(client, topic, cleanup_policy=None)
    eventually(lambda: produced(client, topic, keyless) == ErrorCode.NONE)


def test_segment_bytes(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    directory = server.data_dir / f"{topic}-0"

    def segments_after_three_appends() -> int:
        for _ in range(3):
            client.produce_values(topic, b"x" * 500)
        return len(list(directory.glob("*.log")))

    assert segments_after_three_appends() == 1
    alter(client, topic, segment_bytes="1000")
    eventually(lambda: segments_after_three_appends() >= 3)


def test_segment_ms(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    directory = server.data_dir / f"{topic}-0"
    client.produce_values(topic, b"a")
    alter(client, topic, segment_ms="1")

    def has_rolled() -> bool:
        client.produce_values(topic, b"a")
        return len(list(directory.glob("*.log"))) > 1

    eventually(has_rolled)


@pytest.mark.parametrize("setting", ["retention_ms", "retention_bytes"])
def test_retention(busy_server: Server, topic: str, setting: str) -> None:
    with RawClient(busy_server) as client:
        client.create_topic(topic, configs={"segment.bytes": "1000", "file.delete.delay.ms": "1"})
        for _ in range(5):
            batch = make_batch([b"x" * 800], timestamp_ms=int(time.time() * 1000) - HOUR_MS)
            assert produced(client, topic, batch) == ErrorCode.NONE
        assert client.list_offset(topic, EARLIEST).offset == 0
        alter(client, topic, **{setting: "1000"})
        eventually(lambda: client.list_offset(topic, EARLIEST).offset >= 3)
        alter(client, topic, **{setting: None})
        assert client.end_offset(topic) == 5


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_min_insync_replicas(own_server: Server, topic: str) -> None:
    """A follower that isn't there is among the replicas: with one of two in sync acks=all is not enough for two."""
    with own_server.running(), RawClient(own_server) as client:
        client.create_topic(topic)
        controller = RawController(client)
        controller.lead(topic, leader_epoch=5, isr=(0,), replicas=(0, 7), is_new=False, topic_id=client.topic_id(topic))

        def soon_produced() -> int:
            # what is appended right before the setting changes waits for a second replica, until its timeout
            request = client.produce_request(topic, make_batch([b"a"]), version=9, acks=-1)
            request.timeout_ms = 100
            (answered,) = client.call(request, 9, ProduceResponse).responses
            return answered.partition_responses[0].error_code

        assert produced(client, topic, make_batch([b"a"])) == ErrorCode.NONE
        alter(client, topic, min_insync_replicas="2")
        eventually(lambda: soon_produced() == ErrorCode.NOT_ENOUGH_REPLICAS)
        alter(client, topic, min_insync_replicas=None)
        eventually(lambda: soon_produced() == ErrorCode.NONE)
