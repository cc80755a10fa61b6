"""Fetch requests as our consumers send them: without a session, topics by name. Pure.

Version 12 is the last that names topics; every broker from 0.11 to 4.x answers one of 4 to 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.topic_partition import TopicPartition

FETCH_VERSIONS = (4, 12)
_NO_SESSION = 0
_FINAL_EPOCH = -1


class FetchPosition(NamedTuple):
    """From where, how many bytes at most, and the leader epoch the client believes in (-1: unknown)."""

    topic_partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1


def fetch_request(
    positions: Iterable[FetchPosition], *, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int = 0
) -> FetchRequest:
    """A request for these partitions, in their order."""
    topics: dict[str, list[FetchRequest.FetchPartition]] = {}
    for position in positions:
        entry = FetchRequest.FetchPartition(
            partition=position.topic_partition.partition,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            partition_max_bytes=position.max_bytes,
        )
        topics.setdefault(position.topic_partition.topic, []).append(entry)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=_NO_SESSION,
        session_epoch=_FINAL_EPOCH,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )
