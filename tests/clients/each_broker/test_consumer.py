"""The consumer without a group: positions, times, limits, pauses, transactions, errors, tables."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import confluent_kafka
import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.consumer import (
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    OffsetAndMetadata,
    RecordDeserializationError,
    TopicPartition,
    WokenUp,
    fetch_table,
)
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.each_broker.each_broker import PATIENCE_SECONDS, EachBroker, poll_records

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

FIRST_MS = 1_600_000_000_000


def fill(broker: EachBroker, topic: str, count: int, partition: int = 0) -> TopicPartition:
    """Send so many records, one second apart, and return their partition."""
    with Producer(broker.bootstrap_servers) as producer:
        times_ms = [FIRST_MS + number * 1_000 for number in range(count)]
        sent = [producer.send(topic, b"%d" % n, partition=partition, timestamp_ms=ms) for n, ms in enumerate(times_ms)]
        for each in sent:
            each.result(PATIENCE_SECONDS)
    return TopicPartition(topic, partition)


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_positions(broker: EachBroker, one_partition: str) -> None:
    place = fill(broker, one_partition, 10)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        assert consumer.position(place) == 0
        assert offsets(poll_records(consumer, 10)) == list(range(10))
        assert (consumer.position(place), consumer.current_lag(place)) == (10, 0)
        consumer.seek(place, 7)
        assert offsets(poll_records(consumer, 3)) == [7, 8, 9]
        consumer.seek(place, OffsetAndMetadata(8))
        assert offsets(poll_records(consumer, 2)) == [8, 9]
        consumer.seek_to_beginning()
        assert consumer.position(place) == 0
        consumer.seek_to_end([place])
        assert consumer.position(place) == 10
        with pytest.raises(LookupError):
            consumer.seek(TopicPartition(one_partition, 1), 0)
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(place, -1)


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [0, 1, 2, 3, 4]), ("latest", [5])])
def test_a_position_that_is_not_there(broker: EachBroker, one_partition: str, reset: str, expected: list[int]) -> None:
    place = fill(broker, one_partition, 5)
    with Consumer(broker.bootstrap_servers, auto_offset_reset=reset) as consumer:
        consumer.assign([place])
        consumer.seek(place, 1_000)
        found = consumer.poll(1_000)
        if reset == "latest":
            assert (found, consumer.position(place)) == ([], 5)
            fill(broker, one_partition, 1)
        assert offsets(found + poll_records(consumer, len(expected) - len(found))) == expected


def test_without_a_reset_policy(broker: EachBroker, one_partition: str) -> None:
    place = fill(broker, one_partition, 5)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([place])
        with pytest.raises(ApiError, match="no reset policy"):
            consumer.poll(10_000)
        consumer.seek(place, 1_000)
        with pytest.raises(ApiError) as raised:
            poll_records(consumer, 1)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        consumer.seek(place, 4)
        assert offsets(poll_records(consumer, 1)) == [4]


def test_offsets_by_time_and_after_a_deletion(broker: EachBroker, one_partition: str, admin: Admin) -> None:
    place = fill(broker, one_partition, 10)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        assert (consumer.beginning_offsets([place]), consumer.end_offsets([place])) == ({place: 0}, {place: 10})
        found = consumer.offsets_for_times({place: FIRST_MS + 3_500})[place]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (4, FIRST_MS + 4_000)
        assert consumer.offsets_for_times({place: FIRST_MS + 10_000}) == {place: None}
        with pytest.raises(ValueError, match="negative"):
            consumer.offsets_for_times({place: -1})
        assert offsets(poll_records(consumer, 10)) == list(range(10))
        admin.delete_records({place: 6})
        assert consumer.beginning_offsets([place]) == {place: 6}
        consumer.seek(place, 2)
        assert offsets(poll_records(consumer, 4)) == [6, 7, 8, 9], "reset to what is still there"


@pytest.mark.parametrize(("reset", "expected"), [("by_duration:P1D", 2), ("by_duration:PT1S", 4)])
def test_begins_some_time_ago(broker: EachBroker, one_partition: str, reset: str, expected: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    with Producer(broker.bootstrap_servers) as producer:
        for hours in (72, 48, 12, 1):
            producer.send(one_partition, b"v", timestamp_ms=now_ms - hours * 3_600_000).result(30)
    place = TopicPartition(one_partition, 0)
    with Consumer(broker.bootstrap_servers, auto_offset_reset=reset) as consumer:
        consumer.assign([place])
        assert consumer.position(place) == expected


def test_paused_partitions_wait(broker: EachBroker, topic: str) -> None:
    places = [fill(broker, topic, 5, partition) for partition in range(3)]
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        consumer.pause(places[1:])
        assert consumer.paused() == set(places[1:])
        assert {record.partition for record in poll_records(consumer, 5)} == {0}
        assert consumer.poll(300) == []
        consumer.resume([places[2]])
        assert {record.partition for record in poll_records(consumer, 5)} == {2}
        consumer.resume([places[1]])
        assert {record.partition for record in poll_records(consumer, 5)} == {1}
        assert consumer.poll(300) == []


def test_limits(broker: EachBroker, one_partition: str) -> None:
    with Producer(broker.bootstrap_servers, batch_size=0) as producer:
        for number in range(20):
            producer.send(one_partition, bytes(50_000 if number == 10 else 500))
    place = TopicPartition(one_partition, 0)
    settings: dict[str, Any] = {"max_partition_fetch_bytes": 2_000, "fetch_max_bytes": 4_000, "max_poll_records": 3}
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([place])
        polls: list[list[ConsumerRecord]] = []
        while sum(map(len, polls)) < 20:
            polls.append(consumer.poll(10_000))
        assert [record.offset for records in polls for record in records] == list(range(20))
        assert max(map(len, polls)) == 3, "a batch larger than all limits arrives too, alone"
        consumer.seek(place, 0)
        assert offsets(consumer.poll(10_000, max_records=1)) == [0]


def test_a_fetch_waits_for_bytes_and_no_longer_than_it_may(broker: EachBroker, one_partition: str) -> None:
    place = fill(broker, one_partition, 1)
    settings: dict[str, Any] = {"fetch_min_bytes": 1_000_000, "fetch_max_wait_ms": 700, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, **settings) as consumer:
        consumer.assign([place])
        assert consumer.position(place) == 0
        began = time.monotonic()
        assert offsets(poll_records(consumer, 1)) == [0]
        assert time.monotonic() - began > 0.6
    with Consumer(broker.bootstrap_servers, fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([place])
        assert consumer.position(place) == 1
        timer = threading.Timer(0.3, fill, (broker, one_partition, 1))
        began = time.monotonic()
        timer.start()
        assert offsets(poll_records(consumer, 1)) == [1]
        assert time.monotonic() - began < 10, "a record that arrives ends the wait"
        timer.join()


def test_a_record_that_cannot_be_read(broker: EachBroker, one_partition: str) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for value in (b'{"a": 1}', b"{", b"[]"):
            producer.send(one_partition, value)
    place = TopicPartition(one_partition, 0)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        consumer.assign([place])
        assert [record.value for record in poll_records(consumer, 1)] == [{"a": 1}]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as raised:
                consumer.poll(10_000)
            assert (raised.value.topic_partition, raised.value.offset) == (place, 1)
            assert consumer.position(place) == 1
        consumer.seek(place, 2)
        assert [record.value for record in poll_records(consumer, 1)] == [[]]


def test_another_thread_wakes_it(broker: EachBroker, one_partition: str) -> None:
    with Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(one_partition, 0)])
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(30_000)
        timer.join()
        assert consumer.poll(10) == []


def test_interceptors_see_what_the_user_sees(broker: EachBroker, one_partition: str) -> None:
    class Even(ConsumerInterceptor):
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record for record in records if record.offset % 2 == 0]

    place = fill(broker, one_partition, 10)
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", interceptor_classes=[Even()]) as consumer:
        consumer.assign([place])
        assert offsets(poll_records(consumer, 5)) == [0, 2, 4, 6, 8]
        assert consumer.position(place) == 10


def test_what_there_is_to_read(broker: EachBroker, topic: str, name: str) -> None:
    with Consumer(broker.bootstrap_servers, allow_auto_create_topics=False) as consumer:
        infos = consumer.partitions_for(topic)
        assert [(info.partition, info.leader, info.isr) for info in infos] == [
            (partition, broker.node_id, (broker.node_id,)) for partition in range(3)
        ]
        assert consumer.partitions_for(f"not-{name}") == ()


def test_only_committed_transactions(broker: EachBroker, one_partition: str, admin: Admin) -> None:
    broker.need_transactions(admin.describe_features().api_versions)
    place = TopicPartition(one_partition, 0)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": one_partition}
    )
    producer.init_transactions(60)
    for value, is_committed in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce(one_partition, value)
        producer.flush(30)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(one_partition, b"open")
    producer.flush(30)
    settings: dict[str, Any] = {"auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, isolation_level="read_committed", **settings) as consumer:
        consumer.assign([place])
        assert [record.value for record in poll_records(consumer, 2)] == [b"a", b"c"]
        assert consumer.poll(300) == []
        assert consumer.end_offsets([place]) == {place: 6}, "records and markers, up to the open transaction"
        assert fetch_table(broker.bootstrap_servers, one_partition, isolation_level="read_committed").num_rows == 2
        with Consumer(broker.bootstrap_servers, **settings) as careless:
            careless.assign([place])
            assert [record.value for record in poll_records(careless, 4)] == [b"a", b"b", b"c", b"open"]
            assert careless.end_offsets([place]) == {place: 7}
        producer.commit_transaction(30)
        assert [record.value for record in poll_records(consumer, 1)] == [b"open"]


def test_tables(broker: EachBroker, topic: str) -> None:
    rows = 2_000
    table = pa.table(
        {
            "key": [b"%d" % (number % 50) for number in range(rows)],
            "value": [b"%d" % number for number in range(rows)],
            "time": [FIRST_MS + number for number in range(rows)],
        }
    )
    with Producer(broker.bootstrap_servers, compression_type="zstd") as producer:
        sent = producer.send_table(topic, table, key="key", timestamp="time").result(30)
        single = producer.send(topic, b"v", b"0").result(30)
    assert sent.record_count == rows
    everything = fetch_table(broker.bootstrap_servers, topic)
    assert everything.num_rows == rows + 1
    by_key: dict[bytes, list[int]] = {}
    for row in everything.to_pylist():
        if row["value"] != b"v":
            by_key.setdefault(row["key"], []).append(int(row["value"]))
    assert by_key == {b"%d" % key: list(range(key, rows, 50)) for key in range(50)}
    where = everything.filter(pc.equal(everything["value"], b"v")).to_pylist()
    assert [(row["partition"], row["offset"]) for row in where] == [(single.partition, single.offset)]
    late = fetch_table(broker.bootstrap_servers, topic, start=datetime.fromtimestamp(FIRST_MS / 1000 + 1.5, UTC))
    assert late.num_rows == 501
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(3)])
        polled = 0
        while polled < rows + 1:
            some = consumer.poll_table(10_000, max_records=300, columns=["value"])
            assert 0 < some.num_rows <= 300
            polled += some.num_rows
    assert polled == rows + 1
