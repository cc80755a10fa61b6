"""Tables against a real broker, with confluent-kafka on the other side of each direction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer, fetch_table
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.clients.barnabas_driver import BarnabasDriver
from tests.clients.client_driver import ReadRecord, SentRecord, by_partition, each_case, make_records
from tests.clients.confluent_kafka_driver import ConfluentKafkaDriver
from tests.support.server_fixtures import Server

pa = pytest.importorskip("pyarrow")

from barnabas.clients.arrow import TableNotDelivered  # noqa: E402

RECORDS = 3_000
HEADERS = pa.map_(pa.string(), pa.binary())


def as_table(records: list[SentRecord]) -> Any:
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.large_binary()),
            "headers": pa.array([record.headers for record in records], HEADERS),
            "partition": pa.array([record.partition for record in records], pa.int8()),
        }
    )


def as_read(table: Any) -> list[ReadRecord]:
    return [
        ReadRecord(
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.to_pylist()
    ]


@each_case
@pytest.mark.parametrize("enable_idempotence", [False, True], ids=["plain", "idempotent"])
def test_confluent_kafka_reads_what_a_table_has(
    server: Server, codec: str, topic: str, enable_idempotence: bool
) -> None:
    driver = ConfluentKafkaDriver()
    records = make_records(driver, RECORDS, seed=5)
    driver.create_topic(server.bootstrap_servers, topic, driver.partitions)
    with Producer(
        server.bootstrap_servers, compression_type=codec, enable_idempotence=enable_idempotence, batch_size=1_000
    ) as producer:
        # In three tables, and records between them: one order for a partition, whoever encodes.
        sent = [
            producer.send_table(topic, as_table(part), key="key", headers="headers", partition="partition")
            for part in (records[:1_000], records[1_000:1_001], records[1_001:-1])
        ]
        last = records[-1]
        single = producer.send(topic, last.value, last.key, last.headers, last.partition)
        places = [batch for future in sent for batch in future.result(60).batches]
        assert single.result(60).offset == RECORDS // driver.partitions - 1
    assert sum(batch.record_count for batch in places) == RECORDS - 1
    read = by_partition(driver.read(server.bootstrap_servers, topic, dict.fromkeys(range(4), 0), RECORDS))
    for partition in range(driver.partitions):
        expected = [record[1:] for record in records if record.partition == partition]
        assert [record[2:] for record in read[partition]] == expected
        offsets = [
            range(each.base_offset, each.base_offset + each.record_count)
            for each in places
            if each.partition == partition
        ]
        assert [offset for some in offsets for offset in some] == list(range(sum(map(len, offsets))))


@each_case
def test_tables_have_what_confluent_kafka_sent(server: Server, codec: str, topic: str) -> None:
    driver = ConfluentKafkaDriver()
    records = make_records(driver, RECORDS, seed=6)
    driver.create_topic(server.bootstrap_servers, topic, driver.partitions)
    driver.produce(server.bootstrap_servers, topic, codec, records)
    expected = by_partition(driver.read(server.bootstrap_servers, topic, dict.fromkeys(range(4), 0), RECORDS))

    whole = fetch_table(server.bootstrap_servers, topic)
    assert as_read(whole) == [record for partition in range(4) for record in expected[partition]]
    middle = fetch_table(
        server.bootstrap_servers, topic, [1, 3], {1: 100, 3: 740}, 745, columns=["offset", "partition"]
    )
    assert middle.to_pydict() == {
        "offset": [*range(100, 745), *range(740, 745)],
        "partition": [1] * 645 + [3] * 5,
    }

    with Consumer(server.bootstrap_servers, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        read: list[ReadRecord] = []
        while len(read) < RECORDS // 2:
            read += as_read(consumer.poll_table(10_000, 400))
        consumer.commit_sync()
    # Another member goes on where the tables ended.
    with Consumer(server.bootstrap_servers, group_id=topic, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        while len(read) < RECORDS:
            for each in consumer.poll(10_000):
                headers = tuple((name, value or b"") for name, value in each.headers)
                read.append(ReadRecord(each.partition, each.offset, each.key, each.value or b"", headers))
    assert by_partition(read) == expected


def test_ranges_of_time_and_bad_places(server: Server, topic: str) -> None:
    BarnabasDriver().create_topic(server.bootstrap_servers, topic, 2)
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 11)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us", tz="UTC")), "value": [str(at.day) for at in times]})
    with Producer(server.bootstrap_servers) as producer:
        producer.send_table(topic, table, timestamp="at", partition=1).result(60)
    found = fetch_table(server.bootstrap_servers, topic, start=times[3], end=times[6], columns=["value", "timestamp"])
    assert found["value"].to_pylist() == [b"4", b"5", b"6"]
    assert found["timestamp"].to_pylist() == times[3:6]
    assert fetch_table(server.bootstrap_servers, topic, start=datetime(2030, 1, 1, tzinfo=UTC)).num_rows == 0
    assert fetch_table(server.bootstrap_servers, topic, [0]).num_rows == 0
    for arguments, error, text in [
        ({"partitions": [2]}, ValueError, "has no partition 2; it has 2, counted from 0"),
        (
            {"start": "first"},
            ValueError,
            "start takes an offset, earliest, latest, a datetime or a mapping, not 'first'",
        ),
        ({"end": {0: 5}}, ValueError, "end has no offset for partition 1"),
        ({"start": -1}, ValueError, "start must not be negative"),
        ({"group_id": "g"}, ValueError, "leave group_id out"),
        ({"partitions": [1], "end": 11, "default_api_timeout_ms": 1_500}, ClientTimeout, f"{topic}-1 from offset 10"),
    ]:
        with pytest.raises(error, match=text):
            fetch_table(server.bootstrap_servers, topic, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ApiError) as raised:
        fetch_table(server.bootstrap_servers, topic, start={0: 0, 1: 50}, end=60)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_batch_that_is_too_large_is_split_and_a_row_that_is_fails(server: Server, topic: str) -> None:
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"max.message.bytes": "2000"})])
    rows = [b"%3d" % number * 100 for number in range(100)]
    with Producer(server.bootstrap_servers, enable_idempotence=True) as producer:
        assert producer.send_table(topic, pa.table({"value": rows})).result(60).batches[0].base_offset == 0
        with pytest.raises(TableNotDelivered, match="1 of 1 rows were not delivered") as raised:
            producer.send_table(topic, pa.table({"value": [bytes(5_000)]})).result(60)
        with pytest.raises(TableNotDelivered) as unknown:
            producer.send_table("a b", pa.table({"value": ["v"]})).result(60)
    assert isinstance(raised.value.__cause__, ApiError)
    assert raised.value.__cause__.code is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(unknown.value.__cause__, ApiError)
    assert fetch_table(server.bootstrap_servers, topic, columns=["value"])["value"].to_pylist() == rows
