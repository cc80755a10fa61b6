"""How our Spark source and pipelines behave with much of everything: bytes, partitions, columns, micro-batches.

    python -m benchmarks.spark_scale                                     # every cell, small: ten minutes
    python -m benchmarks.spark_scale --cells volume --gigabytes 10       # needs 11 GB of disk below --directory
    python -m benchmarks.spark_scale --cells history --batches 1000
    python -m benchmarks.spark_scale --cells partitions --connector      # Spark's Kafka connector beside it (Maven)

`volume` reads a growing part of a large topic, as a batch query and as a stream, and prints the peak memory of each
kind of process: bounded memory does not grow with the part. `partitions` has micro-batches over topics of 1 to 200
partitions: once with a record in each, once with all but one idle. `columns` reads JSON of 10 to 1,000 columns, by
from_json and by a pipeline file. `history` runs one query, then one pipeline, for many micro-batches, and prints what
one costs near the beginning and near the end. CPU is in seconds of all processes; on a busy machine only that counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.clients.admin import Admin
from barnabas.protocol.topic_partition import TopicPartition
from benchmarks.spark_processes import ROLES
from benchmarks.spark_scale_bench import VALUE_BYTES, Bench, create, fill, running_bench
from benchmarks.spark_scale_columns import measure_columns
from benchmarks.spark_scale_streams import measure_history, measure_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELLS = ("volume", "partitions", "columns", "history")
PARTS = (0.1, 1.0)
"""Of the large topic that are read."""
VOLUME_PARTITIONS = 4


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS, choices=CELLS)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the cell 'volume'")
    parser.add_argument("--batches", type=int, default=120, help="of the cell 'history'")
    parser.add_argument("--connector", action="store_true", help="Spark's Kafka connector too, for 'partitions'")
    parser.add_argument("--directory", help="for the topics and Spark's files (removed at the end)")
    arguments = parser.parse_args()
    for cell in arguments.cells:
        with running_bench(Path(arguments.directory or tempfile.gettempdir()), connector=arguments.connector) as bench:
            if cell == "volume":
                _volume(bench, arguments.gigabytes)
            elif cell == "partitions":
                measure_partitions(bench, ("barnabas", "kafka") if arguments.connector else ("barnabas",))
            elif cell == "columns":
                measure_columns(bench)
            else:
                measure_history(bench, arguments.batches)


def _volume(bench: Bench, gigabytes: float) -> None:
    topic, count = "large", int(gigabytes * 1e9 / VALUE_BYTES)
    create(bench, topic, VOLUME_PARTITIONS)
    started = time.perf_counter()
    fill(bench, topic, count, VOLUME_PARTITIONS)
    print(f"\nvolume: {count:,} rows of {VALUE_BYTES} bytes written in {time.perf_counter() - started:.0f} s")
    print(f"{'query':8} {'GB':>6} {'MB/s':>6} {'CPU s':>7}  peak MiB: {', '.join(ROLES)}")
    for how, read in (("batch", _read_batch), ("stream", _read_stream)):
        for part in PARTS:
            rows = int(count * part) // VOLUME_PARTITIONS
            before, started = bench.cpu(), time.perf_counter()
            with bench.peak() as peak:
                seen = read(bench, topic, rows)
            assert seen == rows * VOLUME_PARTITIONS * VALUE_BYTES, f"{seen} bytes of {rows} rows a partition"
            seconds = time.perf_counter() - started
            spent = sum(bench.cpu().values()) - sum(before.values())
            peaks = " ".join(f"{peak.by_role.get(role, 0):6.0f}" for role in ROLES)
            print(f"{how:8} {seen / 1e9:6.2f} {seen / 1e6 / seconds:6.0f} {spent:7.1f}  {peaks}", flush=True)


def _read_batch(bench: Bench, topic: str, rows: int) -> int:
    ends = json.dumps({topic: {str(number): rows for number in range(VOLUME_PARTITIONS)}})
    reader = bench.spark.read.format("barnabas").option("kafka.bootstrap.servers", bench.servers)
    frame = reader.option("subscribe", topic).option("endingOffsets", ends).load()
    return int(frame.selectExpr("sum(length(value))").collect()[0][0])


def _read_stream(bench: Bench, topic: str, rows: int) -> int:
    """Read the last rows of each partition, in ten micro-batches."""
    with Admin(bench.servers) as admin:
        asked = {TopicPartition(topic, number): -1 for number in range(VOLUME_PARTITIONS)}
        ends = {key.partition: found.offset for key, found in admin.list_offsets(asked).items()}
    starts = json.dumps({topic: {str(number): end - rows for number, end in ends.items()}})
    reader = bench.spark.readStream.format("barnabas").option("kafka.bootstrap.servers", bench.servers)
    frame = (
        reader.option("subscribe", topic)
        .option("startingOffsets", starts)
        .option("maxOffsetsPerTrigger", str(rows * VOLUME_PARTITIONS // 10 + 1))
        .load()
    )
    total = 0

    def add(batch: DataFrame, _number: int) -> None:
        nonlocal total
        total += int(batch.selectExpr("sum(length(value))").collect()[0][0] or 0)

    writer = frame.writeStream.foreachBatch(add).trigger(availableNow=True)
    writer.option("checkpointLocation", tempfile.mkdtemp(dir=bench.scratch)).start().awaitTermination()
    return total


if __name__ == "__main__":
    main()
