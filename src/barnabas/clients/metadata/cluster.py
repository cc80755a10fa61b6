"""A snapshot of a cluster as the last metadata answers describe it, and what an answer changes in it.

A snapshot is immutable: ClusterMetadata replaces it as a whole, and every thread reads it without a lock. The topics of
interest, `merge` and `merge_leaders` are called under ClusterMetadata's condition. Times are passed in.
The admin client and the Spark source read the topics of an answer without a view (`topic_descriptions`).
Kafka: Cluster, MetadataSnapshot, Metadata, ProducerMetadata, ConsumerMetadata.

Answers to Produce and Fetch name a newer leader beside an error (KIP-951). A client that takes the hint retries at the
new leader at once, without a Metadata request in between (Kafka: Metadata.updatePartitionLeadership):

    partition t-0, leader 1 in epoch 4 as far as the client knows
    Produce to 1    NOT_LEADER_OR_FOLLOWER, current_leader (2, 5), node_endpoints [2 at b:9092]
    merge_leaders   t-0: leader 2 in epoch 5; node 2 at b:9092
    Produce to 2    the next turn, without a wait
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from barnabas.clients.errors import INVALID_METADATA_ERRORS, raise_error
from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.connection_states import Node

if TYPE_CHECKING:
    from barnabas.protocol.messages.fetch import FetchResponse
    from barnabas.protocol.messages.produce import ProduceResponse

    NamedLeader = ProduceResponse.LeaderIdAndEpoch | FetchResponse.LeaderIdAndEpoch
    NodeEndpoint = ProduceResponse.NodeEndpoint | FetchResponse.NodeEndpoint

logger = logging.getLogger(__name__)


class PartitionInfo(NamedTuple):
    """One partition. `leader` is a node id, -1 for none; `leader_epoch` is -1 from old brokers."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]

    @classmethod
    def of(cls, topic: str, partition: MetadataResponse.MetadataResponsePartition) -> Self:
        """Return a partition as a metadata answer describes it."""
        return cls(
            topic,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )


class Cluster:
    """The nodes and the requested topics. `topic_errors` has the topics that the broker cannot describe."""

    __slots__ = (
        "_available",
        "_leaders",
        "_partitions",
        "cluster_id",
        "controller_id",
        "is_bootstrap",
        "nodes",
        "topic_errors",
        "topic_ids",
        "topics",
    )

    def __init__(
        self,
        nodes: Sequence[Node],
        topics: Mapping[str, Sequence[PartitionInfo]] = MappingProxyType({}),
        *,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topic_ids: Mapping[str, bytes] = MappingProxyType({}),
        topic_errors: Mapping[str, ErrorCode] = MappingProxyType({}),
        is_bootstrap: bool = False,
    ) -> None:
        self.nodes: Mapping[int, Node] = {node.id: node for node in nodes}
        self.topics: Mapping[str, tuple[PartitionInfo, ...]] = {
            topic: tuple(sorted(partitions, key=lambda info: info.partition)) for topic, partitions in topics.items()
        }
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topic_ids = topic_ids
        self.topic_errors = topic_errors
        self.is_bootstrap = is_bootstrap
        # All three are computed once here, because a producer looks them up for every record, or for every batch.
        self._partitions = {
            TopicPartition(topic, info.partition): info
            for topic, partitions in self.topics.items()
            for info in partitions
        }
        self._leaders = {
            TopicPartition(topic, info.partition): self.nodes[info.leader]
            for topic, partitions in self.topics.items()
            for info in partitions
            if info.leader in self.nodes
        }
        self._available = {
            topic: tuple(info.partition for info in partitions if info.leader in self.nodes)
            for topic, partitions in self.topics.items()
        }

    def leader(self, topic_partition: TopicPartition) -> Node | None:
        """Return the leader, or None if it is unknown or not alive."""
        return self._leaders.get(topic_partition)

    def partition_count(self, topic: str) -> int | None:
        """Return how many partitions the topic has, or None for an unknown topic."""
        partitions = self.topics.get(topic)
        return None if partitions is None else len(partitions)

    def available_partitions(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of the topic that have a leader."""
        return self._available.get(topic, ())

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return the description of a partition, or None for an unknown one."""
        return self._partitions.get(topic_partition)

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """Return the epoch of the leader, -1 for an unknown partition and from old brokers."""
        info = self._partitions.get(topic_partition)
        return -1 if info is None else info.leader_epoch

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id: 16 bytes, zeros when the broker gave none."""
        return self.topic_ids.get(topic, ZERO_UUID)

    @property
    def controller(self) -> Node | None:
        """The controller, or None if it is unknown."""
        return self.nodes.get(self.controller_id)


_UNKNOWN = -1
"""As node id or epoch: the broker does not know it."""


class MergedLeaders(NamedTuple):
    """The view with the new leaders, and the partitions whose leader is new."""

    cluster: Cluster
    changed: frozenset[TopicPartition]


class LeaderHints:
    """The leaders that one answer names, and the addresses of the nodes. Used on the thread that handles the answer."""

    __slots__ = ("leaders", "nodes")

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, NamedLeader] = {}
        self.nodes: dict[int, Node] = {}

    def __bool__(self) -> bool:
        return bool(self.leaders)

    def add(self, topic_partition: TopicPartition, leader: NamedLeader | None) -> None:
        """Note the leader of a partition, if the answer names one with its epoch."""
        if leader is not None and _UNKNOWN not in (leader.leader_id, leader.leader_epoch):
            self.leaders[topic_partition] = leader

    def add_nodes(self, endpoints: Iterable[NodeEndpoint]) -> None:
        """Note the addresses of leaders. An endpoint without host or port names no node."""
        for each in endpoints:
            if each.host and each.port > 0:
                self.nodes[each.node_id] = Node(each.node_id, each.host, each.port, each.rack)


def merge_leaders(old: Cluster, hints: LeaderHints) -> MergedLeaders:
    """Return the view with those leaders of `hints` that are of a later epoch than the view's.

    A hint for a partition that the view does not have is left out, and one whose leader's address is unknown.
    """
    nodes = {**old.nodes, **hints.nodes}
    changed: dict[TopicPartition, PartitionInfo] = {}
    for topic_partition, leader in hints.leaders.items():
        info = old.partition(topic_partition)
        if info is not None and leader.leader_epoch > info.leader_epoch and leader.leader_id in nodes:
            changed[topic_partition] = info._replace(leader=leader.leader_id, leader_epoch=leader.leader_epoch)
    if not changed:
        return MergedLeaders(old, frozenset())
    moved = {topic for topic, _ in changed}
    topics = {
        name: [changed.get(TopicPartition(name, info.partition), info) for info in infos] if name in moved else infos
        for name, infos in old.topics.items()
    }
    cluster = Cluster(
        list(nodes.values()),
        topics,
        cluster_id=old.cluster_id,
        controller_id=old.controller_id,
        topic_ids=old.topic_ids,
        topic_errors=old.topic_errors,
    )
    return MergedLeaders(cluster, frozenset(changed))


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


class TopicDescription(NamedTuple):
    """A topic as a broker describes it. `topic_id` is 16 bytes."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


def topics_request(names: Sequence[str] | None) -> MetadataRequest:
    """Return the request for these topics, or for all."""
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    # A look at a topic must not create it, whatever the broker's auto.create.topics.enable is.
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def topic_names(answer: MetadataResponse, *, include_internal: bool = False) -> list[str]:
    """Return the names of all topics, sorted."""
    return sorted(topic.name for topic in answer.topics if topic.name and (include_internal or not topic.is_internal))


def topic_descriptions(answer: MetadataResponse) -> dict[str, TopicDescription]:
    """Return the topics by name. Raises ApiError for a topic that does not exist or may not be described."""
    described = {}
    for topic in answer.topics:
        raise_error(topic.error_code, None, f"Topic: {topic.name}")
        name = topic.name or ""
        partitions = tuple(
            PartitionInfo.of(name, partition)
            # Brokers list partitions in any order.
            for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
        )
        described[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
    return described
