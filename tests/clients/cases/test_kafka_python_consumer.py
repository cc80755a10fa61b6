"""kafka-python's cases of its consumer and of groups, in the calls of ours.

From test/integration/test_consumer_integration.py and test_consumer_group.py. Each test has the name of its case.
Without a counterpart:

| case | why |
|---|---|
| test_kafka_version_infer, test_kafka_consumer_offsets_for_time_old | no `api_version` and no brokers before 0.10.1 |
| test_kafka_consumer_unsupported_encoding | every codec belongs to the package |
| test_consumer (brokers are known after `bootstrap`) | no such call: the first call that needs brokers finds them |
| the iterator's `StopIteration` in test_kafka_consumer__blocking | `poll` returns an empty list instead |
| the threads of test_group's heartbeats | inner parts; the session that outlives silence is in test_heartbeat_thread |
"""

from __future__ import annotations

import threading
import time

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.consumer import ClientTimeout, Consumer, OffsetAndTimestamp, TopicPartition
from barnabas.clients.producer import Producer
from tests.clients.cases.conftest import PARTITIONS
from tests.clients.cases.records import PATIENCE_SECONDS, read, send_numbers


def test_consumer_topics(broker: str, admin: Admin, topic: str, name: str) -> None:
    with Consumer(broker, allow_auto_create_topics=False) as consumer:
        assert topic in admin.list_topics()
        assert [each.partition for each in consumer.partitions_for(topic)] == list(range(PARTITIONS))
        before = time.monotonic()
        assert consumer.partitions_for(f"not-{name}") == ()
        assert time.monotonic() - before < PATIENCE_SECONDS, "a topic that does not exist is no reason to wait"


def test_paused(broker: str, topic: str, name: str) -> None:
    place = TopicPartition(topic, 1)
    with Consumer(broker, group_id=name) as consumer:
        consumer.assign([place])
        assert (consumer.assignment(), consumer.paused()) == ({place}, set())
        consumer.pause([place])
        assert consumer.paused() == {place}
        consumer.resume([place])
        assert consumer.paused() == set()
        consumer.pause([place])
        consumer.unsubscribe()
        assert consumer.paused() == set()


def test_kafka_consumer(broker: str, topic: str, name: str) -> None:
    for partition in (0, 1):
        send_numbers(broker, topic, range(100), partition)
    with Consumer(broker, group_id=name, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 200)
    for partition in (0, 1):
        values = [record.value for record in records if record.partition == partition]
        assert values == [b"%d" % number for number in range(100)]


WAITED_SECONDS = 0.499
"""The least time of a poll of 500 ms: its end is reckoned in whole milliseconds."""


def test_kafka_consumer__blocking(broker: str, topic: str) -> None:
    with Consumer(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.position(TopicPartition(topic, 0))
        before = time.monotonic()
        assert consumer.poll(500) == []
        assert time.monotonic() - before >= WAITED_SECONDS
        send_numbers(broker, topic, range(10))
        assert len(read(consumer, 5, 1)) == 5
        assert len(read(consumer, 5, 1)) == 5
        before = time.monotonic()
        assert consumer.poll(500) == []
        assert time.monotonic() - before >= WAITED_SECONDS


def test_kafka_consumer__offset_commit_resume(broker: str, topic: str, name: str) -> None:
    send_numbers(broker, topic, range(100), 0)
    send_numbers(broker, topic, range(100, 200), 1)
    settings = {"group_id": name, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 100}
    found = []
    for count in (180, 20):
        with Consumer(broker, **settings) as consumer:  # type: ignore[arg-type]
            consumer.subscribe([topic])
            found += read(consumer, count, 1)
    assert {record.value for record in found} == {b"%d" % number for number in range(200)}
    assert len(found) == 200


def test_kafka_consumer_max_bytes_simple(broker: str, topic: str) -> None:
    places = {TopicPartition(topic, partition) for partition in (0, 1)}
    for place in places:
        send_numbers(broker, topic, range(100, 200), place.partition)
    with Consumer(broker, auto_offset_reset="earliest", fetch_max_bytes=300) as consumer:
        consumer.assign(places)
        assert {TopicPartition(record.topic, record.partition) for record in read(consumer, 200)} == places


def test_kafka_consumer_max_bytes_one_msg(broker: str, topic: str, name: str) -> None:
    send_numbers(broker, topic, range(100, 200))
    with Consumer(broker, group_id=name, auto_offset_reset="earliest", fetch_max_bytes=1) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 10, 1)] == list(range(10))


def test_kafka_consumer_offsets_for_time(broker: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    late_ms = time.time_ns() // 1_000_000_000 * 1_000
    middle_ms, early_ms = late_ms - 1_000, late_ms - 2_000
    with Producer(broker) as producer:
        early = producer.send(topic, b"first", partition=0, timestamp_ms=early_ms).result(30).offset
        late = producer.send(topic, b"last", partition=0, timestamp_ms=late_ms).result(30).offset
    with Consumer(broker) as consumer:
        for wanted_ms, offset, found_ms in (
            (early_ms, early, early_ms),
            (middle_ms, late, late_ms),
            (late_ms, late, late_ms),
            (0, early, early_ms),
        ):
            (found,) = consumer.offsets_for_times({place: wanted_ms}).values()
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (offset, found_ms)
        assert consumer.offsets_for_times({}) == {}
        assert consumer.offsets_for_times({place: 9_999_999_999_999}) == {place: None}
        assert consumer.beginning_offsets([place]) == {place: early}
        assert consumer.end_offsets([place]) == {place: late + 1}


def test_kafka_consumer_offsets_search_many_partitions(broker: str, topic: str) -> None:
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    sent_ms = time.time_ns() // 1_000_000
    with Producer(broker) as producer:
        for place in places:
            producer.send(topic, b"XXX", partition=place.partition, timestamp_ms=sent_ms).result(30)
    with Consumer(broker) as consumer:
        expected = dict.fromkeys(places, OffsetAndTimestamp(0, sent_ms, 0))
        assert consumer.offsets_for_times(dict.fromkeys(places, sent_ms)) == expected
        assert consumer.beginning_offsets(places) == dict.fromkeys(places, 0)
        assert consumer.end_offsets(places) == dict.fromkeys(places, 1)


def test_kafka_consumer_offsets_for_times_errors(broker: str, topic: str) -> None:
    with Consumer(broker, default_api_timeout_ms=300) as consumer:
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({TopicPartition(topic, 0): -1})
        with pytest.raises(ClientTimeout):
            consumer.offsets_for_times({TopicPartition(topic, 100): 0})


def test_kafka_consumer_position_after_seek_to_end(broker: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send_numbers(broker, topic, range(10))
    with Consumer(broker) as consumer:
        consumer.assign([place])
        consumer.seek_to_end([place])
        assert consumer.position(place, timeout_ms=10_000) == 10


def test_group(broker: str, admin: Admin, topic: str, name: str) -> None:
    places = {TopicPartition(topic, partition) for partition in range(PARTITIONS)}
    shares: dict[int, set[TopicPartition]] = {number: set() for number in range(4)}
    stop = threading.Event()

    def member(number: int) -> None:
        with Consumer(broker, group_id=name, client_id=f"member-{number}", heartbeat_interval_ms=200) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                consumer.poll(50)
                shares[number] = consumer.assignment()

    threads = [threading.Thread(target=member, args=(number,)) for number in shares]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while [len(share) for share in shares.values()] != [1] * 4 or set().union(*shares.values()) != places:
            assert time.monotonic() < deadline, f"the shares stayed {shares}"
            time.sleep(0.02)
        description = admin.describe_groups([name])[name]
        assert {member.client_id for member in description.members} == {f"member-{number}" for number in shares}
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def test_heartbeat_thread(broker: str, admin: Admin, topic: str, name: str) -> None:
    settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
    with Consumer(broker, group_id=name, **settings) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(consumer.assignment()) != PARTITIONS:
            assert time.monotonic() < deadline, "the member got no partitions"
            consumer.poll(50)
        generation = consumer.group_metadata().generation_id
        # Longer than the session: only heartbeats keep a member that does not poll in its group.
        time.sleep(6.5)
        assert [len(member.assignment) for member in admin.describe_groups([name])[name].members] == [PARTITIONS]
        consumer.poll(50)
        assert consumer.group_metadata().generation_id == generation
