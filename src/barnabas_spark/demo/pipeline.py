"""The demo's pipeline: flights from a topic, delays by carrier and hour, into a compacted topic and into Parquet.

Made by `demo` on the main thread. Spark calls `_keep` for every micro-batch on a thread of its own, one at a time; it
touches nothing that the main thread changes. No lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from barnabas_spark.demo.delay_table import DelayCell

FLIGHTS_TOPIC = "flights"
DELAYS_TOPIC = "departure-delays"

_FLIGHT_FIELDS = "carrier string, hour int, dep_time int, dep_delay int"
_DELAY_FIELDS = "carrier string, hour int, flights long, cancelled long, mean_delay double, p95_delay double"
_OFFSETS_PER_BATCH = 60_000
"""The size of a micro-batch: small enough that several of them show the result growing."""


class DelayPipeline:
    """One streaming query from a topic to a table. After every micro-batch the table is complete in both places."""

    def __init__(self, session: SparkSession, bootstrap_servers: str, parquet: str, checkpoint: str) -> None:
        self._session = session
        self._bootstrap_servers = bootstrap_servers
        self._parquet = parquet
        self._checkpoint = checkpoint

    def start(self) -> StreamingQuery:
        """Start reading the flights from the first one on."""
        records = (
            self._session.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("subscribe", FLIGHTS_TOPIC)
            .option("startingOffsets", "earliest")
            .option("startingOffsetsLocation", os.path.join(self._checkpoint, "start"))
            .option("maxOffsetsPerTrigger", _OFFSETS_PER_BATCH)
            # With one column in the schema, the others are not even decoded.
            .schema("value binary")
            .load()
        )
        return (
            departure_delays(records)
            .writeStream.outputMode("complete")
            .queryName("departure-delays")
            .option("checkpointLocation", self._checkpoint)
            .foreachBatch(self._keep)
            .start()
        )

    def parquet_cells(self) -> list[DelayCell]:
        """Return the result from the Parquet files."""
        return _cells(self._session.read.parquet(self._parquet))

    def topic_cells(self) -> list[DelayCell]:
        """Return the result from the topic: the last record of each key, which is the one that compaction keeps."""
        records = (
            self._session.read.format("barnabas")
            .option("kafka.bootstrap.servers", self._bootstrap_servers)
            .option("subscribe", DELAYS_TOPIC)
            .load()
        )
        last = records.groupBy("key").agg(sql.max_by("value", "offset").alias("value"))
        return _cells(
            last.select(sql.from_json(sql.col("value").cast("string"), _DELAY_FIELDS).alias("row")).select("row.*")
        )

    def _keep(self, table: DataFrame, batch_id: int) -> None:
        """Write the whole table to both places. A micro-batch that Spark repeats writes the same table again."""
        # Both writes read the table, so it is computed once and kept. One part makes one Parquet file.
        table = table.coalesce(1).persist()
        try:
            table.write.mode("overwrite").parquet(self._parquet)
            (
                table.select(
                    # The key is what compaction keeps one record of: carrier and hour, with two digits so that keys
                    # sort by hour.
                    sql.concat_ws("|", "carrier", sql.lpad(sql.col("hour").cast("string"), 2, "0")).alias("key"),
                    sql.to_json(sql.struct("*")).alias("value"),
                )
                .write.format("barnabas")
                .mode("append")
                .option("kafka.bootstrap.servers", self._bootstrap_servers)
                .option("topic", DELAYS_TOPIC)
                .save()
            )
        finally:
            table.unpersist()


def departure_delays(records: DataFrame) -> DataFrame:
    """Parse flights and aggregate them by carrier and planned hour. A flight without departure time was cancelled."""
    flights = records.select(sql.from_json(sql.col("value").cast("string"), _FLIGHT_FIELDS).alias("flight")).select(
        "flight.*"
    )
    return flights.groupBy("carrier", "hour").agg(
        sql.count("*").alias("flights"),
        sql.count_if(sql.col("dep_time").isNull()).alias("cancelled"),
        sql.avg("dep_delay").alias("mean_delay"),
        sql.percentile("dep_delay", 0.95).alias("p95_delay"),
    )


def _cells(rows: DataFrame) -> list[DelayCell]:
    columns: Iterable[str] = DelayCell._fields
    return [DelayCell(*row) for row in rows.select(*columns).orderBy("carrier", "hour").collect()]
