"""The options with which a pipeline writes to a topic.

Called by `plan`, which checks them, and by `query_start`, which uses them; no state, no lock.
"""

from __future__ import annotations

from barnabas_spark.pipeline.specification import Sink


def topic_options(sink: Sink) -> dict[str, str]:
    """Return the options of a topic's sink; those of the file come last, and so count."""
    return {"kafka.bootstrap.servers": sink.brokers, "topic": sink.topic or "", **sink.options}
