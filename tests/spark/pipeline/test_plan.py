"""What Spark's analyser rejects is told with the line of the pipeline file. No broker is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas_spark.pipeline.checkpoint_layout import CheckpointLayout
from barnabas_spark.pipeline.pipeline_error import PipelineError
from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.plan import PipelinePlan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GOOD = """\
name: shop
brokers: 127.0.0.1:1
sources:
  orders:
    topic: orders
    schema: id BIGINT, customer STRING
    dead_letters: bad
  shops:
    topic: shops
    schema: id BIGINT
    read: table
transforms:
  large:
    sql: |
      SELECT id,
             upper(customer) AS name
      FROM orders JOIN shops USING (id)
  marked: {python: "steps.py:mark", inputs: [large]}
sinks:
  out:
    from: marked
    topic: large
    key: name
"""

STEPS = """\
def mark(rows):
    return rows.withColumn("marked", rows.name)

def broken(rows):
    return rows.withColumn("marked", rows.nothing)

def forgets(rows):
    rows.count
"""


def planned(spark: SparkSession, directory: Path, text: str) -> PipelinePlan:
    (directory / "steps.py").write_text(STEPS)
    path = directory / "shop.yaml"
    path.write_text(text)
    pipeline = read_pipeline(os.fspath(path), {}, {})
    return PipelinePlan(spark, pipeline, CheckpointLayout(pipeline.checkpoints))


def test_a_plan_has_a_query_for_each_sink_and_each_place_for_bad_records(spark: SparkSession, tmp_path: Path) -> None:
    out, bad = planned(spark, tmp_path, GOOD).queries
    assert (out.name, out.line, out.sinks[0].written(out.rows).columns) == ("out", 20, ["key", "value"])
    assert (out.identity.reads, out.identity.writes) == (("topic orders",), "topic large")
    assert (bad.name, bad.line, bad.rows.columns) == ("orders-dead-letters", 4, ["key", "value", "headers"])
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("upper(customer)", "upper(custome)", 16, "with name `custome` cannot be resolved. Did you mean"),
        ("SELECT id,", "SELECT id id id,", 15, "Syntax error at or near"),
        ("FROM orders JOIN", "FROM oders JOIN", 17, "The table or view `oders` cannot be found"),
        ("steps.py:mark", "steps.py:broken", 18, "steps.py:5: "),
        ("steps.py:mark", "steps.py:forgets", 18, "forgets returned NoneType, not a DataFrame"),
        ("steps.py:mark", "steps.py:missing", 18, "has no function 'missing'"),
        ("key: name", "key: nam", 23, "with name `nam` cannot be resolved"),
        ("key: name", "key: id", 23, "column 'key' is bigint; it must be string or binary: cast it"),
        ("key: name", "format: text", 20, "format text needs a column 'value'"),
        ("from: marked", "from: shops", 20, "shops is a table, not a stream"),
        ("id BIGINT, customer STRING", "id BIGINT, _key STRING", 4, "the schema has the column _key"),
        ("id BIGINT, customer STRING", "id BIGIN", 4, "sources.orders: "),
        ("dead_letters: bad", "options: {startingOffset: latest}", 4, "did you mean 'startingOffsets'?"),
    ],
)  # fmt: skip
def test_what_spark_rejects_has_a_line(
    spark: SparkSession, tmp_path: Path, before: str, after: str, line: int, message: str
) -> None:
    assert before in GOOD
    with pytest.raises(PipelineError) as caught:
        planned(spark, tmp_path, GOOD.replace(before, after, 1))
    (problem,) = caught.value.problems
    assert (problem.line, message in problem.message) == (line, True), problem
    assert len(problem.message) < 500


def test_sinks_of_one_query_share_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    two, _ = planned(spark, tmp_path, f"{GOOD}  files: {{from: marked, query: out, parquet: copies}}\n").queries
    assert [each.written(two.rows).columns for each in two.sinks] == [["key", "value"], ["id", "name", "marked"]]
    assert two.identity.writes == f"topic large and files of {tmp_path}/copies"


def test_columns_that_a_sink_leaves_out_are_named(spark: SparkSession, tmp_path: Path) -> None:
    assert planned(spark, tmp_path, GOOD).left_out_in_words() == []
    text = GOOD.replace("SELECT id,", "SELECT id, orders._offset, 5 AS _id,").replace("key: name", "key: string(_id)")
    plan = planned(spark, tmp_path, text)
    assert plan.left_out_in_words() == ["sinks.out leaves out _offset of marked: rename a column to write it"]


def test_an_aggregation_without_a_watermark_cannot_be_appended(spark: SparkSession, tmp_path: Path) -> None:
    text = GOOD.replace("upper(customer) AS name", "string(count(*)) AS name").replace(
        "USING (id)", "USING (id) GROUP BY id"
    )
    with pytest.raises(PipelineError, match=r"shop\.yaml:20: sinks\.out: .*append.*without watermark"):
        planned(spark, tmp_path, text)
    planned(spark, tmp_path, f"{text}    mode: update\n")
