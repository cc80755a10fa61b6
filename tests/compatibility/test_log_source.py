"""The log source on Apache Kafka 3.9's directory, running, killed, stopped: the records that confluent-kafka reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.clients.arrow import COLUMNS
from barnabas.runtime.files import OperatingSystemFiles
from barnabas_spark.log_source.log_batch_reader import read_split
from barnabas_spark.log_source.log_options import LogSourceOptions
from barnabas_spark.log_source.log_plan import plan_splits
from barnabas_spark.log_source.sidecar_job import SidecarJob
from barnabas_spark.reading.row_bounds import ALL_ROWS
from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    PARTITIONS,
    TRANSACTIONS,
    filled,
)
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.kafka_znodes import kafka_znodes

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

FILES = OperatingSystemFiles(read_only=True)
LEVELS = ("read_uncommitted", "read_committed")


class Row(NamedTuple):
    """A record with everything that a consumer sees of it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def consume(servers: str, level: str) -> list[Row]:
    """Every record of all topics, as confluent-kafka reads them."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "oracle", "enable.auto.commit": False}
    consumer = Consumer(settings | {"isolation.level": level, "enable.partition.eof": True})
    waiting = {(topic, number) for topic, count in PARTITIONS.items() for number in range(count)}
    consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in sorted(waiting)])
    found = []
    while waiting:
        message: Any = consumer.poll(20)
        assert message is not None, f"no end of {waiting}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            waiting.discard((message.topic(), message.partition()))
            continue
        kind, stamp = message.timestamp()
        headers = tuple(message.headers() or ())
        place = message.topic(), message.partition(), message.offset()
        # librdkafka counts from "not available": create time is 1, log append time 2.
        found.append(Row(*place, stamp, kind - 1, message.key(), message.value(), headers))
    consumer.close()
    return sorted(found, key=lambda row: row[:3])


def read(data_dir: Path, level: str, given: Mapping[str, str]) -> list[Row]:
    """The same by the log source, in small splits."""
    topics = ",".join(PARTITIONS)
    options = LogSourceOptions.parse(
        {"path": str(data_dir), "topic": topics, "splitBytes": "1500", "isolation.level": level, **given}
    )
    return [
        Row(
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["timestampType"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for split in plan_splits(options, ALL_ROWS, FILES)
        for batch in read_split(split, options, COLUMNS, FILES)
        for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    need_apache_kafka()
    properties = BROKER_PROPERTIES | {"replica.high.watermark.checkpoint.interval.ms": "500"}
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), properties)
    with filled(broker):
        yield broker


def test_the_records_of_a_consumer(kafka: ApacheKafka) -> None:
    """In one test, because the broker is killed, started and stopped in between."""
    expected = {level: consume(kafka.bootstrap_servers, level) for level in LEVELS}
    of_transactions = [[row for row in rows if row.topic == TRANSACTIONS] for rows in expected.values()]
    assert len(of_transactions[0]) > len(of_transactions[1]) > 0
    for level, rows in expected.items():
        assert read(kafka.data_dir, level, {}) == rows, f"running, {level}"
    kafka.kill()
    for level, rows in expected.items():
        assert read(kafka.data_dir, level, {"endOfLog": "logEnd"}) == rows, f"killed, {level}"
    built = list(SidecarJob([str(kafka.data_dir)], [], FILES).build())
    assert len(built) > 10
    for level, rows in expected.items():
        assert read(kafka.data_dir, level, {"endOfLog": "logEnd"}) == rows, f"killed, with sidecars, {level}"
    # Kafka passes over the sidecars. It starts only once the killed one's registration has expired.
    with kafka_znodes(kafka.zookeeper) as znodes:
        znodes.wait_for_session_end()
    kafka.start()
    assert {level: consume(kafka.bootstrap_servers, level) for level in LEVELS} == expected
    kafka.stop()
    for level, rows in expected.items():
        for sidecars in ("true", "false"):
            assert read(kafka.data_dir, level, {"sidecars": sidecars}) == rows, f"stopped, {level}, {sidecars}"
