"""What Apache Kafka 3.9 has written: aborted and open transactions, compaction, every codec.

Spark's connector and our source read it from Kafka, `barnabas-log` from the directory of the stopped Kafka, and both
sources once more from a broker of ours that has adopted a copy of the directory. All get the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    PARTITIONS,
    TRANSACTIONS,
    filled,
)
from tests.compatibility.data_dirs import adopt, copy_data_dir
from tests.spark.known_records import KnownRecord
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(600)]

TOPICS = ",".join(PARTITIONS)
LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    need_apache_kafka()
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), BROKER_PROPERTIES)
    with filled(broker):
        yield broker


def rows(frame: DataFrame) -> list[KnownRecord]:
    """All rows, by partition and offset."""
    frame = frame.selectExpr("*", "unix_millis(timestamp) as at")
    found = [
        KnownRecord(
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row.topic,
            row.partition,
            row.offset,
            row.at,
            # The connector gives a record without headers NULL, ours an empty array: docs/spark.md.
            tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
        )
        for row in frame.collect()
    ]
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def from_broker(spark: SparkSession, source: str, servers: str, level: str) -> list[KnownRecord]:
    """All records that a source gets from a broker."""
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": TOPICS,
        "includeHeaders": "true",
        "kafka.isolation.level": level,
        # The connector waits that long behind its own next fetch.
        "kafka.fetch.max.wait.ms": "5",
    }
    return rows(spark.read.format(source).options(**options).load())


def from_directory(spark: SparkSession, directory: Path, level: str) -> list[KnownRecord]:
    """All records that the log source gets from a directory, in small splits."""
    options = {
        "path": str(directory),
        "topic": TOPICS,
        "includeHeaders": "true",
        "isolation.level": level,
        "splitBytes": "1500",
    }
    return rows(spark.read.format("barnabas-log").options(**options).load())


def test_the_rows_of_the_connector(connector: SparkSession, kafka: ApacheKafka, tmp_path: Path) -> None:
    """In one test, because Kafka is stopped in between."""
    expected = {level: from_broker(connector, "kafka", kafka.bootstrap_servers, level) for level in LEVELS}
    of_transactions = [[row for row in found if row.topic == TRANSACTIONS] for found in expected.values()]
    assert len(of_transactions[0]) > len(of_transactions[1]) > 0
    for level, found in expected.items():
        assert from_broker(connector, "barnabas", kafka.bootstrap_servers, level) == found, level
    kafka.stop()
    for level, found in expected.items():
        assert from_directory(connector, kafka.data_dir, level) == found, level
    ours = BarnabasProcess(tmp_path / "ours", BROKER_PROPERTIES)
    copy_data_dir(kafka.data_dir, ours.data_dir)
    adopt(ours.data_dir)
    try:
        ours.start()
        for level, found in expected.items():
            for source in ("kafka", "barnabas"):
                assert from_broker(connector, source, ours.bootstrap_servers, level) == found, (source, level)
    finally:
        ours.close()
