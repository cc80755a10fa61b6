"""The broker's copy of the cluster's metadata: one immutable image, replaced by each UpdateMetadata request.

The handler of UpdateMetadata feeds it on a request handler's thread; every thread reads `image` without a lock. `_lock`
serialises the building of images. Subscribers are called after an image is published, without the lock, on the feeding
thread. Kafka: kafka.server.metadata.ZkMetadataCache.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from barnabas.metadata.metadata_image import (
    NO_CONTROLLER,
    BrokerMetadata,
    MetadataImage,
    PartitionMetadata,
    TopicMetadata,
)
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.zk.znodes.topic_zk_data import LEADER_DURING_DELETE

logger = logging.getLogger(__name__)
state_logger = logging.getLogger("state.change.logger")

MetadataSubscriber = Callable[[MetadataImage, MetadataImage], None]
_PartitionState = UpdateMetadataRequest.UpdateMetadataPartitionState


class MetadataCache:
    """The image. LeadershipOrders, which receives the requests, checks their epochs."""

    def __init__(self, broker_id: int, cluster_id: str | None = None) -> None:
        self.image = MetadataImage(cluster_id=cluster_id)
        self._broker_id = broker_id
        self._lock = threading.Lock()
        self._subscribers: tuple[MetadataSubscriber, ...] = ()

    def subscribe(self, subscriber: MetadataSubscriber) -> None:
        """Call `subscriber(old image, new image)` after every update."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

    def contains(self, topic: str) -> bool:
        """Return whether the controller has sent a topic."""
        return topic in self.image.topics

    def update_metadata(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Merge an update of the controller. Return the partitions that are being deleted (leader -2).

        Live brokers and the controller are replaced, partitions merged: an update names only those that changed.
        """
        with self._lock:
            old = self.image
            topics, deleted = _merged_topics(old.topics, request)
            new = replace(
                old,
                version=old.version + 1,
                controller_id=request.controller_id if request.controller_id >= 0 else NO_CONTROLLER,
                brokers={broker.id: _broker(broker) for broker in request.live_brokers},
                topics=topics,
                # Maps that did not change are shared between images, so that subscribers may compare them by identity.
                topic_names=old.topic_names if topics is old.topics else _renamed(old, topics, request),
            )
            # One assignment: a reader sees the whole old image or the whole new one.
            self.image = new
            subscribers = self._subscribers
        self._check_listeners(new)
        if topics is not old.topics:
            state_logger.info(
                "[Broker id=%d] Add %d partitions and deleted %d partitions from metadata cache in response to "
                "UpdateMetadata request sent by controller %d epoch %d",
                self._broker_id,
                sum(1 for _ in _partition_states(request)) - len(deleted),
                len(deleted),
                request.controller_id,
                request.controller_epoch,
            )
        for subscriber in subscribers:
            subscriber(old, new)
        return deleted

    def _check_listeners(self, image: MetadataImage) -> None:
        # A client is told the addresses of one listener, so that a broker without this listener is out of its reach.
        own = image.brokers.get(self._broker_id)
        if own is not None and any(
            broker.endpoints.keys() != own.endpoints.keys() for broker in image.brokers.values()
        ):
            logger.error("Listeners are not identical across brokers: %s", dict(image.brokers))


def _partition_states(request: UpdateMetadataRequest) -> list[tuple[str, _PartitionState]]:
    """Return (topic, state) of both layouts: by topic since version 5."""
    return [
        *((state.topic_name, state) for state in request.ungrouped_partition_states),
        *((topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states),
    ]


def _merged_topics(
    old: dict[str, TopicMetadata], request: UpdateMetadataRequest
) -> tuple[dict[str, TopicMetadata], list[TopicPartition]]:
    topic_ids = {topic.topic_name: topic.topic_id for topic in request.topic_states}
    changes: dict[str, dict[int, _PartitionState]] = {}
    for topic, state in _partition_states(request):
        changes.setdefault(topic, {})[state.partition_index] = state
    if not changes:
        return old, []
    # A copy of the map alone: the topics that the update does not name are shared with the old image.
    topics = dict(old)
    deleted: list[TopicPartition] = []
    for topic, states in changes.items():
        before = old.get(topic)
        partitions = {} if before is None else {found.partition: found for found in before.partitions}
        for index, state in states.items():
            if state.leader == LEADER_DURING_DELETE:
                partitions.pop(index, None)
                deleted.append(TopicPartition(topic, index))
            else:
                partitions[index] = _partition(state)
        if partitions:
            # An id of zeros comes from a controller that knows no ids: the known id is dropped (Kafka: newZeroIds).
            topic_id = topic_ids.get(topic, ZERO_UUID)
            topics[topic] = TopicMetadata(topic, topic_id, tuple(partitions[index] for index in sorted(partitions)))
        else:
            topics.pop(topic, None)
    return topics, deleted


def _partition(state: _PartitionState) -> PartitionMetadata:
    return PartitionMetadata(
        state.partition_index,
        state.leader,
        state.leader_epoch,
        tuple(state.replicas),
        tuple(state.isr),
        tuple(state.offline_replicas),
        state.zk_version,
    )


def _broker(broker: UpdateMetadataRequest.UpdateMetadataBroker) -> BrokerMetadata:
    endpoints = {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in broker.endpoints}
    return BrokerMetadata(broker.id, -1, broker.rack, endpoints)


def _renamed(old: MetadataImage, topics: dict[str, TopicMetadata], request: UpdateMetadataRequest) -> dict[bytes, str]:
    """Return the names by topic id after an update: only the topics in the update can have changed."""
    names = dict(old.topic_names)
    for name in {name for name, _ in _partition_states(request)}:
        before, after = old.topics.get(name), topics.get(name)
        # Removed first: a topic that was made again under its old name has another id.
        if before is not None:
            names.pop(before.topic_id, None)
        if after is not None and after.topic_id != ZERO_UUID:
            names[after.topic_id] = name
    return names
