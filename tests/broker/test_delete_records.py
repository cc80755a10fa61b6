"""DeleteRecords: v0-2: the log start offset rises, and nothing below it is served any more."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_fixtures import MODES, Server

HIGH_WATERMARK = -1
EARLIEST = -2
INVALID_LOW_WATERMARK = -1


def delete_records(
    client: RawClient, topic: str, *offsets: tuple[int, int], version: int = 2
) -> list[tuple[int, int, int]]:
    """Delete below (partition, offset); the answers: (partition, low watermark, error), by partition."""
    wanted = [DeleteRecordsRequest.DeleteRecordsPartition(*each) for each in offsets]
    request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, wanted)], SECONDS * 1000)
    (answered,) = client.call(request, version, DeleteRecordsResponse).topics
    assert answered.name == topic
    return sorted((each.partition_index, each.low_watermark, each.error_code) for each in answered.partitions)


@each_version(ApiKey.DELETE_RECORDS)
def test_what_is_below_the_offset_is_gone(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"a", b"b", b"c")
    client.produce_values(topic, b"d")
    assert delete_records(client, topic, (0, 2), version=version) == [(0, 2, ErrorCode.NONE)]
    assert client.list_offset(topic, EARLIEST).offset == 2
    assert client.end_offset(topic) == 4
    assert client.fetch(topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    served = client.fetch(topic, 2)
    assert (served.error_code, served.log_start_offset) == (ErrorCode.NONE, 2)


def test_up_to_the_high_watermark(client: RawClient, topic: str) -> None:
    client.create_topic(topic, partitions=2)
    client.produce_values(topic, b"a", b"b", partition=1)
    answers = delete_records(client, topic, (0, HIGH_WATERMARK), (1, HIGH_WATERMARK))
    assert answers == [(0, 0, ErrorCode.NONE), (1, 2, ErrorCode.NONE)]
    assert client.produce_values(topic, b"c", partition=1) == 2


def test_an_offset_below_the_log_start_changes_nothing(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"a", b"b", b"c")
    delete_records(client, topic, (0, 2))
    assert delete_records(client, topic, (0, 1)) == [(0, 2, ErrorCode.NONE)]
    assert client.list_offset(topic, EARLIEST).offset == 2


@pytest.mark.parametrize("offset", [4, -2])
def test_an_offset_out_of_range(client: RawClient, topic: str, offset: int) -> None:
    client.create_topic(topic)
    client.produce_values(topic, b"a", b"b", b"c")
    refused = (0, INVALID_LOW_WATERMARK, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert delete_records(client, topic, (0, offset)) == [refused]
    assert client.list_offset(topic, EARLIEST).offset == 0


def test_a_compacted_topic_keeps_its_records(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"cleanup.policy": "compact"})
    assert delete_records(client, topic, (0, 0)) == [(0, INVALID_LOW_WATERMARK, ErrorCode.POLICY_VIOLATION)]


def test_unknown_topics_and_partitions(client: RawClient, topic: str) -> None:
    unknown = (INVALID_LOW_WATERMARK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete_records(client, topic, (0, 0)) == [(0, *unknown)]
    client.create_topic(topic)
    assert delete_records(client, topic, (0, 0), (1, 0)) == [(0, 0, ErrorCode.NONE), (1, *unknown)]


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_it_survives_a_restart(own_server: Server, topic: str) -> None:
    with own_server.running(), RawClient(own_server) as client:
        client.create_topic(topic)
        client.produce_values(topic, b"a", b"b", b"c")
        delete_records(client, topic, (0, 2))
    with own_server.running(), RawClient(own_server) as client:
        client.wait_for_leaders(topic, 1)
        assert (client.list_offset(topic, EARLIEST).offset, client.end_offset(topic)) == (2, 3)
