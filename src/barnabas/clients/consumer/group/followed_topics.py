"""Which topics a group's consumer has to know, and whether they have changed since something was decided by them.

Owned by the consumer's thread. The pattern of a subscription is matched here, whenever metadata is new.
Kafka: ConsumerMetadata, and MetadataSnapshot of ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.clients.blocking_client import BlockingClient
from barnabas.clients.cluster import Cluster
from barnabas.clients.consumer.assignors.partition_assignor import PartitionRacks
from barnabas.clients.consumer.subscription_state import SubscriptionState

_NO_RACKS: frozenset[str] = frozenset()


class FollowedTopics:
    """See the module's text. `client_rack` "": racks are of no interest, and their changes neither."""

    def __init__(
        self, client: BlockingClient, subscriptions: SubscriptionState, client_rack: str, *, exclude_internal: bool
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._client_rack = client_rack
        self._exclude_internal = exclude_internal
        self._version = -1
        self.snapshot: PartitionRacks = {}
        """The partitions of all topics of interest, as of the last metadata."""

    def follow(self) -> None:
        """The subscription has changed: fetch what is not known of its topics, or all topics for a pattern."""
        topic_filter = self._filter if self._subscriptions.pattern is not None else None
        self._client.metadata.follow(self._subscriptions.metadata_topics, self._client.now_ms(), topic_filter)
        self._version = -1

    def refresh(self) -> None:
        """Look at metadata that is new: what matches the pattern, and the snapshot."""
        metadata = self._client.metadata
        version, cluster = metadata.update_version, metadata.cluster
        if version == self._version:
            return
        subscriptions = self._subscriptions
        if subscriptions.pattern is not None and not cluster.is_bootstrap:
            matched = frozenset(topic for topic in cluster.topics if subscriptions.matches(topic))
            if matched != subscriptions.topics:
                subscriptions.set_matched_topics(matched)
                self.follow()
        self._version = version
        self.snapshot = self.partitions_of(subscriptions.metadata_topics, cluster, with_racks=bool(self._client_rack))

    def partitions_of(self, topics: Iterable[str], cluster: Cluster, *, with_racks: bool = True) -> PartitionRacks:
        """Those of the topics that exist, with the racks of each partition's replicas."""
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

    def _filter(self, topic: str, is_internal: bool) -> bool:
        return not (is_internal and self._exclude_internal) and self._subscriptions.matches(topic)
