"""Reads a topic as a table, and writes a table to a topic, with Spark and without any jar.

barnabas serve --data-dir /tmp/barnabas &
python examples/spark_batch.py localhost:9092
"""

from __future__ import annotations

import sys
import tempfile
import time

from barnabas.clients.admin import Admin, NewTopic
from barnabas_spark.session import local_session


def main(bootstrap_servers: str) -> None:
    """Write a thousand rows to a new topic, and count them by key."""
    topic = f"numbers-{int(time.time())}"
    with Admin(bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=3)])
    with tempfile.TemporaryDirectory() as work_dir, local_session("spark-batch", work_dir) as spark:
        rows = spark.range(1000).selectExpr("concat('key-', id % 4) key", "cast(id as string) value")
        rows.write.format("barnabas").mode("append").options(
            **{"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
        ).save()

        records = spark.read.format("barnabas").options(
            **{"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
        )
        table = records.load().selectExpr("cast(key as string) key", "partition", "offset")
        table.groupBy("key", "partition").count().orderBy("key").show()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
