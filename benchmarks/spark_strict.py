"""What strict reading of JSON costs in a pipeline, beside Spark's `from_json`: CPU time, in turns of one session.

    python -m benchmarks.spark_strict [--rows 400000] [--rounds 5]

The values are kept in memory, and the decoded rows go nowhere: only decoding is measured, not the source.
Runs on the main thread; no state.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from barnabas_spark.pipeline.pipeline_file import read_pipeline
from barnabas_spark.pipeline.rows import decoded_rows
from barnabas_spark.pipeline.sources import TopicSource
from barnabas_spark.session import local_session
from benchmarks.spark_cpu import cpu_of_children

_FILE = """\
name: strict
brokers: a:1
sources:
  orders: {{topic: orders, strict: {strict}, schema: "{schema}"}}
sinks:
  out: {{from: orders, console: 1}}
"""
_SCHEMAS = {
    "4 columns": "id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP",
    "1 column": "id BIGINT",
    "decimal, array, struct": "id BIGINT NOT NULL, price DECIMAL(9,2), tags ARRAY<STRING>,"
    " place STRUCT<x: INT NOT NULL, y: INT>",
}


def _records(session: SparkSession, rows: int) -> DataFrame:
    columns = (
        "id, concat('customer-', id % 1000) AS customer, id * 0.25D AS amount,"
        " timestamp_seconds(1700000000 + id) AS at,"
        " cast(id % 100000 AS DECIMAL(7,2)) AS price, array('a', 'b') AS tags,"
        " struct(cast(id % 100 AS INT) AS x, 5 AS y) AS place"
    )
    records = session.range(rows).selectExpr(
        "cast(cast(id AS STRING) AS BINARY) AS key", f"cast(to_json(struct({columns})) AS BINARY) AS value",
        "'orders' AS topic", "0 AS partition", "id AS offset", "timestamp '2026-01-01' AS timestamp",
    ).persist()  # fmt: skip
    records.count()
    return records


def _source(directory: str, schema: str, *, strict: bool) -> TopicSource:
    path = Path(directory) / "strict.yaml"
    path.write_text(_FILE.format(strict=str(strict).lower(), schema=schema))
    (source,) = read_pipeline(str(path), {}, {}).sources
    assert isinstance(source, TopicSource)
    return source


def _cpu_seconds(rows: DataFrame) -> float:
    before = cpu_of_children(())
    rows.write.format("noop").mode("overwrite").save()
    return cpu_of_children(()) - before


def main() -> None:
    """Measure and print a table: rows a second of CPU time, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, local_session("strict", directory) as session:
        records = _records(session, arguments.rows)
        print("| schema | from_json, rows/s of CPU | strict, rows/s of CPU | CPU, times |")
        print("|---|---|---|---|")
        for name, schema in _SCHEMAS.items():
            frames = [decoded_rows(records, _source(directory, schema, strict=strict)) for strict in (False, True)]
            for frame in frames:
                _cpu_seconds(frame)
            turns = [[_cpu_seconds(frame) for frame in frames] for _ in range(arguments.rounds)]
            lenient, strict = (median(column) for column in zip(*turns, strict=True))
            ratio = median(strict / lenient for lenient, strict in turns)
            rates = [f"{arguments.rows / seconds:,.0f}" for seconds in (lenient, strict)]
            print(f"| {name} | {rates[0]} | {rates[1]} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
