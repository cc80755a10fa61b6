"""Fetch requests as consumers send them: topics by id or by name, inside a fetch session or outside. Pure.

Called by `FetchSessionHandler` and `RawFetcher`. Every broker from 0.11 to 4.x answers one of the versions 4 to 12, in
which topics have their names; those before 7 without sessions. From version 13 on, topics have their ids (KIP-516): a
topic that was deleted and created again is then not mistaken for the old one. Kafka: FetchRequest.Builder.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.client_request import RequestBuilder

# v4 is the first with the record batches of today (KIP-98).
_OLDEST_VERSION = 4
LAST_VERSION_WITH_NAMES = 12
FETCH_VERSIONS = (_OLDEST_VERSION, LAST_VERSION_WITH_NAMES)
"""The versions that name topics."""
FETCH_VERSIONS_WITH_IDS = (_OLDEST_VERSION, FetchRequest.max_version)
"""All versions; those from 13 on have topic ids."""


class FetchPosition(NamedTuple):
    """A partition with the offset to fetch from, a limit, and the leader epoch that the client knows (-1: none).

    topic_id: zeros where the cluster gave none.
    """

    topic_partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID


class FetchLimits(NamedTuple):
    """The limits of one fetch: waiting time and sizes. `isolation_level`: 0 for all records, 1 for committed ones.

    rack_id: where the consumer runs, so that the leader can name a closer replica (KIP-392).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    rack_id: str = ""


class FetchSessionPlace(NamedTuple):
    """A request's place in a fetch session (KIP-227): session 0 and epoch -1 for a request without a session."""

    session_id: int
    epoch: int


SESSIONLESS = FetchSessionPlace(0, -1)


class TopicIdPartition(NamedTuple):
    """A partition of the topic with this id (Kafka: TopicIdPartition)."""

    topic_id: bytes
    topic_partition: TopicPartition


class FetchRequestData(NamedTuple):
    """What one request of a session says.

    forgotten: partitions that leave the session. replaced: those whose topic has another id now; `positions` has them
    with the new one. uses_topic_ids: whether every partition has an id, so that versions with ids may be sent.
    """

    positions: list[FetchPosition]
    place: FetchSessionPlace
    forgotten: list[TopicIdPartition]
    replaced: list[TopicIdPartition]
    uses_topic_ids: bool

    def builder(self, limits: FetchLimits) -> RequestBuilder:
        """Return a builder of the request for the version that the node and the client share."""

        def build(version: int) -> FetchRequest:
            # A request by names must not forget a replaced partition: it would forget the new one of the same name.
            is_by_id = version > LAST_VERSION_WITH_NAMES
            forgotten = self.forgotten + self.replaced if is_by_id else self.forgotten
            return fetch_request(self.positions, limits, self.place, forgotten)

        return RequestBuilder(FetchRequest, build, FETCH_VERSIONS_WITH_IDS if self.uses_topic_ids else FETCH_VERSIONS)


def fetch_request(
    positions: Iterable[FetchPosition],
    limits: FetchLimits,
    place: FetchSessionPlace = SESSIONLESS,
    forgotten: Iterable[TopicIdPartition] = (),
) -> FetchRequest:
    """Return a request for these partitions, in their order. `forgotten` partitions leave the session."""
    # The message has names and ids; the version that is sent decides which of them are written.
    topics: dict[tuple[str, bytes], list[FetchRequest.FetchPartition]] = {}
    for (topic, partition), offset, max_bytes, leader_epoch, topic_id in positions:
        entry = FetchRequest.FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )
        topics.setdefault((topic, topic_id), []).append(entry)
    left: dict[tuple[str, bytes], list[int]] = {}
    for topic_id, (topic, partition) in forgotten:
        left.setdefault((topic, topic_id), []).append(partition)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=place.session_id,
        session_epoch=place.epoch,
        topics=[
            FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in topics.items()
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in left.items()
        ],
        rack_id=limits.rack_id,
    )
