"""Files that queries append to a directory: each micro-batch once, whoever has written there before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.clients.producer import Producer
from barnabas_spark.pipeline import run
from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout, batch_time_ms
from barnabas_spark.pipeline.pipeline_error import PipelineError
from barnabas_spark.pipeline.sinks.parquet_sink import problem_of_directory, written_by_earlier_version
from tests.spark.pipeline.pipeline_in_session import orders, run_in_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FILE = """\
name: {name}
brokers: {brokers}
sources:
  orders:
    topic: {source}
    schema: id BIGINT, amount BIGINT
    options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 10}}
sinks:
  {sink}: {{from: orders, parquet: {files}}}
"""


class Files:
    """A directory of files, and pipelines that append the same topic to it."""

    def __init__(self, spark: SparkSession, directory: Path, bootstrap_servers: str, source: str) -> None:
        self._spark = spark
        self._directory = directory
        self._bootstrap_servers, self._source = bootstrap_servers, source
        self.files = directory / "files"

    def produce(self, numbers: range) -> None:
        with Producer(self._bootstrap_servers) as producer:
            for future in [producer.send(self._source, value) for value in orders(numbers)]:
                future.result()

    def checkpoint(self, name: str = "shop", sink: str = "out") -> Path:
        return Path(CheckpointLayout(os.fspath(self._directory / "checkpoints" / name)).query(sink))

    def run(self, name: str = "shop", sink: str = "out") -> None:
        path = self._directory / f"{name}.yaml"
        path.write_text(
            FILE.format(name=name, brokers=self._bootstrap_servers, source=self._source, sink=sink, files=self.files)
        )
        run_in_session(self._spark, os.fspath(path), {})

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a crash does that comes before Spark's own note."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint() / "commits" / name).unlink()

    def forget_entry(self, number: int) -> None:
        """Leave the directory as a crash does that comes before the files are in its log."""
        for name in (f"{number}", f".{number}.crc"):
            (self.files / "_spark_metadata" / name).unlink()

    def rows(self) -> list[int]:
        return sorted(row.id for row in self._spark.read.parquet(os.fspath(self.files)).collect())


def test_each_writer_has_all_its_rows_there_once(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    written = Files(spark, tmp_path, bootstrap_servers, new_topic(1))
    written.produce(range(15))
    written.run()
    assert written.rows() == list(range(15))

    # An earlier version has written the last micro-batch: the entry of its number is this one. Spark has not noted it.
    written.forget_commit(1)
    shutil.rmtree(written.checkpoint() / "barnabas-files")
    note = json.loads((written.checkpoint() / "pipeline.json").read_text())
    (written.checkpoint() / "pipeline.json").write_text(json.dumps({**note, "form": None}))
    written.run()
    assert written.rows() == list(range(15))

    # The files of the next one are written, but neither in the directory's log nor noted by Spark; then not noted only.
    written.produce(range(15, 20))
    written.run()
    assert written.rows() == list(range(20))
    written.forget_commit(2)
    written.forget_entry(2)
    written.run()
    assert written.rows() == list(range(20))
    written.forget_commit(2)
    written.run()
    assert written.rows() == list(range(20))

    # Begun anew, as the page on pipelines says: by another name, and by another checkpoint for the same name. Numbers
    # of micro-batches begin at 0 again.
    written.run(sink="renamed")
    assert written.rows() == sorted([*range(20), *range(20)])
    shutil.rmtree(written.checkpoint())
    written.run()
    written.run(name="another")
    assert written.rows() == sorted([*range(20)] * 4)
    written.produce(range(20, 22))
    written.run()
    assert written.rows() == sorted([*[*range(20)] * 4, 20, 21])


def test_what_an_earlier_version_has_written_is_known_by_its_time() -> None:
    """The newest entry has the number of the micro-batch; it may be another query's."""
    assert written_by_earlier_version(modified_ms=50_100, planned_ms=50_000)
    # File systems may show whole seconds.
    assert written_by_earlier_version(modified_ms=49_000, planned_ms=50_000)
    assert not written_by_earlier_version(modified_ms=20_000, planned_ms=50_000)
    assert not written_by_earlier_version(modified_ms=None, planned_ms=50_000)
    assert not written_by_earlier_version(modified_ms=50_000, planned_ms=None)


def test_the_time_of_a_micro_batch_is_in_sparks_log_of_offsets(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text(
        'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1764000000000}\n{"t":{"0":1}}'
    )
    (tmp_path / "offsets" / "4").write_text("v1")
    assert [batch_time_ms(os.fspath(tmp_path), batch) for batch in (3, 4, 5)] == [1764000000000, None, None]


def log_of(directory: Path, entries: dict[str, list[str]]) -> None:
    """Write a log as Spark does, with one file of each path."""
    (directory / "_spark_metadata").mkdir(parents=True)
    for name, paths in entries.items():
        lines = [json.dumps({"path": path, "size": 1, "action": "add"}) for path in paths]
        (directory / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))


def test_a_directory_that_was_moved_or_has_other_files_is_refused(tmp_path: Path) -> None:
    for name in ("new", "empty", "crashed"):
        assert problem_of_directory(os.fspath(tmp_path / name)) is None
    (tmp_path / "empty").mkdir()
    log_of(tmp_path / "crashed", {})
    (tmp_path / "crashed" / "part-0.parquet").touch()
    log_of(tmp_path / "own dir", {"0": [f"file://{tmp_path}/own%20dir/third=1/part-0.parquet"], "1": []})
    (tmp_path / "linked").symlink_to(tmp_path / "own dir")
    for name in ("empty", "crashed", "own dir", "linked"):
        assert problem_of_directory(os.fspath(tmp_path / name)) is None
    assert problem_of_directory(f"file://{tmp_path}/own%20dir") is None
    assert problem_of_directory("s3a://bucket/files") is None

    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "part-0.parquet").touch()
    assert "such as part-0.parquet: readers would not see them" in str(problem_of_directory(f"{tmp_path}/replaced"))
    shutil.copytree(tmp_path / "own dir", tmp_path / "copy")
    with_own = {"9.compact": [f"file://{tmp_path}/gone/a.parquet"], "10": [f"file://{tmp_path}/mixed/b.parquet"]}
    log_of(tmp_path / "mixed", with_own)
    log_of(tmp_path / "damaged", {"0": []})
    (tmp_path / "damaged" / "_spark_metadata" / "0").write_text("v1\n{")
    assert "_spark_metadata is damaged: " in str(problem_of_directory(f"{tmp_path}/damaged"))
    for name in ("copy", "mixed"):
        assert "was moved or copied here" in str(problem_of_directory(os.fspath(tmp_path / name)))


def test_a_sink_does_not_replace_what_another_appends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_reach_brokers", lambda _: None)
    path = tmp_path / "shop.yaml"
    path.write_text(
        "name: shop\nbrokers: h:1\nsources:\n  orders: {topic: t, schema: id BIGINT}\n"
        "transforms:\n  sums: {sql: SELECT count(*) AS sum FROM orders}\n"
        "sinks:\n  all: {from: orders, parquet: out/all}\n  sums: {from: sums, parquet: out, mode: complete}\n"
    )
    with pytest.raises(PipelineError, match=r"shop\.yaml:9: sinks\.sums replaces all of .*out .*sinks\.all writes"):
        run_in_session(spark, os.fspath(path), {})
