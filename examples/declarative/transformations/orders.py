"""A Spark Declarative Pipeline: orders of a topic become a table, a summary of it, and another topic.

`spark-pipelines run` executes this file and runs what it declares; docs/spark.md says how. The broker is the variable
BARNABAS_BROKERS; the topics are `orders` and `large-orders`.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

_BROKERS = os.environ.get("BARNABAS_BROKERS", "127.0.0.1:9092")


def _session() -> SparkSession:
    session = SparkSession.getActiveSession()
    assert session is not None
    return session


@dp.table
def orders() -> DataFrame:
    """Every order, once: a streaming table."""
    records = (
        _session()
        .readStream.format("barnabas")
        .option("kafka.bootstrap.servers", _BROKERS)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = sql.from_json(sql.col("value").cast("string"), "id BIGINT, customer STRING, amount DOUBLE")
    return records.select(order.alias("order")).select("order.*")


@dp.materialized_view
def amounts_by_customer() -> DataFrame:
    """The sum of each customer's orders, computed anew by each run."""
    return _session().read.table("orders").groupBy("customer").agg(sql.sum("amount").alias("amount"))


dp.create_sink("large_orders", "barnabas", {"kafka.bootstrap.servers": _BROKERS, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Orders of 100 and more go on as they come."""
    rows = _session().readStream.table("orders").where("amount >= 100")
    return rows.select(sql.col("customer").alias("key"), sql.to_json(sql.struct("*")).alias("value"))
