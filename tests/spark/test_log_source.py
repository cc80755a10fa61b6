"""`spark.read.format("barnabas-log")`: the rows of a data directory whose broker runs, was killed, was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from barnabas.cli.log.log_sidecars import sidecars
from barnabas.clients.admin import Admin, NewTopic
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.checkpoints import HIGH_WATERMARK_FILE, OffsetCheckpointFile
from barnabas.testing import BrokerProcess, broker
from barnabas_spark import table
from tests.spark.known_records import KnownRecord, produce, rows
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 1_200


class Filled:
    """A broker with a topic of several small segments, and what a consumer reads of it."""

    def __init__(self, running: BrokerProcess) -> None:
        self.broker = running
        self.data_dir = running.data_dir
        with Admin(running.bootstrap_servers) as admin:
            configs = {"segment.bytes": "8000", "index.interval.bytes": "500"}
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, configs=configs)])
        self.sent = produce(running.bootstrap_servers, TOPIC, PARTITIONS, range(RECORDS))
        self.consumed = consume(running.bootstrap_servers)

    def await_checkpoint(self) -> None:
        """Return when the broker has written down the high watermarks."""
        file = OffsetCheckpointFile(self.data_dir, HIGH_WATERMARK_FILE, OperatingSystemFiles(read_only=True))
        wait_until(lambda: sum(offset for key, offset in file.read().items() if key.topic == TOPIC) >= RECORDS, 30)


def consume(bootstrap_servers: str) -> list[KnownRecord]:
    """All records, as confluent-kafka reads them."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "oracle", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[KnownRecord] = []
    while len(found) < RECORDS:
        message: Any = consumer.poll(10)
        assert message is not None, f"{len(found)} of {RECORDS} records"
        assert message.error() is None
        headers = tuple((name, value) for name, value in message.headers() or ())
        at = message.timestamp()[1]
        found.append(
            KnownRecord(message.key(), message.value(), TOPIC, message.partition(), message.offset(), at, headers)
        )
    consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


@pytest.fixture(scope="module")
def filled() -> Iterator[Filled]:
    with broker(replica_high_watermark_checkpoint_interval_ms=500) as running:
        yield Filled(running)


@pytest.fixture
def load(spark: SparkSession, filled: Filled) -> Callable[..., DataFrame]:
    def _load(**options: object) -> DataFrame:
        reader = spark.read.format("barnabas-log").option("path", filled.data_dir)
        for name, value in ({"topic": TOPIC, "includeHeaders": True} | options).items():
            reader = reader.option(name, str(value))
        return reader.load()

    return _load


def test_a_running_brokers_directory(load: Callable[..., DataFrame], filled: Filled) -> None:
    filled.await_checkpoint()
    assert rows(load()) == filled.consumed
    cut = load(splitBytes=1_500)
    assert cut.rdd.getNumPartitions() > 2 * len(list(Path(filled.data_dir).glob(f"{TOPIC}-*/*.log")))
    assert rows(cut) == filled.consumed
    assert rows(load(**{"isolation.level": "read_committed"})) == filled.consumed


def test_offsets_and_times_choose_what_is_read(load: Callable[..., DataFrame], filled: Filled) -> None:
    filled.await_checkpoint()
    starting, ending = {"0": 5, "1": -2}, {"0": 50, "1": -1}
    frame = load(startingOffsets=json.dumps({TOPIC: starting}), endingOffsets=json.dumps({TOPIC: ending}))
    assert rows(frame) == [record for record in filled.consumed if record.partition or 5 <= record.offset < 50]
    stamps = sorted(record.timestamp_ms for record in filled.consumed)
    middle = stamps[len(stamps) // 2]
    firsts = {
        partition: min(
            record.offset
            for record in filled.consumed
            if record.partition == partition and record.timestamp_ms >= middle
        )
        for partition in range(PARTITIONS)
    }
    expected = [record for record in filled.consumed if record.offset >= firsts[record.partition]]
    assert rows(load(startingTimestamp=middle)) == expected
    expected = [record for record in filled.consumed if record.offset < firsts[record.partition]]
    assert rows(load(endingTimestamp=middle)) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "no-such"}, r"topic 'no-such' has no partition directory \(no-such-0\) in"),
        (
            {"endingOffsets": '{"orders": {"0": 99999, "1": 5}}'},
            r"orders-0: .*names offset 99999; the log in .*orders-0",
        ),
        ({"startingTimestamp": 9_000_000_000_000}, r"orders-0: no record from time 9000000000000 on up to offset \d+"),
        ({"topics": "orders"}, "unknown option 'topics'.*did you mean 'topic'"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "has no place here: files are read, without a broker"),
        ({"path": "/no/such/place"}, "/no/such/place is no directory"),
    ],
)
def test_wrong_options_are_named(load: Callable[..., DataFrame], options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        load(**options).collect()


def test_a_stream_is_refused(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    """Spark asks a source for its stream only when the query starts."""
    stream = spark.readStream.format("barnabas-log").option("path", filled.data_dir).option("topic", TOPIC).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException, match=r"for a stream read the broker: spark\.readStream"):
        query.awaitTermination(60)


def test_a_table(spark: SparkSession, filled: Filled) -> None:
    filled.await_checkpoint()
    assert rows(table(spark, TOPIC, path=filled.data_dir, includeHeaders=True)) == filled.consumed
    counted = table(spark, TOPIC, bootstrap_servers=filled.broker.bootstrap_servers, columns=["offset", "partition"])
    assert (counted.columns, counted.count()) == (["offset", "partition"], RECORDS)
    with pytest.raises(ValueError, match="give either path"):
        table(spark, TOPIC)
    with pytest.raises(ValueError, match="there is no column 'vlaue'; the columns are key, value"):
        table(spark, TOPIC, path=filled.data_dir, columns=["vlaue"])


def test_filters_choose_splits(spark: SparkSession, filled: Filled) -> None:
    """Fewer tasks, the same rows; a new table for each query, because a DataFrame keeps its first plan."""
    filled.await_checkpoint()
    whole = table(spark, TOPIC, path=filled.data_dir, push_filters=True, includeHeaders=True, splitBytes=1_500)
    splits = whole.rdd.getNumPartitions()
    stamps = sorted(record.timestamp_ms for record in filled.consumed)
    middle, last = stamps[len(stamps) // 2], stamps[-1]
    wanted: list[tuple[str, Callable[[KnownRecord], bool]]] = [
        ("partition = 1", lambda record: record.partition == 1),
        ("partition in (0, 7) and offset >= 400", lambda record: record.partition == 0 and record.offset >= 400),
        ("offset > 100 and offset <= 120", lambda record: 100 < record.offset <= 120),
        ("offset = 17", lambda record: record.offset == 17),
        (f"timestamp > timestamp_millis({middle})", lambda record: record.timestamp_ms > middle),
        (f"timestamp >= timestamp_millis({last})", lambda record: record.timestamp_ms >= last),
        ("topic = 'another'", lambda record: record.topic == "another"),
        ("partition = 1 or offset = 5", lambda record: record.partition == 1 or record.offset == 5),
        (f"timestamp < timestamp_millis({middle})", lambda record: record.timestamp_ms < middle),
    ]
    for number, (condition, matches) in enumerate(wanted):
        frame = table(spark, TOPIC, path=filled.data_dir, push_filters=True, includeHeaders=True, splitBytes=1_500)
        chosen = frame.where(condition)
        assert rows(chosen) == [record for record in filled.consumed if matches(record)], condition
        # The last two say nothing that the files could be chosen by.
        assert (chosen.rdd.getNumPartitions() < splits) == (number < len(wanted) - 2), condition


def test_a_killed_and_a_stopped_brokers_directory(load: Callable[..., DataFrame], filled: Filled) -> None:
    """The last of the module: it stops the broker."""
    filled.broker.kill()
    assert rows(load(endOfLog="logEnd", splitBytes=1_500)) == filled.consumed
    filled.broker.start()
    filled.broker.terminate()
    assert rows(load()) == filled.consumed
    # Copies of the sealed segments: the same rows, and brokers pass over them.
    built = CliRunner().invoke(sidecars, ["build", filled.data_dir, "--topic", TOPIC])
    assert built.output.count(": built, ") > PARTITIONS, built.output
    assert rows(load(splitBytes=1_500)) == filled.consumed
    filled.broker.start()
    assert consume(filled.broker.bootstrap_servers) == filled.consumed
