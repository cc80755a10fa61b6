"""The parts that a consumer needs with either group protocol: connection to the coordinator, topics, listener.

Made by `make_coordinator`, owned by the consumer's thread; only the channel is shared with its own thread.
Kafka: ConsumerMetadata, ConsumerRebalanceListenerInvoker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from barnabas.clients.authentication_errors import authentication_error
from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.assignors.partition_assignor import PartitionRacks
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorChannel
from barnabas.clients.consumer.group.coordinator_metrics import CoordinatorMetrics, ListenerCall
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import ExponentialBackoff, Node
from barnabas.rpc.metadata_updater import FOREVER_MS, MetadataClient
from barnabas.transport.channel.authenticator import AuthenticationFailed

logger = logging.getLogger(__name__)

_NO_RACKS: frozenset[str] = frozenset()


class FollowedTopics:
    """The topics that one consumer has to know, and whether they have changed since a decision was based on them.

    A subscription's pattern is matched whenever metadata is new. A change of the snapshot makes the leader of a group
    begin a rebalance. Without a `client_rack`, the snapshot has no racks: their changes do not matter then.
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


class _SharedNodes:
    """The nodes of the consumer's own client, as a MetadataUpdater of the coordinator channel's NetworkClient.

    It sends no requests: the consumer's own client keeps the metadata fresh. Called on the channel's thread. No state
    of its own: the ClusterMetadata is shared with the consumer's thread, under that class's condition.
    """

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that the consumer's client knows now."""
        return tuple(self._metadata.cluster.nodes.values())

    def is_update_due(self, now_ms: int) -> bool:
        """Return False, because the consumer's own client updates the metadata."""
        return False

    def maybe_update(self, client: MetadataClient, now_ms: int) -> int:
        """Return an endless wait, because no update is ever due here."""
        return FOREVER_MS

    def handle_disconnect(self, node_id: int, now_ms: int, reason: str) -> None:
        """Request an update from the consumer's client, because the lost node may have gone for good."""
        self._metadata.request_update()

    def handle_authentication_failure(self, node: Node | None, error: AuthenticationFailed) -> None:
        """Fail the consumer's next poll."""
        self._metadata.fail(authentication_error(node, error))

    def handle_failed_request(self, now_ms: int, error: Exception | None) -> None:
        """Do nothing: this updater sends no requests."""

    def handle_response(self, body: Message, now_ms: int) -> None:
        """Do nothing: this updater sends no requests."""

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Return False: the consumer's own client gives up the nodes, and this client then sees the new ones."""
        return False

    def rebootstrap(self, now_ms: int) -> None:
        """Do nothing: the consumer's own client does it."""


class ListenerCalls:
    """The calls of one consumer's listener, on the consumer's thread, no lock held.

    Each method returns the listener's exception, or None: an exception is not raised, because the rebalance has to end
    first.
    """

    def __init__(
        self, subscriptions: SubscriptionState, metrics: CoordinatorMetrics, now_ms: Callable[[], int]
    ) -> None:
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._now_ms = now_ms

    def assigned(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions are new. The listener is called even if there are none, as in Kafka."""
        ordered = sorted(partitions)
        logger.info("Adding newly assigned partitions: %s", ", ".join(map(str, ordered)))
        listener = self._subscriptions.listener
        return None if listener is None else self._call(ListenerCall.ASSIGNED, listener.on_partitions_assigned, ordered)

    def revoked(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions go to other members."""
        ordered = sorted(partitions)
        logger.info("Revoke previously assigned partitions %s", ", ".join(map(str, ordered)))
        listener = self._subscriptions.listener
        return None if listener is None else self._call(ListenerCall.REVOKED, listener.on_partitions_revoked, ordered)

    def lost(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions may have other owners already, if there are any."""
        ordered = sorted(partitions)
        listener = self._subscriptions.listener
        if not ordered:
            return None
        logger.info("Lost previously assigned partitions %s", ", ".join(map(str, ordered)))
        return None if listener is None else self._call(ListenerCall.LOST, listener.on_partitions_lost, ordered)

    def _call(
        self,
        call: ListenerCall,
        method: Callable[[Sequence[TopicPartition]], None],
        partitions: list[TopicPartition],
    ) -> Exception | None:
        began_ms = self._now_ms()
        try:
            method(partitions)
        except Exception as error:  # the user's error, raised again when the rebalance is in order
            logger.exception("User provided listener failed on %s", getattr(method, "__name__", method))
            return error
        now_ms = self._now_ms()
        self._metrics.listener_called(call, now_ms - began_ms, now_ms)
        return None


class GroupClient:
    """The parts of one consumer. `backoff` is that of retries, `channel` the connection to the coordinator."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        subscriptions: SubscriptionState,
        client: BlockingClient,
        waiting: ConsumerWaiting,
        *,
        exclude_internal_topics: bool = True,
    ) -> None:
        self.config = config
        self.subscriptions = subscriptions
        self.client = client
        self.waiting = waiting
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, client.random)
        self.channel = CoordinatorChannel(
            config, client.make_network(_SharedNodes(client.metadata)), self.backoff, client.network.wakeup
        )
        self.topics = FollowedTopics(
            client, subscriptions, config.client_rack, exclude_internal=exclude_internal_topics
        )
        self.listener = ListenerCalls(subscriptions, self.channel.metrics, client.now_ms)

    def make_new_connections(self) -> None:
        """Give the channel new connections, in a forked child."""
        self.channel.forked(self.client.make_network(_SharedNodes(self.client.metadata)))
