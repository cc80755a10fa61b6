"""Fetch requests as consumers and followers send them: topics by id or by name, inside a fetch session or not. Pure.

Called by `FetchSessionHandler`, by the consumer and by replica fetchers. Every broker from 0.11 to 4.x answers one of
the versions 4 to 12, in which topics have their names; those before 7 without sessions. From version 13 on, topics have
their ids (KIP-516): a topic that was deleted and created again is then not mistaken for the old one.
Kafka: FetchRequest.Builder.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.client_request import RequestBuilder

# v4 is the first with the record batches of today (KIP-98).
_OLDEST_VERSION: Final = 4
LAST_VERSION_WITH_NAMES: Final = 12
# KIP-903: the follower's broker epoch beside its id.
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
FETCH_VERSIONS: Final = (_OLDEST_VERSION, LAST_VERSION_WITH_NAMES)
"""The versions that name topics."""
FETCH_VERSIONS_WITH_IDS: Final = (_OLDEST_VERSION, FetchRequest.max_version)
"""All versions; those from 13 on have topic ids."""


class FetchPosition(NamedTuple):
    """A partition with the offset to fetch from, a limit, and the leader epoch that the client knows (-1: none).

    topic_id: zeros where the cluster gave none. last_fetched_epoch, log_start_offset: what a follower tells of its log,
    so that the leader finds where the two part, and knows the partition's low watermark; -1 from consumers.
    """

    topic_partition: TopicPartition
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class FetchingReplica(NamedTuple):
    """A follower's broker id and broker epoch; the leader lets no replica of an earlier epoch join the ISR."""

    broker_id: int
    broker_epoch: int


NO_REPLICA: Final = FetchingReplica(-1, -1)


class FetchLimits(NamedTuple):
    """The limits of one fetch: waiting time and sizes. `isolation_level`: 0 for all records, 1 for committed ones.

    rack_id: where the consumer runs, so that the leader can name a closer replica (KIP-392). replica: the follower that
    fetches; NO_REPLICA is a consumer.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    rack_id: str = ""
    replica: FetchingReplica = NO_REPLICA


class FetchSessionPlace(NamedTuple):
    """A request's place in a fetch session (KIP-227): session 0 and epoch -1 for a request without a session."""

    session_id: int
    epoch: int


SESSIONLESS: Final = FetchSessionPlace(0, -1)


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

    def builder(self, limits: FetchLimits, latest: int = FetchRequest.max_version) -> RequestBuilder:
        """Return a builder of the request for the version that the node and the client share, `latest` at most."""

        return RequestBuilder(FetchRequest, partial(self.request, limits), (_OLDEST_VERSION, self.last_version(latest)))

    def last_version(self, latest: int) -> int:
        """Return the last version, `latest` at most, in which the request can be sent."""
        return latest if self.uses_topic_ids else min(latest, LAST_VERSION_WITH_NAMES)

    def request(self, limits: FetchLimits, version: int) -> FetchRequest:
        """Return the request for a version."""
        # A request by names must not forget a replaced partition: it would forget the new one of the same name.
        is_by_id = version > LAST_VERSION_WITH_NAMES
        forgotten = self.forgotten + self.replaced if is_by_id else self.forgotten
        request = fetch_request(self.positions, limits, self.place, forgotten)
        if limits.replica is not NO_REPLICA:
            _name_replica(request, limits.replica, version)
        return request


def fetch_request(
    positions: Iterable[FetchPosition],
    limits: FetchLimits,
    place: FetchSessionPlace = SESSIONLESS,
    forgotten: Iterable[TopicIdPartition] = (),
) -> FetchRequest:
    """Return a request for these partitions, in their order. `forgotten` partitions leave the session."""
    # The message has names and ids; the version that is sent decides which of them are written.
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (topic, partition), offset, max_bytes, leader_epoch, topic_id, last_epoch, log_start_offset in positions:
        entry = FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            last_fetched_epoch=last_epoch,
            log_start_offset=log_start_offset,
        )
        of_topic = topics.get((topic, topic_id))
        if of_topic is None:
            of_topic = FetchTopic(topic=topic, topic_id=topic_id, partitions=[])
            topics[topic, topic_id] = of_topic
        of_topic.partitions.append(entry)
    left: dict[tuple[str, bytes], ForgottenTopic] = {}
    for topic_id, (topic, partition) in forgotten:
        gone = left.get((topic, topic_id))
        if gone is None:
            gone = left[topic, topic_id] = ForgottenTopic(topic=topic, topic_id=topic_id, partitions=[])
        gone.partitions.append(partition)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=place.session_id,
        session_epoch=place.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(left.values()),
        rack_id=limits.rack_id,
    )


def _name_replica(request: FetchRequest, replica: FetchingReplica, version: int) -> None:
    """Put the follower into the field that the version has for it."""
    if version < _FIRST_VERSION_WITH_REPLICA_STATE:
        request.replica_id = replica.broker_id
    else:
        request.replica_state = ReplicaState(replica.broker_id, replica.broker_epoch)
