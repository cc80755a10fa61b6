"""One partition of 1 GiB: the connector, our source and the log source read the same records."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.protocol.errors import ErrorCode
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient, make_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(1_800)]

TOPIC = "large"
PARTITION_BYTES = 1 << 30
VALUE_BYTES, BATCH_RECORDS = 1_000, 900
FIRST_TIMESTAMP_MS = 1_700_000_000_000
_SUMS = (
    "count(*)",
    "sum(offset)",
    "max(offset)",
    "sum(length(value))",
    "sum(crc32(value))",
    "sum(unix_millis(timestamp))",
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    directory = tmp_path_factory.mktemp("large")
    running = BarnabasProcess(directory)
    try:
        running.start()
        chance = random.Random(14)
        with RawClient(running) as client:
            client.create_topic(TOPIC, 1, {"retention.ms": "-1", "segment.bytes": str(128 << 20)})
            written = number = 0
            while written < PARTITION_BYTES:
                values = [chance.randbytes(VALUE_BYTES) for _ in range(BATCH_RECORDS)]
                batch = make_batch(values, timestamp_ms=FIRST_TIMESTAMP_MS + number)
                assert client.produce(TOPIC, batch).error_code == ErrorCode.NONE
                written += len(batch)
                number += 1
        yield running
    finally:
        running.close()
        # pytest itself keeps the directories of three runs.
        shutil.rmtree(directory)


def sums(frame: DataFrame) -> tuple[Any, ...]:
    """Figures that change with any record that is missing, doubled or different."""
    (row,) = frame.selectExpr(*_SUMS).collect()
    return tuple(row)


def test_a_partition_of_one_gibibyte(connector: SparkSession, filled: BarnabasProcess) -> None:
    options = {"kafka.bootstrap.servers": filled.bootstrap_servers, "subscribe": TOPIC}
    found = {source: sums(connector.read.format(source).options(**options).load()) for source in ("kafka", "barnabas")}
    count = found["kafka"][0]
    assert count * VALUE_BYTES > PARTITION_BYTES * 0.98
    assert found["barnabas"] == found["kafka"]
    split = connector.read.format("barnabas").options(**options, minPartitions="4").load()
    assert sums(split) == found["kafka"]
    filled.stop()
    logs = connector.read.format("barnabas-log").options(path=os.fspath(filled.data_dir), topic=TOPIC).load()
    assert logs.rdd.getNumPartitions() > 4
    assert sums(logs) == found["kafka"]
