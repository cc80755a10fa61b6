"""The topics that a group's consumer has to know, and whether they have changed since a decision was based on them.

Owned by the consumer's thread. It matches the pattern of a subscription whenever metadata is new.
Kafka: ConsumerMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.assignors.partition_assignor import PartitionRacks
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.protocol.messages.metadata import MetadataResponse

_NO_RACKS: frozenset[str] = frozenset()


class FollowedTopics:
    """The topics of one consumer. Without a `client_rack`, the snapshot has no racks: their changes do not matter then.

    A change of the snapshot makes the leader of a group begin a rebalance.
    """

    def __init__(
        self, client: BlockingClient, subscriptions: SubscriptionState, client_rack: str, *, exclude_internal: bool
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._client_rack = client_rack
        self._exclude_internal = exclude_internal
        self._assigned_ids: frozenset[bytes] = frozenset()
        self._version = -1
        self._awaited_version: int | None = None
        """The version of metadata that `is_fresh` waits to see replaced, or None while it waits for none."""
        self.snapshot: PartitionRacks = {}
        """The partitions of all followed topics, as of the last metadata."""

    def follow(self) -> None:
        """Request metadata for those of the subscription's topics that are not known, or all topics for a pattern."""
        subscriptions = self._subscriptions
        has_filter = subscriptions.pattern is not None or subscriptions.server_pattern is not None
        topic_filter = self._filter if has_filter else None
        self._client.metadata.follow(self._subscriptions.metadata_topics, self._client.now_ms(), topic_filter)
        self._version = -1

    def refresh(self) -> None:
        """Match the pattern and renew the snapshot, if metadata is new."""
        metadata = self._client.metadata
        version, cluster = metadata.update_version, metadata.cluster
        if version == self._version:
            return
        subscriptions = self._subscriptions
        if subscriptions.pattern is not None and not cluster.is_bootstrap:
            # The bootstrap view has no topics: matching it would revoke all partitions until the first update.
            matched = frozenset(topic for topic in cluster.topics if subscriptions.matches(topic))
            if matched != subscriptions.topics:
                subscriptions.set_matched_topics(matched)
                self.follow()
        self._version = version
        self.snapshot = self.partitions_of(subscriptions.metadata_topics, with_racks=bool(self._client_rack))

    def is_fresh(self, *, always: bool) -> bool:
        """Return whether metadata was updated since the first call. Called again until it returns True.

        With `always` an update is requested; without it, only an update that is requested already is waited for.
        """
        metadata = self._client.metadata
        if self._awaited_version is None:
            if not always and not metadata.update_requested():
                return True
            self._awaited_version = metadata.request_update() if always else metadata.update_version
        if metadata.update_version <= self._awaited_version:
            return False
        self._awaited_version = None
        self.refresh()
        return True

    def partitions_of(self, topics: Iterable[str], *, with_racks: bool = True) -> PartitionRacks:
        """Return the partitions of those topics that exist, each as the racks of its replicas."""
        cluster = self._client.metadata.cluster
        return {
            topic: tuple(
                frozenset(
                    rack
                    for replica in info.replicas
                    if replica in cluster.nodes and (rack := cluster.nodes[replica].rack) is not None
                )
                if with_racks
                else _NO_RACKS
                for info in cluster.topics[topic]
            )
            for topic in topics
            if topic in cluster.topics
        }

    def follow_assigned(self, topic_ids: Iterable[bytes]) -> None:
        """Follow the topics of an assignment: where the coordinator matches the pattern, only their ids are known.

        For any other subscription, the names say already which topics to follow.
        """
        self._assigned_ids = frozenset(topic_ids)

    def names_of(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """Return the names of those topics that the metadata has."""
        names = {topic_id: name for name, topic_id in self._client.metadata.cluster.topic_ids.items()}
        return {topic_id: names[topic_id] for topic_id in topic_ids if topic_id in names}

    def request_update(self) -> None:
        """Request metadata, because an assignment names a topic by an id that the metadata lacks."""
        self._client.metadata.request_update()

    def _filter(self, topic: MetadataResponse.MetadataResponseTopic) -> bool:
        if self._subscriptions.server_pattern is not None:
            return topic.topic_id in self._assigned_ids
        return (
            topic.name is not None
            and not (topic.is_internal and self._exclude_internal)
            and self._subscriptions.matches(topic.name)
        )
