"""ListOffsets: special timestamps by version, who sees what, refusals, to the letter of Apache Kafka 3.9."""

from __future__ import annotations

import time

import pytest
from crc32c import crc32c

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, -6: 11}
STAMP = 1_700_000_000_000

Answer = tuple[int, int, int, int]
"""Error code, timestamp, offset, leader epoch."""


def ask(client: RawClient, topic: str, timestamp: int, version: int = 9, **fields: int) -> list[Answer]:
    """Ask for partition 0; `times` as often in the same request, other fields of request or partition."""
    times = fields.pop("times", 1)
    places = []
    for _ in range(times):
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        if "current_leader_epoch" in fields:
            place.current_leader_epoch = fields["current_leader_epoch"]
        places.append(place)
    replica_id, isolation = fields.get("replica_id", -1), fields.get("isolation_level", 0)
    request = ListOffsetsRequest(replica_id, isolation, [ListOffsetsRequest.ListOffsetsTopic(topic, places)])
    (answered,) = client.call(request, version, ListOffsetsResponse).topics
    return [(each.error_code, each.timestamp, each.offset, each.leader_epoch) for each in answered.partitions]


def fill(client: RawClient, topic: str, codec: Codec = Codec.NONE) -> None:
    """Four records in one batch, the second and the third with the largest timestamp."""
    client.create_topic(topic)
    builder = RecordBatchBuilder(codec)
    for late in (0, 50, 50, 20):
        builder.append(STAMP + late, b"key", b"value")
    assert client.produce(topic, builder.build()).error_code == ErrorCode.NONE


@each_version(ApiKey.LIST_OFFSETS)
@pytest.mark.parametrize("timestamp", range(-9, -2))
def test_special_timestamps_have_a_first_version(client: RawClient, topic: str, version: int, timestamp: int) -> None:
    """Before it, and for those that nobody knows, UNSUPPORTED_VERSION."""
    fill(client, topic)
    ((code, *_),) = ask(client, topic, timestamp, version)
    known = version >= FIRST_VERSION_OF.get(timestamp, 99)
    assert code == (ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION)


@each_version(ApiKey.LIST_OFFSETS, lowest=8)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_special_timestamps(client: RawClient, topic: str, version: int, codec: Codec) -> None:
    """The largest timestamp comes with the first record that has it, not with its batch."""
    fill(client, topic, codec)
    assert ask(client, topic, LATEST, version) == [(0, -1, 4, 0)]
    assert ask(client, topic, EARLIEST, version) == [(0, -1, 0, 0)]
    assert ask(client, topic, EARLIEST_LOCAL, version) == [(0, -1, 0, 0)]
    assert ask(client, topic, MAX_TIMESTAMP, version) == [(0, STAMP + 50, 1, 0)]
    if version >= 9:
        assert ask(client, topic, LATEST_TIERED, version) == [(0, -1, -1, -1)]
    assert ask(client, topic, STAMP + 1, version) == [(0, STAMP + 50, 1, 0)]
    assert ask(client, topic, STAMP + 51, version) == [(0, -1, -1, -1)]


def test_an_empty_partition(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    assert ask(client, topic, LATEST) == [(0, -1, 0, 0)]
    assert ask(client, topic, EARLIEST) == [(0, -1, 0, 0)]
    assert ask(client, topic, MAX_TIMESTAMP) == ask(client, topic, STAMP) == [(0, -1, -1, -1)]


def test_append_time(client: RawClient, topic: str) -> None:
    """The time the broker set is what is searched for."""
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    set_at = []
    for _ in range(2):
        batch = make_batch([b"value"] * 3, timestamp_ms=STAMP)
        set_at.append(client.produce(topic, batch).log_append_time_ms)
        time.sleep(0.002)
    assert ask(client, topic, STAMP) == ask(client, topic, set_at[0]) == [(0, set_at[0], 0, 0)]
    assert ask(client, topic, set_at[0] + 1) == ask(client, topic, MAX_TIMESTAMP) == [(0, set_at[1], 3, 0)]


def test_records_without_timestamps(client: RawClient, topic: str) -> None:
    """Clients of magic 0 set none: no time finds such a record, but as the largest timestamp they have none."""
    client.create_topic(topic)
    rows = [Record(number, -1, b"k", b"v") for number in range(3)]
    assert client.produce(topic, encode_message_set(0, rows), 1).error_code == ErrorCode.NONE
    assert ask(client, topic, 0) == [(0, -1, -1, -1)]
    assert ask(client, topic, MAX_TIMESTAMP) == [(0, -1, 0, 0)]


@each_version(ApiKey.LIST_OFFSETS)
def test_a_partition_named_twice(client: RawClient, topic: str, version: int) -> None:
    fill(client, topic)
    found = [code for code, *_ in ask(client, topic, LATEST, version, times=2)]
    assert found == [ErrorCode.INVALID_REQUEST if version else ErrorCode.NONE] * 2


@each_version(ApiKey.LIST_OFFSETS, lowest=4)
def test_leader_epochs(client: RawClient, topic: str, version: int) -> None:
    fill(client, topic)
    assert ask(client, topic, LATEST, version, current_leader_epoch=0) == [(0, -1, 4, 0)]
    for timestamp in (LATEST, EARLIEST, STAMP):
        found = ask(client, topic, timestamp, version, current_leader_epoch=1)
        assert found == [(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1, -1)]


@each_version(ApiKey.LIST_OFFSETS, lowest=2)
@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("replica_id", [-2, -1, 5])
def test_who_asks(client: RawClient, topic: str, version: int, isolation_level: int, replica_id: int) -> None:
    """With one replica and no transaction everybody sees the same."""
    fill(client, topic)
    fields = {"isolation_level": isolation_level, "replica_id": replica_id}
    assert ask(client, topic, LATEST, version, **fields)[0][:3] == (0, -1, 4)
    assert ask(client, topic, STAMP, version, **fields)[0][:3] == (0, STAMP, 0)


@each_version(ApiKey.LIST_OFFSETS, lowest=2)
def test_an_isolation_level_that_does_not_exist(client: RawClient, topic: str, version: int) -> None:
    fill(client, topic)
    assert ask(client, topic, LATEST, version, isolation_level=7)[0][0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(client, topic, LATEST, version, isolation_level=7, replica_id=5)[0][0] == ErrorCode.NONE


def test_old_style_offsets(client: RawClient, topic: str) -> None:
    """v0: as many boundaries of segments as are asked for, the newest first, and the end of the log."""
    client.create_topic(topic, configs={"segment.bytes": "16384"})
    for _ in range(6):
        client.produce_values(topic, bytes(10_000))

    def offsets(timestamp: int, most: int) -> list[int]:
        place = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=most)
        request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(topic, [place])])
        (partition,) = client.call(request, 0, ListOffsetsResponse).topics[0].partitions
        assert partition.error_code == (ErrorCode.NONE if most >= 0 else ErrorCode.UNKNOWN_SERVER_ERROR)
        return partition.old_style_offsets

    assert offsets(LATEST, -1) == offsets(EARLIEST, -5) == []
    assert offsets(LATEST, 100) == [6, 5, 4, 3, 2, 1, 0]
    assert offsets(LATEST, 2) == [6, 5]
    assert offsets(LATEST, 0) == []
    assert offsets(EARLIEST, 100) == [0]
    assert offsets(int(time.time() * 1000) + 60_000, 3) == [6, 5, 4]
    assert offsets(5, 100) == []


def undecodable_batch() -> bytes:
    """A batch whose header and checksum are right, and whose compressed records are not."""
    batch = bytearray(make_batch([b"value"], Codec.GZIP, STAMP))
    batch[70:] = b"\xff" * len(batch[70:])
    batch[17:21] = _crc(batch)
    return bytes(batch)


def test_a_batch_that_does_not_decompress_is_refused(client: RawClient, topic: str) -> None:
    """So that it keeps no consumer from what comes behind it. Kafka's error is an unexpected one."""
    fill(client, topic)
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if AGAINST_KAFKA else ErrorCode.INVALID_RECORD
    assert client.produce(topic, undecodable_batch()).error_code == expected
    assert ask(client, topic, LATEST) == [(0, -1, 4, 0)]
    assert ask(client, topic, STAMP) == [(0, STAMP, 0, 0)]


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka stores no such batch")
def test_a_stored_batch_that_does_not_decompress_spoils_only_its_own_answer(client: RawClient, topic: str) -> None:
    """As `record.validation=framing` lets it through."""
    client.create_topic(topic, configs={"record.validation": "framing"})
    assert client.produce(topic, undecodable_batch()).error_code == ErrorCode.NONE
    assert ask(client, topic, STAMP) == [(ErrorCode.CORRUPT_MESSAGE, -1, -1, -1)]
    assert ask(client, topic, LATEST) == [(0, -1, 1, 0)]


def _crc(batch: bytearray) -> bytes:
    return crc32c(batch[21:]).to_bytes(4, "big")
