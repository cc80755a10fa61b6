"""The producer: acknowledgements, idempotence, partitions, what a record carries, sizes, flush, close, errors."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import Future
from typing import Literal

import confluent_kafka
import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.consumer import Consumer, ConsumerRecord, RawFetcher, TopicPartition
from barnabas.clients.producer import (
    ClientClosed,
    ClientTimeout,
    Producer,
    RecordMetadata,
    SerializationFailed,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.memory_records import any_batches
from tests.clients.each_broker.conftest import create_topic
from tests.clients.each_broker.each_broker import AUTO_CREATED_PARTITIONS, EachBroker, eventually, poll_records


def read_all(broker: EachBroker, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord]:
    """The first records of a topic."""
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        return poll_records(consumer, count)


def code_of(future: Future[RecordMetadata]) -> ErrorCode:
    error = future.exception(30)
    assert isinstance(error, ApiError), error
    return error.code


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acknowledgements(broker: EachBroker, one_partition: str, admin: Admin, acks: int | Literal["all"]) -> None:
    with Producer(broker.bootstrap_servers, acks=acks) as producer:
        offsets = [producer.send(one_partition, b"%d" % number).result(30).offset for number in range(10)]
    assert offsets == ([-1] * 10 if acks == 0 else list(range(10)))
    place = TopicPartition(one_partition, 0)
    eventually(lambda: admin.list_offsets({place: -1})[place].offset, lambda end: end == 10)


def test_each_producer_numbers_its_records(broker: EachBroker, one_partition: str, admin: Admin) -> None:
    place = TopicPartition(one_partition, 0)
    for count in (4, 7):
        with Producer(broker.bootstrap_servers) as producer:
            for _ in range(count):
                producer.send(one_partition, b"v").result(30)
    with Producer(broker.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send(one_partition, b"v").result(30)
    states = admin.describe_producers([place])[place]
    assert sorted((state.producer_epoch, state.last_sequence) for state in states) == [(0, 3), (0, 6)]
    assert len({state.producer_id for state in states}) == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_stored_in_its_codec(broker: EachBroker, one_partition: str, codec: str) -> None:
    values = [b"%d" % number * 20 for number in range(200)]
    with Producer(broker.bootstrap_servers, compression_type=codec, linger_ms=1_000) as producer:
        futures = [producer.send(one_partition, value) for value in values]
        producer.flush()
    assert [future.result(0).offset for future in futures] == list(range(200))
    with RawFetcher(broker.bootstrap_servers) as fetcher:
        fetched = fetcher.fetch(one_partition, 0, 0)
        assert {batch.codec.name.lower() for batch in any_batches(fetched.records)} == {codec}
        fetched.release()
    assert [record.value for record in read_all(broker, one_partition, 200)] == values


def test_what_a_record_carries(broker: EachBroker, one_partition: str) -> None:
    headers = (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("null", None), ("ключ", b"\xff\x00"))
    with Producer(broker.bootstrap_servers) as producer:
        first = producer.send(one_partition, b"value", b"key", headers, timestamp_ms=1_600_000_000_000)
        second = producer.send(one_partition, None, b"key")
        third = producer.send(one_partition, b"", b"")
        metadata = first.result(30)
        assert metadata == RecordMetadata(one_partition, 0, 0, 1_600_000_000_000, 3, 5)
        assert (second.result(30).key_size, second.result(30).value_size) == (3, -1)
        assert (third.result(30).key_size, third.result(30).value_size) == (0, 0)
    one, two, three = read_all(broker, one_partition, 3)
    assert (one.key, one.value, one.timestamp_ms, one.timestamp_type) == (b"key", b"value", 1_600_000_000_000, 0)
    assert tuple((key, value) for key, value in one.headers) == headers
    assert (two.key, two.value, two.headers) == (b"key", None, ())
    assert (three.key, three.value) == (b"", b"")


def test_the_broker_may_give_the_time(broker: EachBroker, admin: Admin, name: str) -> None:
    topic = create_topic(admin, name, 1, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    with Producer(broker.bootstrap_servers) as producer:
        metadata = producer.send(topic, b"v", timestamp_ms=1_000).result(30)
    (record,) = read_all(broker, topic, 1)
    assert before_ms <= metadata.timestamp_ms <= time.time_ns() // 1_000_000
    assert (record.timestamp_ms, record.timestamp_type) == (metadata.timestamp_ms, 1)


def test_keys_go_where_other_clients_send_them(broker: EachBroker, topic: str) -> None:
    keys = [b"%d" % number for number in range(60)] + [b"", "schlüssel".encode()]
    theirs: dict[bytes, int] = {}

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        key, partition = message.key(), message.partition()
        assert error is None
        assert isinstance(key, bytes)
        assert partition is not None
        theirs[key] = partition

    confluent = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    # librdkafka takes an empty key for no key.
    for key in filter(None, keys):
        confluent.produce(topic, b"v", key, on_delivery=delivered)
    assert confluent.flush(30) == 0
    with Producer(broker.bootstrap_servers) as producer:
        ours = {key: producer.send(topic, b"v", key).result(30).partition for key in keys}
        assert producer.send(topic, b"v", b"").result(30).partition == ours.pop(b"")
    assert ours == theirs
    assert set(ours.values()) == {0, 1, 2}


def test_records_without_a_key(broker: EachBroker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, linger_ms=500) as producer:
        futures = [producer.send(topic, b"v") for _ in range(50)]
        producer.flush()
        assert len({future.result(0).partition for future in futures}) == 1, "one batch, thus one partition"
    with Producer(broker.bootstrap_servers, partitioner_class="round_robin") as producer:
        taken = [producer.send(topic, b"v").result(30).partition for _ in range(9)]
        assert sorted(taken) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    with Producer(broker.bootstrap_servers, partitioner_class=lambda topic, key, value, cluster: 1) as producer:
        assert producer.send(topic, b"v", b"k").result(30).partition == 1
        assert producer.send(topic, b"v", b"k", partition=2).result(30).partition == 2


def test_sizes(broker: EachBroker, admin: Admin, name: str) -> None:
    topic = create_topic(admin, name, 1, max_message_bytes="100000")
    with Producer(broker.bootstrap_servers, max_request_size=300_000) as producer:
        first = producer.send(topic, bytes(99_000))
        refused_by_the_broker = producer.send(topic, bytes(200_000))
        refused_at_home = producer.send(topic, bytes(300_000))
        last = producer.send(topic, b"last")
        producer.flush()
        assert code_of(refused_by_the_broker) is ErrorCode.MESSAGE_TOO_LARGE
        assert code_of(refused_at_home) is ErrorCode.MESSAGE_TOO_LARGE
        assert (first.result(0).offset, last.result(0).offset) == (0, 1)
    with Producer(broker.bootstrap_servers, batch_size=400_000, max_request_size=400_000, linger_ms=300) as producer:
        futures = [producer.send(topic, bytes(30_000)) for _ in range(10)]
        producer.flush()
        assert [future.result(0).offset for future in futures] == list(range(2, 12)), "the batch was split"


def test_flush_waits_and_close_sends(broker: EachBroker, topic: str) -> None:
    producer = Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    first = [producer.send(topic, b"v", partition=number % 3) for number in range(30)]
    assert not any(future.done() for future in first)
    producer.flush()
    assert all(future.done() for future in first)
    second = producer.send(topic, b"v", partition=0)
    producer.close()
    assert (first[0].result(0).offset, second.result(0).offset) == (0, 10)
    with pytest.raises(ClientClosed):
        producer.send(topic, b"v")


def test_close_without_time_fails_what_waits(broker: EachBroker, one_partition: str, admin: Admin) -> None:
    place = TopicPartition(one_partition, 0)
    producer = Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    producer.send(one_partition, b"v")
    producer.flush()
    waiting = producer.send(one_partition, b"v")
    producer.close(timeout_ms=0)
    outcome = waiting.exception(0)
    stored = admin.list_offsets({place: -1})[place].offset - 1
    # The batch may have left in the moment of the close; it must not be both stored and lost without a word.
    assert (outcome is None) <= (stored == 1)
    assert outcome is None or isinstance(outcome, ClientClosed)


def test_callbacks_come_in_order_on_the_producers_thread(broker: EachBroker, one_partition: str) -> None:
    heard: list[tuple[int, str]] = []

    def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
        assert error is None
        assert metadata is not None
        heard.append((metadata.offset, threading.current_thread().name))

    with Producer(broker.bootstrap_servers, client_id="mine") as producer:
        for _ in range(100):
            producer.send(one_partition, b"v", on_delivery=delivered)
    assert heard == [(offset, "kafka-producer-network-thread | mine") for offset in range(100)]


def test_errors_of_names_and_numbers(broker: EachBroker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, max_block_ms=500, key_serializer="str") as producer:
        assert code_of(producer.send("no such name", b"v")) is ErrorCode.INVALID_TOPIC_EXCEPTION
        outcome = producer.send(topic, b"v", partition=3).exception(30)
        assert isinstance(outcome, ClientTimeout)
        assert "Partition 3" in str(outcome)
        with pytest.raises(ValueError, match="non-negative"):
            producer.send(topic, b"v", partition=-1)
        with pytest.raises(SerializationFailed, match=topic):
            producer.send(topic, b"v", key=b"not text")
        assert producer.send(topic, b"v", partition=2).result(30).offset == 0


def test_a_topic_is_created_when_it_is_first_sent_to(broker: EachBroker, name: str) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        assert producer.send(name, b"v", partition=1).result(30).offset == 0
        assert len(producer.partitions_for(name)) == AUTO_CREATED_PARTITIONS


@pytest.mark.parametrize(
    ("configs", "key", "timestamp_ms", "reason"),
    [
        ({"cleanup_policy": "compact"}, None, None, "[Cc]ompacted topic"),
        ({"message_timestamp_after_max_ms": "1000"}, b"k", 4_000_000_000_000, "4000000000000"),
        ({"message_timestamp_before_max_ms": "1000"}, b"k", 1_000, "1000"),
    ],
    ids=["no key", "tomorrow", "yesterday"],
)
def test_records_that_the_topic_rejects(
    broker: EachBroker,
    admin: Admin,
    name: str,
    configs: dict[str, str],
    key: bytes | None,
    timestamp_ms: int | None,
    reason: str,
) -> None:
    topic = create_topic(admin, name, 1, **configs)
    with Producer(broker.bootstrap_servers) as producer:
        assert producer.send(topic, b"v", b"k").result(30).offset == 0
        rejected = producer.send(topic, b"v", key, timestamp_ms=timestamp_ms)
        # As in Kafka's client, a record that the broker blames is an invalid record, whatever the batch's error was.
        assert code_of(rejected) is ErrorCode.INVALID_RECORD
        assert re.search(reason, str(rejected.exception(0)))
        # The rejected record has taken a sequence number, and the next one must not be lost for it.
        assert producer.send(topic, b"v", b"k").result(30).offset == 1


def test_a_topic_never_needs_more_replicas_in_sync_than_it_has(broker: EachBroker, admin: Admin, name: str) -> None:
    topic = create_topic(admin, name, 1, min_insync_replicas="2")
    with Producer(broker.bootstrap_servers, retries=0) as producer:
        assert producer.send(topic, b"v").result(30).offset == 0


def test_a_topic_that_is_made_anew(broker: EachBroker, admin: Admin, one_partition: str) -> None:
    with Producer(broker.bootstrap_servers, metadata_max_age_ms=500) as producer:
        for offset in range(3):
            assert producer.send(one_partition, b"old").result(30).offset == offset
        admin.delete_topics([one_partition])
        eventually(lambda: one_partition in admin.list_topics(), lambda found: not found)
        create_topic(admin, one_partition, 1)
        assert [producer.send(one_partition, b"new").result(60).offset for _ in range(3)] == [0, 1, 2]


def test_many_threads_send(broker: EachBroker, topic: str) -> None:
    futures: list[Future[RecordMetadata]] = []
    with Producer(broker.bootstrap_servers, batch_size=2_000, compression_type="lz4") as producer:

        def send(number: int) -> None:
            key = b"%d" % number
            futures.extend(producer.send(topic, b"%d-%d" % (number, each), key) for each in range(250))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(future.exception(0) is None for future in futures)
    records = read_all(broker, topic, 1_000, partitions=3)
    for number in range(4):
        mine = [record.value for record in records if record.key == b"%d" % number]
        assert mine == [b"%d-%d" % (number, each) for each in range(250)]
