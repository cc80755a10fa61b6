"""The cell `columns` of `spark_scale`: JSON values of many columns, through `from_json` and through a pipeline file.

Called by `spark_scale`, on the main thread; no lock.
"""

from __future__ import annotations

import json
import time

from barnabas.clients.admin import Admin
from barnabas.protocol.topic_partition import TopicPartition
from benchmarks.spark_scale_bench import Bench, create, fill, run_pipeline

COLUMN_COUNTS = (10, 100, 1000)
COLUMN_VALUES = 10_000_000
"""Values of all columns together."""
PARTITIONS = 4


def measure_columns(bench: Bench) -> None:
    """Print what JSON costs by its number of columns, the number of values being the same."""
    print("\ncolumns: JSON values through from_json, and through a pipeline file to another topic")
    print(f"{'columns':>8} {'rows':>8} {'query':12} {'s':>6} {'CPU s':>7} {'CPU ns a value':>15}")
    for count in COLUMN_COUNTS:
        rows, topic, target = COLUMN_VALUES // count, f"columns-{count}", f"changed-{count}"
        create(bench, topic, PARTITIONS)
        create(bench, target, PARTITIONS)
        value = json.dumps({f"c{number}": number if number % 2 else f"text {number}" for number in range(count)})
        fill(bench, topic, rows, PARTITIONS, value=value.encode())
        schema = ", ".join(f"c{number} {'BIGINT' if number % 2 else 'STRING'}" for number in range(count))

        def by_from_json(topic: str = topic, schema: str = schema, rows: int = rows, last: int = count - 1) -> None:
            reader = bench.spark.read.format("barnabas").option("kafka.bootstrap.servers", bench.servers)
            frame = reader.option("subscribe", topic).load().selectExpr(f"from_json(string(value), '{schema}') j")
            # noop takes every column; nothing is left out of what is parsed.
            frame.select("j.*").write.format("noop").mode("overwrite").save()
            assert frame.where(f"j.c{last} IS NOT NULL").count() == rows

        def by_pipeline(topic: str = topic, target: str = target, schema: str = schema, count: int = count) -> None:
            columns = ", ".join(
                f"c{number} + 1 AS c{number}" if number % 2 else f"c{number}" for number in range(count)
            )
            run_pipeline(bench, topic, target, schema, columns, {})

        for name, work in (("from_json", by_from_json), ("pipeline", by_pipeline)):
            before, started = sum(bench.cpu().values()), time.perf_counter()
            work()
            seconds, spent = time.perf_counter() - started, sum(bench.cpu().values()) - before
            print(f"{count:8} {rows:8} {name:12} {seconds:6.1f} {spent:7.1f} {spent / COLUMN_VALUES * 1e9:15.0f}")
        with Admin(bench.servers) as admin:
            asked = {TopicPartition(target, number): -1 for number in range(PARTITIONS)}
            written = sum(found.offset for found in admin.list_offsets(asked).values())
        # Each micro-batch's transaction has its markers besides.
        assert written >= rows, f"{written} records of {rows}"
