"""The newer leaders that answers to Produce and Fetch name beside an error (KIP-951), and the view that follows.

Made for one answer, on the thread that handles it; no lock. `ClusterMetadata` calls `merge_leaders` under its
condition. A client that takes a hint over retries at the new leader at once, without a Metadata request in between.
Kafka: Metadata.updatePartitionLeadership.

    partition t-0, leader 1 in epoch 4 as far as the client knows
    Produce to 1    NOT_LEADER_OR_FOLLOWER, current_leader (2, 5), node_endpoints [2 at b:9092]
    merge_leaders   t-0: leader 2 in epoch 5; node 2 at b:9092
    Produce to 2    the next turn, without a wait
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.metadata.cluster import Cluster, PartitionInfo
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node

if TYPE_CHECKING:
    from barnabas.protocol.messages.fetch import FetchResponse
    from barnabas.protocol.messages.produce import ProduceResponse

    NamedLeader = ProduceResponse.LeaderIdAndEpoch | FetchResponse.LeaderIdAndEpoch
    NodeEndpoint = ProduceResponse.NodeEndpoint | FetchResponse.NodeEndpoint

_UNKNOWN = -1
"""As node id or epoch: the broker does not know it."""


class MergedLeaders(NamedTuple):
    """The view with the new leaders, and the partitions whose leader is new."""

    cluster: Cluster
    changed: frozenset[TopicPartition]


class LeaderHints:
    """The leaders that one answer names, and the addresses of the nodes."""

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
    touched = {topic for topic, _ in changed}
    topics = {
        name: [changed.get(TopicPartition(name, info.partition), info) for info in infos] if name in touched else infos
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
