"""`kafka.isolation.level`: what librdkafka's consumer sees of transactions, the source sees; on Kafka's broker, too."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.topic_partition import TopicPartition
from tests.spark.confluent_reader import Place, consume
from tests.support.apache_kafka import need_apache_kafka
from tests.support.server_fixtures import make_server
from tests.support.transaction_markers import wait_for_markers

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 2
SECONDS = 60.0
"""The longest wait for a broker's answer."""


@pytest.fixture(scope="module", params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.java)])
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "barnabas":
        yield request.getfixturevalue("bootstrap_servers")
        return
    need_apache_kafka()
    kafka = make_server(
        request.param,
        tmp_path_factory.mktemp("kafka"),
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
    )
    with kafka.running():
        yield f"{kafka.host}:{kafka.port}"


class Writers:
    """Transactional producers and one without transactions; every record is in the log when `write` returns."""

    def __init__(self, servers: str, topic: str, count: int) -> None:
        self._topic = topic
        self._written = 0
        common = {"bootstrap.servers": servers, "linger.ms": 0}
        self.plain = Producer(common)
        # An open transaction must outlive the slowest test.
        self.transactional = [
            Producer(common | {"transactional.id": f"{topic}-{number}", "transaction.timeout.ms": 900_000})
            for number in range(count)
        ]
        for each in self.transactional:
            each.init_transactions(SECONDS)

    def write(self, producer: Producer, count: int) -> None:
        failed: list[KafkaError] = []
        for _ in range(count):
            self._written += 1
            producer.produce(
                self._topic,
                b"record %d" % self._written,
                partition=self._written * self._written % 5 % PARTITIONS,
                on_delivery=lambda error, _message: failed.append(error) if error else None,
            )
        assert producer.flush(SECONDS) == 0
        assert not failed

    def at_random(self, steps: int, seed: int) -> None:
        """Commit and abort transactions that overlap; none is open at the end."""
        chance = random.Random(seed)
        is_open = dict.fromkeys(range(len(self.transactional)), False)
        for step in range(steps):
            number = chance.randrange(len(self.transactional))
            producer = self.transactional[number]
            if step % 4 == 3:
                self.write(self.plain, chance.randint(1, 3))
            elif not is_open[number]:
                producer.begin_transaction()
                self.write(producer, chance.randint(1, 4))
                is_open[number] = True
            elif chance.random() < 0.4:
                self.write(producer, chance.randint(1, 4))
            else:
                self._end(producer, commits=chance.random() < 0.5)
                is_open[number] = False
        for number, producer in enumerate(self.transactional):
            if is_open[number]:
                self._end(producer, commits=number % 2 == 0)

    def _end(self, producer: Producer, commits: bool) -> None:
        if commits:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def rows(frame: DataFrame) -> list[Place]:
    return sorted(
        Place(row.partition, row.offset, bytes(row.value))
        for row in frame.select("partition", "offset", "value").collect()
    )


class Stream:
    """A query with a checkpoint, run over what is there now; `run` returns the rows of that run."""

    def __init__(self, spark: SparkSession, options: dict[str, str], checkpoint: Path) -> None:
        self._spark = spark
        self._options = options
        self._checkpoint = os.fspath(checkpoint)

    def run(self, level: str) -> list[Place]:
        found: list[Place] = []

        def take(frame: DataFrame, _batch_id: int) -> None:
            found.extend(rows(frame))

        frame = self._spark.readStream.format("barnabas").options(**self._options)
        frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60)
        started = (
            frame.option("kafka.isolation.level", level)
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()
        return sorted(found)


def ends(servers: str, partitions: Sequence[TopicPartition], level: str) -> dict[str, int]:
    with Admin(servers) as admin:
        found = admin.list_offsets(dict.fromkeys(partitions, -1), isolation_level=level)
    return {str(partition.partition): each.offset for partition, each in found.items()}


def test_a_query_sees_what_a_consumer_sees(servers: str, spark: SparkSession, tmp_path: Path) -> None:
    """In one test, because the history of the topic goes on."""
    topic = f"committed-{uuid.uuid4().hex[:8]}"
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    writers = Writers(servers, topic, 3)
    writers.at_random(steps=40, seed=14)
    wait_for_markers(servers, partitions)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}

    def load(level: str, **more: object) -> DataFrame:
        given = {name.replace("_", "."): str(value) for name, value in more.items()}
        return spark.read.format("barnabas").options(**options, **given, **{"kafka.isolation.level": level}).load()

    # All transactions have ended: the last records of the log are markers, and aborted ones.
    committed, everything = (consume(servers, topic, level) for level in ("read_committed", "read_uncommitted"))
    assert 0 < len(committed) < len(everything)
    # Fetches of a batch each, and tasks that begin inside transactions.
    small = {"kafka_max_partition_fetch_bytes": 100, "maxRecordsPerPartition": len(everything) // 4}
    assert rows(load("read_committed", **small)) == committed
    assert rows(spark.read.format("barnabas").options(**options).load()) == everything

    # A transaction is open, and later records are committed: none of these is read.
    is_open = writers.transactional[0]
    is_open.begin_transaction()
    writers.write(is_open, 6)
    writers.write(writers.plain, 6)
    stable, written = (ends(servers, partitions, level) for level in ("read_committed", "read_uncommitted"))
    assert all(stable[number] < written[number] for number in stable)
    assert consume(servers, topic, "read_committed") == committed
    beyond = {"endingOffsets": json.dumps({topic: written})}
    with pytest.raises(PySparkException, match=rf"gives {written['0']} for {topic}-0, whose last stable offset is"):
        rows(load("read_committed", **beyond))
    assert rows(load("read_committed", **beyond, failOnDataLoss=False)) == committed

    stream = Stream(spark, options, tmp_path / "committed")
    assert stream.run("read_committed") == committed
    switching = Stream(spark, options, tmp_path / "switching")
    assert switching.run("read_uncommitted") == consume(servers, topic, "read_uncommitted")
    # It has read further than the last stable offset: nothing is lost, and nothing is read twice.
    assert switching.run("read_committed") == []

    is_open.commit_transaction(SECONDS)
    wait_for_markers(servers, partitions)
    later = [place for place in consume(servers, topic, "read_committed") if place not in committed]
    assert len(later) == 12
    assert stream.run("read_committed") == later
    writers.write(writers.plain, 4)
    newest = set(consume(servers, topic, "read_committed")) - set(committed) - set(later)
    assert set(switching.run("read_committed")) == newest
