"""Sinks beside exactly-once topics, each over two runs: the console, Parquet in mode complete, topics at least once.

The runs share the tests' session. The display is that of a terminal, so the table that is redrawn is seen too.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from barnabas.clients.producer import Producer
from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.run import run_pipeline
from barnabas_spark.pipeline.run_display import RunDisplay
from tests.spark.committed_records import committed_values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_FILE = """\
name: shop
brokers: {brokers}
sources:
  orders:
    topic: {source}
    schema: id BIGINT, customer STRING
    options: {{startingOffsets: earliest}}
transforms:
  counts: {{sql: "SELECT customer, count(*) AS orders FROM orders GROUP BY customer"}}
sinks:
  shown: {{from: orders, console: 3}}
  files: {{from: counts, parquet: counts, mode: complete}}
  repeated: {{from: orders, topic: {target}, delivery: at-least-once}}
"""


def test_each_sink_has_all_records_after_two_runs(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    source, target = new_topic(2), new_topic(2)
    path = tmp_path / "shop.yaml"
    path.write_text(_FILE.format(brokers=bootstrap_servers, source=source, target=target))
    orders = [{"id": number, "customer": f"c{number % 2}"} for number in range(12)]
    said = []
    for part in (orders[:10], orders[10:]):
        with Producer(bootstrap_servers) as producer:
            for order in part:
                producer.send(source, json.dumps(order).encode())
        screen = io.StringIO()
        display = RunDisplay(Console(file=screen, force_terminal=True, width=160, color_system=None))
        run_pipeline(read_pipeline(os.fspath(path), {}, {}), display, lambda: False, lambda *_: nullcontext(spark))
        said.append(screen.getvalue())
    first, second = said
    assert "shown, micro-batch 0" in first
    assert "only the first 3 rows are shown" in first
    assert "shown, micro-batch 1" in second
    assert "only the first" not in second
    # The table of the live display, drawn between the cursor's movements.
    assert f"topic {target}" in first
    assert "micro-batches" in first
    assert "\x1b[2K" in first
    found = pq.read_table(tmp_path / "counts").to_pylist()
    assert sorted((row["customer"], row["orders"]) for row in found) == [("c0", 6), ("c1", 6)]
    values = [json.loads(value or b"") for value in committed_values(bootstrap_servers, target, 2)]
    # No run was killed, so nothing is repeated either.
    assert sorted(values, key=lambda row: int(row["id"])) == orders
