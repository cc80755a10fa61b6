"""`barnabas_spark.query_lag`: how far a streaming query is behind its topics, from the progress that Spark reports.

Called by users on the driver; a pure function, no lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from barnabas.protocol.topic_partition import TopicPartition
from barnabas_spark.topic_offsets import planned_offsets


def query_lag(progress: Mapping[str, Any] | None) -> dict[TopicPartition, int]:
    """Return the number of offsets that each partition had more than the micro-batch has read.

    progress: `query.lastProgress`, or an element of `query.recentProgress`; None, as before the first micro-batch, has
    no partitions. Sources whose offsets are not those of topics are passed over.
    """
    lag: dict[TopicPartition, int] = {}
    for source in [] if progress is None else progress["sources"]:
        # Spark describes every Python source alike, so the form of its offsets has to tell.
        read, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if read is None or latest is None:
            continue
        for partition, end in latest.items():
            lag[partition] = max(end - read.get(partition, 0), 0)
    return lag


def _offsets(reported: Any) -> dict[TopicPartition, int] | None:
    """Return offsets that Spark reports as text or as parsed JSON, or None for those of another source."""
    try:
        parsed = json.loads(reported) if isinstance(reported, str) else reported
        return planned_offsets(parsed) if isinstance(parsed, dict) else None
    except ValueError:
        return None
