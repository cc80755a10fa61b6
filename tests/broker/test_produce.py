"""Produce v0-13: all versions with the record formats that belong to them, acks, limits, refusals."""

from __future__ import annotations

import time
import uuid

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import batches
from barnabas.records.v2.walk import Record
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, Server
from tests.support.stored_batches import stored_batches

VALUES = [b"first", b"second", b"third"]
STAMP = 1_700_000_000_000


def _magic_of(version: int) -> int:
    """Clients of Produce v0-1 write magic 0, of v2 magic 1, newer ones magic 2."""
    return 0 if version < 2 else 1 if version == 2 else 2


def _records(magic: int, codec: Codec = Codec.NONE) -> bytes:
    if magic == 2:
        return make_batch(VALUES, codec, STAMP)
    records = [Record(offset, STAMP, b"key", value, ()) for offset, value in enumerate(VALUES)]
    return encode_message_set(magic, records, codec)


def _read_back(client: RawClient, topic: str) -> list[tuple[int, bytes | None]]:
    fetched = client.fetch(topic, 0)
    assert fetched.error_code == ErrorCode.NONE
    return [(record.offset, record.value) for batch in batches(record_bytes(fetched)) for record in batch.records()]


@each_version(ApiKey.PRODUCE)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version(server: Server, client: RawClient, topic: str, version: int, acks: int) -> None:
    client.create_topic(topic)
    for base in (0, len(VALUES)):
        result = client.produce(topic, _records(_magic_of(version)), version, acks)
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, base)
        assert result.log_append_time_ms == -1
        assert result.log_start_offset == (0 if version >= 5 else -1)
        assert result.record_errors == []
        assert result.error_message is None
    assert _read_back(client, topic) == list(enumerate(VALUES * 2))
    assert all(batch.leader_epoch == 0 for batch in stored_batches(server.data_dir, topic, 0))


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(magic, codec) for magic in (0, 1, 2) for codec in Codec if magic == 2 or codec < Codec.ZSTD],  # zstd came with 2
    ids=lambda value: value.name.lower() if isinstance(value, Codec) else f"magic{value}",
)
def test_every_codec_in_every_format(server: Server, client: RawClient, topic: str, magic: int, codec: Codec) -> None:
    client.create_topic(topic)
    version = {0: 1, 1: 2, 2: 9}[magic]
    assert client.produce(topic, _records(magic, codec), version).error_code == ErrorCode.NONE
    assert _read_back(client, topic) == list(enumerate(VALUES))
    assert {batch.codec for batch in stored_batches(server.data_dir, topic, 0)} == {codec.name.lower()}


@each_version(ApiKey.PRODUCE)
def test_no_acknowledgement(client: RawClient, topic: str, version: int) -> None:
    """acks=0 is answered by nothing; what follows on the connection comes after it."""
    client.create_topic(topic)
    client.send(client.produce_request(topic, _records(_magic_of(version)), version, acks=0), version)
    assert client.end_offset(topic) == len(VALUES)


def test_error_without_acknowledgement_closes_the_connection(client: RawClient, topic: str) -> None:
    client.send(client.produce_request(topic, make_batch(VALUES), 9, acks=0), 9)
    assert client.is_closed_by_broker()


@each_version(ApiKey.PRODUCE, highest=12)
def test_unknown_topic_and_partition(client: RawClient, topic: str, version: int) -> None:
    records = _records(_magic_of(version))
    assert client.produce(topic, records, version).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    for partition in (1, -1, 2**31 - 1):
        result = client.produce(topic, records, version, partition=partition)
        assert (result.error_code, result.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@each_version(ApiKey.PRODUCE, lowest=13)
def test_unknown_topic_id(client: RawClient, version: int) -> None:
    partition = ProduceRequest.PartitionProduceData(0, make_batch(VALUES))
    data = ProduceRequest.TopicProduceData(topic_id=uuid.uuid4().bytes, partition_data=[partition])
    answer = client.call(ProduceRequest(None, -1, 1000, [data]), version, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_invalid_acks(client: RawClient, topic: str, acks: int) -> None:
    client.create_topic(topic)
    assert client.produce(topic, make_batch(VALUES), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.end_offset(topic) == 0


def test_several_topics_and_partitions_at_once(client: RawClient, topic: str) -> None:
    """One that fails leaves the others alone."""
    other = f"{topic}-other"
    client.create_topic(topic, 3)
    client.create_topic(other)
    request = ProduceRequest(None, -1, 10_000, [])
    for name, partitions in ((topic, (0, 1, 7, 2)), (other, (0,))):
        data = [ProduceRequest.PartitionProduceData(partition, make_batch(VALUES)) for partition in partitions]
        request.topic_data.append(ProduceRequest.TopicProduceData(name=name, partition_data=data))
    answer = client.call(request, 9, ProduceResponse)
    codes = {
        (answered.name, partition.index): partition.error_code
        for answered in answer.responses
        for partition in answered.partition_responses
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {(topic, 0): 0, (topic, 1): 0, (topic, 2): 0, (topic, 7): unknown, (other, 0): 0}
    assert client.end_offset(topic, 2) == len(VALUES)


NULL = pytest.param(None, marks=pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka 3.9 never answers that"))


@pytest.mark.parametrize("records", [NULL, b""], ids=["null", "empty"])
def test_no_records(client: RawClient, topic: str, records: bytes | None) -> None:
    """Kafka refuses what holds no batch: a client that sends it is broken."""
    client.create_topic(topic)
    assert client.produce(topic, records).error_code == ErrorCode.INVALID_RECORD
    assert client.end_offset(topic) == 0


def test_too_many_batches(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    assert client.produce(topic, make_batch(VALUES) * 2).error_code == ErrorCode.INVALID_RECORD
    assert client.end_offset(topic) == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_old_format_in_a_new_version(client: RawClient, topic: str, magic: int) -> None:
    client.create_topic(topic)
    assert client.produce(topic, _records(magic), 9).error_code == ErrorCode.INVALID_RECORD
    assert client.end_offset(topic) == 0


def test_zstd_before_its_version(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    result = client.produce(topic, make_batch(VALUES, Codec.ZSTD), 6)
    assert result.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_larger_than_the_topic_allows(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"max.message.bytes": "1000"})
    assert client.produce(topic, make_batch([bytes(1000)])).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce_values(topic, bytes(500)) == 0


def test_append_time(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    result = client.produce(topic, make_batch(VALUES, timestamp_ms=STAMP))
    assert before <= result.log_append_time_ms <= int(time.time() * 1000)
    (batch,) = batches(record_bytes(client.fetch(topic, 0)))
    assert {record.timestamp for record in batch.records()} == {result.log_append_time_ms}
    assert batch.is_valid_crc()


def test_large_batches(client: RawClient, topic: str) -> None:
    """Frames above 64 KiB are received into recycled buffers: what one holds must not leak into the next."""
    client.create_topic(topic)
    values = [bytes([number]) * (900_000 - 50_000 * number) for number in range(10)]
    for offset, value in enumerate(values):
        assert client.produce_values(topic, value) == offset
    for offset, value in enumerate(values):
        (batch, *_) = batches(record_bytes(client.fetch(topic, offset)))
        assert [record.value for record in batch.records()] == [value]


def test_idempotent_fields_are_kept(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    records = make_batch(VALUES, producer_id=4711, producer_epoch=3, base_sequence=0)
    assert client.produce(topic, records).error_code == ErrorCode.NONE
    (batch,) = stored_batches(server.data_dir, topic, 0)
    assert (batch.producer_id, batch.base_sequence) == (4711, 0)
