"""An application whose Spark is elsewhere: on a standalone cluster, or behind Spark Connect.

Run as a program of its own by `test_distributed`, with the address of Spark, that of a broker, two topics, a directory
and an archive of the package for the executors (or -). Prints one line of JSON: see `Seen`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2_000


class Seen(NamedTuple):
    """What the application has seen. Counts of rows."""

    read: int
    distinct: int
    streamed: int
    executors: list[str]
    """The processes that read, and where they found the package."""


def main() -> None:
    """Write rows, read them, stream them into another topic, and say which processes did it."""
    address, brokers, source, target, directory, archive = sys.argv[1:]
    spark = _session(address, archive)
    spark.range(0, ROWS, 1, 4).selectExpr("cast(id as string) key", "concat('value ', id) value").write.format(
        "barnabas"
    ).mode("append").option("kafka.bootstrap.servers", brokers).option("topic", source).save()
    frame = spark.read.format("barnabas").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    rows = frame.option("minPartitions", 8).load()
    counted = rows.selectExpr("count(1) as n", "count(distinct value) as d").collect()[0]
    executors = sorted({row.place for row in rows.select("offset").mapInArrow(_place, "place string").collect()})
    stream = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", brokers).option("subscribe", source)
    query = (
        stream.option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS // 2)
        .load()
        .select("key", "value")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", target)
        .option("checkpointLocation", str(Path(directory) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    written = spark.read.format("barnabas").option("kafka.bootstrap.servers", brokers).option("subscribe", target)
    seen = Seen(counted["n"], counted["d"], written.load().select("value").distinct().count(), executors)
    sys.stdout.write(json.dumps(seen._asdict()) + "\n")
    spark.stop()


def _session(address: str, archive: str) -> SparkSession:
    if not address.startswith("spark://"):
        return SparkSession.builder.remote(address).getOrCreate()
    builder = SparkSession.builder.master(address).appName("distributed")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.submit.pyFiles": archive,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say which process works on this task, and from where it has the package."""
    import os

    import pyarrow as pa

    import barnabas_spark

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"place": [f"{os.getppid()} {barnabas_spark.__file__}"]})


if __name__ == "__main__":
    main()
