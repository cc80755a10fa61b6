"""Takes a metadata answer into a client's view of the cluster, as far as its topics are of interest. Pure.

Called by `ClusterMetadata` under its condition; times are passed in.
Kafka: Metadata, MetadataSnapshot, ProducerMetadata, ConsumerMetadata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from barnabas.clients.errors import INVALID_METADATA_ERRORS
from barnabas.clients.metadata.cluster import Cluster, PartitionInfo
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.rpc.node import Node

logger = logging.getLogger(__name__)

TopicFilter: TypeAlias = Callable[[MetadataResponse.MetadataResponseTopic], bool]
"""A function of a topic in an answer of the cluster. Returns whether the topic is followed."""


class TopicsOfInterest:
    """The topics whose metadata a client keeps: named one by one, or chosen by a filter.

    Each named one has the time of its last use; an unused topic is dropped after `idle_ms` (None: never).
    """

    def __init__(self, idle_ms: int | None) -> None:
        self.filter: TopicFilter | None = None
        """The choice among all topics of the cluster, for a consumer's pattern."""
        self.new: set[str] = set()
        """Topics that no answer has described yet."""
        self._idle_ms = idle_ms
        self._used_ms: dict[str, int] = {}
        """Each topic, with the time of its last use."""

    def use(self, topic: str, now_ms: int) -> bool:
        """Note that a topic is used. Returns whether the topic is new."""
        is_new = topic not in self._used_ms
        if is_new:
            self.new.add(topic)
        self._used_ms[topic] = now_ms
        return is_new

    def replace(
        self, topics: Iterable[str], known: Collection[str], now_ms: int, topic_filter: TopicFilter | None
    ) -> bool:
        """Follow exactly these topics, and all that the filter lets pass. Returns whether some of them are new."""
        wanted = dict.fromkeys(topics, now_ms)
        new = wanted.keys() - self._used_ms.keys()
        # Topics that the filter has found are described already.
        if topic_filter is not None and topic_filter == self.filter:
            new = new - set(known)
        self._used_ms = wanted
        self.new = (self.new & wanted.keys()) | new
        self.filter = topic_filter
        return bool(new)

    def drop_idle(self, now_ms: int) -> list[str]:
        """Forget topics that have not been used for `idle_ms`, and return the others."""
        if self._idle_ms is not None:
            for topic in [name for name, used_ms in self._used_ms.items() if now_ms - used_ms >= self._idle_ms]:
                # A caller still waits for the description of a new topic, however long that takes.
                if topic not in self.new:
                    del self._used_ms[topic]
        return list(self._used_ms)

    def is_followed(self, topic: MetadataResponse.MetadataResponseTopic) -> bool:
        """Return whether the view should include a topic of an answer."""
        return topic.name in self._used_ms or (self.filter is not None and self.filter(topic))


class Merged(NamedTuple):
    """The new view, and whether the answer shows that another full update is needed."""

    cluster: Cluster
    needs_full_update: bool


def merge(old: Cluster, response: MetadataResponse, *, is_partial: bool, is_followed: TopicFilter) -> Merged:
    """Return the view after an answer.

    A full answer replaces the old view, a partial one adds to it. `is_followed` says which of the
    answer's topics count. Leader epochs never go back: a broker that lags behind does not undo what is known.
    """
    topics: dict[str, Sequence[PartitionInfo]] = {}
    topic_ids: dict[str, bytes] = {}
    errors: dict[str, ErrorCode] = {}
    if is_partial:
        topics.update(old.topics)
        topic_ids.update(old.topic_ids)
        errors.update(old.topic_errors)
    needs_full_update = False
    for topic in response.topics:
        name = topic.name
        if name is None or not is_followed(topic):
            continue
        errors.pop(name, None)
        error = error_of(topic.error_code)
        if error is ErrorCode.NONE:
            topics[name], is_stale = _partitions(old, name, topic)
            topic_ids[name] = topic.topic_id
            needs_full_update |= is_stale
            continue
        # Known partitions stay: a broker that is starting does not know everything yet.
        # `name not in topics`: a partial answer has copied the old partitions already.
        if name in old.topics and error in INVALID_METADATA_ERRORS and name not in topics:
            topics[name] = old.topics[name]
        errors[name] = error
        if error in INVALID_METADATA_ERRORS:
            logger.debug("Requesting metadata update for topic %s due to error %s", name, error.name)
            needs_full_update = True
    cluster = Cluster(
        [Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers],
        topics,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topic_ids=topic_ids,
        topic_errors=errors,
    )
    return Merged(cluster, needs_full_update)


def _partitions(
    old: Cluster, name: str, topic: MetadataResponse.MetadataResponseTopic
) -> tuple[list[PartitionInfo], bool]:
    """Return the newest description of each partition, and whether the broker's is out of date for one of them."""
    # A topic with another id was deleted and created again: its epochs begin from 0.
    is_same_topic = old.topic_ids.get(name, topic.topic_id) == topic.topic_id
    known = {info.partition: info for info in old.topics.get(name, ())} if is_same_topic else {}
    partitions = []
    is_stale = False
    for partition in topic.partitions:
        before = known.get(partition.partition_index)
        # Brokers before 2.1 give no epoch (-1); their answers always count.
        if before is not None and 0 <= partition.leader_epoch < before.leader_epoch:
            partitions.append(before)
            continue
        is_stale |= error_of(partition.error_code) in INVALID_METADATA_ERRORS
        partitions.append(PartitionInfo.of(name, partition))
    return partitions, is_stale
