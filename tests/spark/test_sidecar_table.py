"""`table(..., spark_reads_sidecars=True)`: the log source's rows, of which Spark's Parquet reader reads most."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.cli.log.log_sidecars import sidecars
from barnabas.clients.arrow import COLUMNS
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.storage.checkpoints import HIGH_WATERMARK_FILE, OffsetCheckpointFile
from barnabas.storage.log_append_info import AppendGate
from barnabas_spark import table
from barnabas_spark.options.option_values import OptionError
from tests.compatibility.golden import TRANSACTIONS, unpack
from tests.spark.known_records import made_up
from tests.unit.storage.log_harness import NOW, Broker, log_config

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOPIC = "orders"
PARTITIONS = 3
BATCHES = 40
FILES = OperatingSystemFiles()
READ_ERRORS = (PySparkException, Py4JJavaError)
"""PySpark makes its own exception of some of the JVM's errors."""


def write_topic(data_dir: Path) -> None:
    """Partitions of several segments, with every codec, NULL keys and values, headers."""
    broker = Broker(FILES, config=log_config(segment_bytes=3_000, index_interval_bytes=500), log_dirs=(str(data_dir),))
    ends = {}
    for partition in range(PARTITIONS):
        key = TopicPartition(TOPIC, partition)
        log = broker.log(key)
        for number in range(BATCHES):
            builder = RecordBatchBuilder(Codec(number % len(Codec)))
            for index in range(1 + number % 7):
                record_key, value, headers = made_up(number + index)
                # Before 1900, where Spark's calendars differ.
                timestamp_ms = -3_000_000_000_000 if number == 1 else NOW + number
                builder.append(timestamp_ms, record_key, value, headers)
            log.append_as_leader(builder.build(), 0, admit=AppendGate())
        assert len(log.local.segments) > 3
        ends[key] = log.log_end_offset
    OffsetCheckpointFile(str(data_dir), HIGH_WATERMARK_FILE, FILES).write(ends)
    broker.manager.shutdown()


def build(data_dir: Path) -> str:
    result = CliRunner().invoke(sidecars, ["build", str(data_dir)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Characters that mean something in a pattern of paths.
    directory = tmp_path_factory.mktemp("log [a-b]{12}*? x=1")
    write_topic(directory)
    assert build(directory).count(": built, ") >= 3 * PARTITIONS
    return directory


@pytest.fixture
def both(spark: SparkSession, data_dir: Path) -> Callable[..., tuple[DataFrame, DataFrame]]:
    """The table by the log source alone, from segments; and the one in which Spark reads the sidecars."""

    def _both(**given: Any) -> tuple[DataFrame, DataFrame]:
        return (
            table(spark, TOPIC, path=str(data_dir), **{"sidecars": "false"} | given),
            table(spark, TOPIC, path=str(data_dir), spark_reads_sidecars=True, **given),
        )

    return _both


def ordered(frame: DataFrame) -> list[Any]:
    rows: list[Any] = frame.orderBy("topic", "partition", "offset").collect()
    return rows


def files_read(frame: DataFrame) -> int:
    """How many sidecars the plan reads, and that it reads them by columns."""
    plan = frame._jdf.queryExecution().toString()
    assert "Batched: true" in plan
    found = re.search(r"InMemoryFileIndex\((\d+) paths?\)", plan)
    assert found is not None, plan
    return int(found.group(1))


@pytest.mark.parametrize(
    "given",
    [
        {"includeHeaders": True},
        {},
        {"columns": ["value", "timestamp", "headers", "topic", "partition", "offset"], "includeHeaders": False},
        {"columns": ["offset", "timestampType", "partition", "topic"]},
        {"startingOffsets": '{"orders": {"0": 7, "1": 100, "2": -2}}'},
        {"endingOffsets": '{"orders": {"0": 7, "1": 100, "2": 0}}'},
        {
            "startingOffsets": '{"orders": {"0": 3, "1": 9, "2": 40}}',
            "endingOffsets": '{"orders": {"0": 4, "1": 13, "2": 150}}',
        },
        {"startingTimestamp": NOW + BATCHES // 2},
        {"endingTimestamp": NOW + BATCHES // 2},
    ],
    ids=["headers", "plain", "empty headers", "columns", "starts", "ends", "inside", "since", "until"],
)
def test_the_same_rows(both: Callable[..., tuple[DataFrame, DataFrame]], given: dict[str, Any]) -> None:
    by_log_source, by_spark = both(**given)
    assert by_spark.schema == by_log_source.schema
    rows = ordered(by_log_source)
    assert rows
    assert ordered(by_spark) == rows


def test_spark_reads_all_sealed_segments(data_dir: Path, both: Callable[..., tuple[DataFrame, DataFrame]]) -> None:
    sealed = sum(1 for _ in data_dir.glob("*/*.log")) - PARTITIONS
    _, by_spark = both()
    assert files_read(by_spark) == sealed
    [condition] = re.findall(r"PushedFilters: \[(.*?)\]", str(by_spark.where("offset >= 50")._jdf.queryExecution()))
    assert "GreaterThanOrEqual(offset,50)" in condition


def test_no_sidecars_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_topic(tmp_path)
    frame = table(spark, TOPIC, path=str(tmp_path), spark_reads_sidecars=True)
    assert ordered(frame) == ordered(table(spark, TOPIC, path=str(tmp_path)))
    nothing = '{"orders": {"0": 0, "1": 0, "2": 0}}'
    empty = table(spark, TOPIC, path=str(tmp_path), spark_reads_sidecars=True, endingOffsets=nothing)
    assert (empty.schema, empty.collect()) == (frame.schema, [])


def test_aborted_records_stay_out(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = unpack(tmp_path)
    build(data_dir)
    for level in ("read_committed", "read_uncommitted"):
        given: dict[str, Any] = {"path": str(data_dir), "isolation.level": level}
        rows = ordered(table(spark, TRANSACTIONS, sidecars="false", **given))
        assert ordered(table(spark, TRANSACTIONS, spark_reads_sidecars=True, **given)) == rows


def test_a_segment_that_was_rewritten_is_an_error_and_no_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    """What a table has planned to read is there as it was, or is gone: cleaned segments get sidecars of other names."""
    write_topic(tmp_path)
    build(tmp_path)
    rows = ordered(table(spark, TOPIC, path=str(tmp_path)))
    frame = table(spark, TOPIC, path=str(tmp_path), spark_reads_sidecars=True)
    second = sorted((tmp_path / f"{TOPIC}-0").glob("*.log"))[1]
    data = second.read_bytes()
    second.write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])
    assert ordered(frame) == rows
    assert "does not fit" in build(tmp_path)
    with pytest.raises(READ_ERRORS, match=second.stem):
        frame.collect()
    fewer = ordered(table(spark, TOPIC, path=str(tmp_path), spark_reads_sidecars=True))
    assert 0 < len(fewer) < len(rows)
    assert fewer == ordered(table(spark, TOPIC, path=str(tmp_path), sidecars="false"))


def test_damage_is_found(spark: SparkSession, tmp_path: Path) -> None:
    write_topic(tmp_path)
    build(tmp_path)
    [path, *_] = sorted((tmp_path / f"{TOPIC}-1").glob("*.parquet"))
    data = bytearray(path.read_bytes())
    values = pq.read_metadata(path).row_group(0).column(COLUMNS.index("value"))
    data[values.data_page_offset + values.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(READ_ERRORS, match=path.name):
        table(spark, TOPIC, path=str(tmp_path), spark_reads_sidecars=True).collect()


def test_arguments_that_do_not_fit(spark: SparkSession, data_dir: Path) -> None:
    with pytest.raises(ValueError, match="spark_reads_sidecars needs path"):
        table(spark, TOPIC, bootstrap_servers="localhost:9092", spark_reads_sidecars=True)
    with pytest.raises(OptionError, match="option 'sidecars' is false, and Spark is to read the sidecars"):
        table(spark, TOPIC, path=str(data_dir), spark_reads_sidecars=True, sidecars="false")
    with pytest.raises(ValueError, match="there is no column 'vlaue'"):
        table(spark, TOPIC, path=str(data_dir), spark_reads_sidecars=True, columns=["vlaue"])
