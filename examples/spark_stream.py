"""Follows a topic with Spark Structured Streaming and writes what it sees, in upper case, to another topic.

    barnabas serve --data-dir /tmp/barnabas &
    barnabas topics create words && barnabas topics create loud-words
    python examples/spark_stream.py localhost:9092 words loud-words

Stop it with Ctrl-C and start it again: it goes on where it was. What "latest" meant at the first start is kept beside
the checkpoint, so that even a crash in the first micro-batch skips nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from barnabas_spark.session import local_session

STATE_DIR = "spark-stream-state"


def main(bootstrap_servers: str, source: str, target: str) -> None:
    """Run until interrupted."""
    with local_session("spark-stream", os.path.join(STATE_DIR, "spark")) as spark:
        records = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("subscribe", source)
            .option("startingOffsets", "latest")
            .option("startingOffsetsLocation", os.path.join(STATE_DIR, "start"))
            .load()
        )
        query = (
            records.selectExpr("key", "upper(cast(value as string)) value")
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("topic", target)
            .option("checkpointLocation", os.path.join(STATE_DIR, "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        print(f"following {source}; Ctrl-C stops", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/spark_stream.py BROKERS SOURCE TARGET")
    # Ctrl-C may come at any moment, also while Spark starts. `local_session` stops the query with Spark.
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
