"""Metadata answers and snapshots for client tests: brokers 0..n-1 at 127.0.0.1:9092, leaders by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.metadata.cluster import Cluster, PartitionInfo
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.rpc.connection_states import Node


def metadata_response(
    topics: Mapping[str, Sequence[int] | int], brokers: int = 1, *, epoch: int = 0, topic_id: bytes = b"\1" * 16
) -> MetadataResponse:
    """`topics`: the leader of each partition, or a topic's error code."""
    return MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(number, "127.0.0.1", 9092) for number in range(brokers)],
        cluster_id="cluster",
        controller_id=0,
        topics=[_topic(name, leaders, epoch, topic_id) for name, leaders in topics.items()],
    )


def _topic(
    name: str, leaders: Sequence[int] | int, epoch: int, topic_id: bytes
) -> MetadataResponse.MetadataResponseTopic:
    if isinstance(leaders, int):
        return MetadataResponse.MetadataResponseTopic(error_code=leaders, name=name)
    partitions = [
        MetadataResponse.MetadataResponsePartition(
            partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader], isr_nodes=[leader]
        )
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponse.MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)


def cluster_of(topics: Mapping[str, Sequence[int]], brokers: int = 1) -> Cluster:
    """A snapshot in which partition i of a topic has leader `topics[topic][i]` (-1: none)."""
    return Cluster(
        [Node(number, "127.0.0.1", 9092) for number in range(brokers)],
        {
            name: [
                PartitionInfo(name, index, leader, 0, (leader,), (leader,), ()) for index, leader in enumerate(leaders)
            ]
            for name, leaders in topics.items()
        },
    )
