"""What a cluster says of its partitions: the store at once, a broker when the controller has told it.

Called by tests of clusters and by benchmarks, on their own thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from barnabas.clients.admin import Admin
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.zk.store.store import Store


def partition_state(store: Store, topic: str, partition: int = 0) -> dict[str, Any]:
    """Return the leader, its epoch and the in-sync replicas as they are in the store."""
    state: dict[str, Any] = json.loads(store.get(f"/brokers/topics/{topic}/partitions/{partition}/state").data)
    return state


def in_sync_replicas(admin: Admin, topics: Sequence[str]) -> int:
    """Return how many replicas of the topics are in sync, all partitions together, as some broker knows it.

    It is 0 while that broker has not heard of one of the topics: just after its creation.
    """
    try:
        described = admin.describe_topics(topics).values()
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return 0
    return sum(len(partition.isr) for topic in described for partition in topic.partitions)
