"""ListOffsets v0-11: earliest, latest, by timestamp, largest timestamp."""

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
STAMP = 1_700_000_000_000


def _fill(client: RawClient, topic: str) -> None:
    """Offsets 0-29 in batches of 10; record n of batch b has the timestamp STAMP + 1000 * b."""
    client.create_topic(topic)
    for number in range(3):
        records = make_batch([b"value"] * 10, timestamp_ms=STAMP + 1000 * number)
        assert client.produce(topic, records).error_code == ErrorCode.NONE


@each_version(ApiKey.LIST_OFFSETS, lowest=1)
def test_every_version(client: RawClient, topic: str, version: int) -> None:
    _fill(client, topic)
    latest = client.list_offset(topic, LATEST, version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (ErrorCode.NONE, 30, -1)
    earliest = client.list_offset(topic, EARLIEST, version)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (ErrorCode.NONE, 0, -1)
    for timestamp, offset, found in (
        (0, 0, STAMP),
        (STAMP, 0, STAMP),
        (STAMP + 1, 10, STAMP + 1000),
        (STAMP + 2000, 20, STAMP + 2000),
    ):
        by_time = client.list_offset(topic, timestamp, version)
        assert (by_time.error_code, by_time.offset, by_time.timestamp) == (ErrorCode.NONE, offset, found)
        if version >= 4:
            assert by_time.leader_epoch == 0
    later = client.list_offset(topic, STAMP + 2001, version)
    assert (later.error_code, later.offset, later.timestamp) == (ErrorCode.NONE, -1, -1)


def test_version_0_lists_offsets_of_segments(client: RawClient, topic: str) -> None:
    _fill(client, topic)
    assert client.list_offset(topic, LATEST, 0).old_style_offsets == [30]
    assert client.list_offset(topic, EARLIEST, 0).old_style_offsets == [0]


@each_version(ApiKey.LIST_OFFSETS, lowest=7)
def test_largest_timestamp(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    for offset, stamp in enumerate((STAMP, STAMP + 9000, STAMP + 10)):
        assert client.produce(topic, make_batch([b"value"], timestamp_ms=stamp)).base_offset == offset
    found = client.list_offset(topic, MAX_TIMESTAMP, version)
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, 1, STAMP + 9000)


@each_version(ApiKey.LIST_OFFSETS)
def test_unknown_topic_and_partition(client: RawClient, topic: str, version: int) -> None:
    for timestamp in (LATEST, EARLIEST, STAMP):
        unknown = client.list_offset(topic, timestamp, version)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    assert client.list_offset(topic, LATEST, version, partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST])
def test_empty_partition(client: RawClient, topic: str, timestamp: int) -> None:
    client.create_topic(topic)
    found = client.list_offset(topic, timestamp)
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


def test_by_timestamp_in_an_empty_partition(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    found = client.list_offset(topic, STAMP)
    assert (found.error_code, found.offset) == (ErrorCode.NONE, -1)


def test_by_timestamp_across_segments(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"segment.bytes": "16384", "index.interval.bytes": "100"})
    for number in range(60):
        records = make_batch([bytes(1000)], timestamp_ms=STAMP + 10 * number)
        assert client.produce(topic, records).base_offset == number
    for number in (0, 1, 17, 38, 59):
        assert client.list_offset(topic, STAMP + 10 * number).offset == number
        assert client.list_offset(topic, STAMP + 10 * number - 1).offset == number
