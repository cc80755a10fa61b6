"""What Produce refuses and what it says then, to the letter of Apache Kafka 3.9."""

from __future__ import annotations

import struct
import time

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import RecordBatch, batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.records.v2.walk import Record
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, Server
from tests.support.stored_batches import changed

STAMP = 1_700_000_000_000
APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32
BATCH = make_batch([b"a", b"b", b"c"], timestamp_ms=STAMP)
NOW_MS = int(time.time() * 1000)


def messages(magic: int, count: int = 1, codec: Codec = Codec.NONE) -> bytes:
    return encode_message_set(magic, [Record(number, STAMP, b"k", b"v") for number in range(count)], codec)


def refuse(
    client: RawClient, topic: str, records: bytes, version: int = 9, acks: int = -1
) -> tuple[ErrorCode, int, int, int]:
    """Produce to a topic that must stay empty; code, base offset, append time, log start offset of the answer."""
    result = client.produce(topic, records, version, acks)
    assert client.end_offset(topic) == 0
    code = ErrorCode(result.error_code)
    return code, result.base_offset, result.log_append_time_ms, result.log_start_offset


@pytest.mark.parametrize(
    ("records", "code", "log_start_offset"),
    [
        (BATCH + BATCH, ErrorCode.INVALID_RECORD, -1),
        (BATCH + bytes(12), ErrorCode.CORRUPT_MESSAGE, -1),
        (BATCH + bytes(30), ErrorCode.CORRUPT_MESSAGE, -1),
        (BATCH + b"\x7f" * 30, ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, length=13), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, length=-1), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, length=40), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, magic=3), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, crc=1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE, -1),
        (changed(BATCH, base_offset=5), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, count=4), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, count=2, last_delta=1), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, count=4, last_delta=3), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, count=0, last_delta=-1), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, count=-1), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, last_delta=-5), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, attributes=CONTROL), ErrorCode.INVALID_RECORD, 0),
        (changed(BATCH, producer_id=9, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD, 0),
    ],
)  # fmt: skip
def test_what_is_no_batch_or_lies(
    client: RawClient, topic: str, records: bytes, code: ErrorCode, log_start_offset: int
) -> None:
    client.create_topic(topic)
    assert refuse(client, topic, records) == (code, -1, -1, log_start_offset)


def test_less_than_a_header_behind_the_batch_is_trimmed(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    assert client.produce(topic, BATCH + bytes(11)).error_code == ErrorCode.NONE
    assert record_bytes(client.fetch(topic, 0))[16:] == BATCH[16:]


@pytest.mark.parametrize(
    ("version", "records", "code"),
    [
        (1, BATCH + BATCH, ErrorCode.INVALID_RECORD),
        (1, messages(0) + messages(1), ErrorCode.INVALID_RECORD),
        (2, messages(1, 2, Codec.GZIP) * 2, ErrorCode.INVALID_RECORD),
        (2, messages(1) + messages(1, 2, Codec.GZIP), ErrorCode.INVALID_RECORD),
        (2, messages(1, 2, Codec.GZIP) + messages(1), ErrorCode.INVALID_RECORD),
        (2, messages(1)[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_refused_of_old_clients(
    client: RawClient, topic: str, version: int, records: bytes, code: ErrorCode
) -> None:
    client.create_topic(topic)
    assert refuse(client, topic, records, version)[0] == code


@pytest.mark.parametrize(("version", "records"), [(0, messages(1, 3)), (1, BATCH), (2, messages(0, 3))])
def test_old_versions_take_any_format(client: RawClient, topic: str, version: int, records: bytes) -> None:
    client.create_topic(topic)
    assert client.produce(topic, records, version).error_code == ErrorCode.NONE
    assert client.end_offset(topic) == 3


@each_version(ApiKey.PRODUCE, highest=2)
@pytest.mark.parametrize("records", [b"", messages(0)[:-1]], ids=["empty", "cut"])
def test_old_versions_may_bring_nothing(client: RawClient, topic: str, version: int, records: bytes) -> None:
    client.create_topic(topic)
    assert refuse(client, topic, records, version)[:2] == (ErrorCode.NONE, -1)


def test_the_order_of_refusals(client: RawClient, topic: str) -> None:
    """An unknown topic before the form of the batch, that before the acks."""
    unknown = f"{topic}-unknown"
    client.create_topic(topic)
    for records, acks in ((b"", -1), (b"", 2), (BATCH, 2)):
        assert client.produce(unknown, records, 9, acks).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result = client.produce(topic, records, 9, acks, partition=7)
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refuse(client, topic, b"", acks=2)[0] == ErrorCode.INVALID_RECORD
    assert refuse(client, topic, BATCH, acks=2) == (ErrorCode.INVALID_REQUIRED_ACKS, -1, -1, -1)


def test_a_partition_named_twice_counts_once(client: RawClient, topic: str) -> None:
    """The last of the batches is taken, whether the partition or the topic comes twice."""
    client.create_topic(topic)
    both = [ProduceRequest.PartitionProduceData(0, make_batch([b"x"] * count)) for count in (1, 2)]
    in_one = [ProduceRequest.TopicProduceData(name=topic, partition_data=both)]
    in_two = [ProduceRequest.TopicProduceData(name=topic, partition_data=[each]) for each in both]
    for base_offset, data in ((0, in_one), (2, in_two)):
        answer = client.call(ProduceRequest(None, -1, 10_000, data), 9, ProduceResponse)
        (answered,) = answer.responses
        (result,) = answered.partition_responses
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, base_offset)
    assert client.end_offset(topic) == 4


def test_a_request_without_partitions(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    for data in ([], [ProduceRequest.TopicProduceData(name=topic, partition_data=[])]):
        for acks in (-1, 1, 5):
            assert client.call(ProduceRequest(None, acks, 1000, data), 9, ProduceResponse).responses == []


def test_a_transactional_batch_needs_a_transactional_id(client: RawClient, topic: str) -> None:
    """The whole request is refused; with acks=0 by closing the connection."""
    client.create_topic(topic)
    batch = changed(BATCH, attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0, base_sequence=0)
    assert refuse(client, topic, batch)[0] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    client.send(client.produce_request(topic, batch, 9, acks=0), 9)
    assert client.is_closed_by_broker()


def test_transactional_batches_of_two_producers(client: RawClient, topic: str) -> None:
    client.create_topic(topic, 2)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[])
    for partition in range(2):
        batch = changed(BATCH, attributes=TRANSACTIONAL, producer_id=partition, producer_epoch=0, base_sequence=0)
        data.partition_data.append(ProduceRequest.PartitionProduceData(partition, batch))
    answer = client.call(ProduceRequest("transactional-id", -1, 1000, [data]), 9, ProduceResponse)
    codes = {result.error_code for result in answer.responses[0].partition_responses}
    assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_the_admin_clients(server: Server, client: RawClient, name: str) -> None:
    if client.metadata(name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        client.create_topic(name)
    result = client.produce(name, BATCH)
    assert (result.error_code, result.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    batch = RecordBatchBuilder()
    batch.append(STAMP, b"\0\x63", None)  # a key of a version nobody knows, and a tombstone
    request = client.produce_request(name, batch.build(), 9, -1)
    frame = encode_request_header(ApiKey.PRODUCE, 9, 99, "__admin_client")
    frame += b"".join(bytes(piece) for piece in request.encode(9))
    client.socket.sendall(struct.pack(">i", len(frame)) + frame)
    (answered,) = client.receive(ProduceResponse, 9, 99).responses
    assert answered.partition_responses[0].error_code == ErrorCode.NONE


def test_records_without_keys_are_named(client: RawClient, topic: str) -> None:
    """KIP-467: index and reason of every record refused; the first three in the message."""
    client.create_topic(topic, configs={"cleanup.policy": "compact"})
    for codec in (Codec.NONE, Codec.LZ4):
        builder = RecordBatchBuilder(codec)
        for key in (None, b"k", None, None, None):
            builder.append(STAMP, key, b"value")
        result = client.produce(topic, builder.build())
        why = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
        assert (result.error_code, result.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
        found = [(each.batch_index, each.batch_index_error_message) for each in result.record_errors]
        assert found == [(index, why) for index in (0, 2, 3, 4)]
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index in (0, 2, 3))
        assert result.error_message == (
            "One or more records have been rejected due to 4 record errors in total, and only showing the first three"
            f" errors at most: [{shown}]"
        )
    assert client.end_offset(topic) == 0


@each_version(ApiKey.PRODUCE, lowest=3)
def test_record_errors_come_from_version_8_on(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, configs={"cleanup.policy": "compact"})
    result = client.produce(topic, make_batch([b"v"]), version)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert len(result.record_errors) == (1 if version >= 8 else 0)


def test_a_timestamp_out_of_bounds_outweighs_a_missing_key(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"cleanup.policy": "compact", "message.timestamp.before.max.ms": "3600000"})
    builder = RecordBatchBuilder()
    for key, stamp in ((b"k", NOW_MS), (None, NOW_MS), (b"k", STAMP), (None, STAMP), (b"k", -1)):
        builder.append(stamp, key, b"value")
    result = client.produce(topic, builder.build())
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in result.record_errors] == [1, 2, 3]
    assert result.error_message == "One or more records have been rejected due to invalid timestamp"
    text = result.record_errors[1].batch_index_error_message or ""
    assert text.startswith(
        f"Timestamp {STAMP} of message with offset 2 is out of range. The timestamp should be within"
    )


@pytest.mark.parametrize("setting", ["before", "after", "difference"])
def test_how_far_timestamps_may_be_off(client: RawClient, topic: str, setting: str) -> None:
    client.create_topic(topic, configs={f"message.timestamp.{setting}.max.ms": "3600000"})
    old, new = NOW_MS - 7_200_000, NOW_MS + 7_200_000
    refused = {"before": {old}, "after": {new}, "difference": {old, new}}[setting]
    for stamp in (old, NOW_MS, new, -1):
        result = client.produce(topic, make_batch([b"v"], timestamp_ms=stamp))
        expected = ErrorCode.INVALID_TIMESTAMP if stamp in refused else ErrorCode.NONE
        assert result.error_code == expected, stamp


def test_append_time_is_the_brokers_to_set(client: RawClient, topic: str) -> None:
    """Refused where the broker sets it, or where it is none; else the topic's create time is what was set."""
    why = (
        f"Invalid timestamp type in message DefaultRecord(offset=1, timestamp={STAMP}, key=0 bytes, value=1 bytes)."
        " Producer should not set timestamp type to LogAppendTime."
    )
    client.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    result = client.produce(topic, changed(BATCH, attributes=APPEND_TIME))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in result.record_errors] == [0, 1, 2]
    assert result.record_errors[1].batch_index_error_message == why
    assert client.end_offset(topic) == 0
    other = f"{topic}-create-time"
    client.create_topic(other)
    result = client.produce(other, changed(BATCH, attributes=APPEND_TIME, max_timestamp=-1))
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    result = client.produce(other, changed(BATCH, attributes=APPEND_TIME, max_timestamp=STAMP + 5))
    assert result.error_code == ErrorCode.NONE
    (stored,) = batches(record_bytes(client.fetch(other, 0)))
    assert (stored.attributes & APPEND_TIME, stored.max_timestamp) == (0, STAMP + 5)
    assert stored.is_valid_crc()


def test_sizes_before_and_after_recompression(client: RawClient, topic: str) -> None:
    packed = make_batch([b"v" * 100] * 50, Codec.ZSTD)
    client.create_topic(topic, configs={"max.message.bytes": "1000", "compression.type": "uncompressed"})
    assert len(packed) < 1000
    assert refuse(client, topic, packed) == (ErrorCode.MESSAGE_TOO_LARGE, -1, -1, -1)
    other = f"{topic}-gzip"
    client.create_topic(other, configs={"max.message.bytes": "1000", "compression.type": "gzip"})
    plain = make_batch([b"v" * 100] * 50)
    assert refuse(client, other, plain)[0] == ErrorCode.MESSAGE_TOO_LARGE, "the size as it was produced counts too"


def test_larger_than_a_segment(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"segment.bytes": "1024"})
    assert refuse(client, topic, make_batch([bytes(2000)])) == (ErrorCode.RECORD_LIST_TOO_LARGE, -1, -1, -1)


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("append_time", [False, True])
def test_recompression(client: RawClient, topic: str, target: str, append_time: bool) -> None:
    """Another codec than the topic's is changed to it; everything else stays, but for the append time."""
    configs = {"compression.type": target}
    if append_time:
        configs["message.timestamp.type"] = "LogAppendTime"
    client.create_topic(topic, configs=configs)
    expected = []
    for codec in Codec:
        builder = RecordBatchBuilder(codec, producer_id=int(codec), producer_epoch=0, base_sequence=0)
        for number in range(3):
            builder.append(STAMP + number, b"key", b"value" * 20, [("name", b"x"), ("null", None)])
        result = client.produce(topic, builder.build())
        assert result.error_code == ErrorCode.NONE
        for record in RecordBatch(builder.build()).records():
            offset = result.base_offset + record.offset
            timestamp = result.log_append_time_ms if append_time else record.timestamp
            expected.append(record._replace(offset=offset, timestamp=timestamp))
    found = list(batches(record_bytes(client.fetch(topic, 0))))
    assert {batch.codec for batch in found} == {Codec[{"uncompressed": "NONE"}.get(target, target.upper())]}
    assert all(batch.is_valid_crc() for batch in found)
    assert [batch.producer_id for batch in found] == [int(codec) for codec in Codec]
    assert [record for batch in found for record in batch.records()] == expected


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "-5", "10")])
def test_compression_levels(client: RawClient, topic: str, codec: str, low: str, high: str) -> None:
    values = [b"%d text that repeats %d\n" % (number % 89, number * number % 1013) for number in range(5000)]
    sizes = []
    for level in (low, high):
        name = f"{topic}-{level.replace('-', 'minus')}"
        client.create_topic(name, configs={"compression.type": codec, f"compression.{codec}.level": level})
        assert client.produce(name, make_batch(values)).error_code == ErrorCode.NONE
        sizes.append(len(record_bytes(client.fetch(name, 0))))
    assert sizes[1] < 0.98 * sizes[0]


@pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka 3.9 answers UNKNOWN_SERVER_ERROR where records do not decompress"
)
def test_compressed_records_are_read(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        assert refuse(client, topic, changed(BATCH, attributes=int(codec)))[0] == ErrorCode.INVALID_RECORD
    gap = RecordBatchBuilder(Codec.GZIP)
    gap.append(STAMP, b"a", b"1")
    gap.append(STAMP, b"b", b"2", offset=2)
    assert refuse(client, topic, changed(gap.build(), last_delta=1))[0] == ErrorCode.INVALID_RECORD
