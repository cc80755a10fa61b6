"""Fetch requests as consumers send them: topics by name, inside a fetch session or outside. Pure.

Called by `FetchSessionHandler` and `RawFetcher`. Version 12 is the last that names topics; every broker from 0.11 to
4.x answers one of 4 to 12, those before 7 without sessions. Kafka: FetchRequest.Builder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.topic_partition import TopicPartition

# v4 is the first with the record batches of today (KIP-98). v13 names topics by their ids (KIP-516), which this client
# does not keep.
FETCH_VERSIONS = (4, 12)


class FetchPosition(NamedTuple):
    """A partition with the offset to fetch from, a limit, and the leader epoch that the client knows (-1: none)."""

    topic_partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1


class FetchLimits(NamedTuple):
    """The limits of one fetch: waiting time and sizes. `isolation_level`: 0 for all records, 1 for committed ones."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0


class FetchSessionPlace(NamedTuple):
    """A request's place in a fetch session (KIP-227): session 0 and epoch -1 for a request without a session."""

    session_id: int
    epoch: int


SESSIONLESS = FetchSessionPlace(0, -1)


def fetch_request(
    positions: Iterable[FetchPosition],
    limits: FetchLimits,
    place: FetchSessionPlace = SESSIONLESS,
    forgotten: Iterable[TopicPartition] = (),
) -> FetchRequest:
    """Return a request for these partitions, in their order. `forgotten` partitions leave the session."""
    topics: dict[str, list[FetchRequest.FetchPartition]] = {}
    for position in positions:
        entry = FetchRequest.FetchPartition(
            partition=position.topic_partition.partition,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            partition_max_bytes=position.max_bytes,
        )
        topics.setdefault(position.topic_partition.topic, []).append(entry)
    left: dict[str, list[int]] = {}
    for topic, partition in forgotten:
        left.setdefault(topic, []).append(partition)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=place.session_id,
        session_epoch=place.epoch,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic=name, partitions=each) for name, each in left.items()],
    )
