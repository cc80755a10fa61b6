"""The current leader of a partition, for answers that send a client elsewhere (KIP-951).

Made by the Produce and Fetch handlers for one answer that holds such an error, on that answer's thread; no lock.

Kafka: KafkaApis.getCurrentLeader.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partitions.hosted_partitions import HostedPartitions


class KnownLeader(NamedTuple):
    """The leader of a partition and its epoch; -1 for what is unknown."""

    id: int
    epoch: int


NO_LEADER: Final = KnownLeader(-1, -1)


class LeaderNode(NamedTuple):
    """A live leader and its address on the client's listener."""

    id: int
    host: str
    port: int
    rack: str | None


class CurrentLeaders:
    """Collects the leaders that one answer names, and their addresses."""

    __slots__ = ("_hosted", "_image", "_listener_name", "_nodes")

    def __init__(self, hosted: HostedPartitions, image: MetadataImage, listener_name: str) -> None:
        self._hosted = hosted
        self._image = image
        self._listener_name = listener_name
        self._nodes: dict[int, LeaderNode] = {}

    def leader_of(self, topic: str, partition: int) -> KnownLeader:
        """Return the leader as the replica here knows it, else as the metadata says."""
        leader = self._known_here(topic, partition)
        # Only a broker with an address on the client's own listener: the client may not reach any other address.
        broker = self._image.brokers.get(leader.id)
        if broker is not None and self._listener_name in broker.endpoints:
            self._nodes[leader.id] = LeaderNode(leader.id, *broker.endpoints[self._listener_name], broker.rack)
        return leader

    def nodes(self) -> list[LeaderNode]:
        """Return the leaders named so far that can be reached."""
        return list(self._nodes.values())

    def _known_here(self, topic: str, partition: int) -> KnownLeader:
        try:
            state = self._hosted.partition_or_error(topic, partition).state
        except ApiError:
            state = None
        if state is not None:
            return KnownLeader(state.leader_id, state.leader_epoch)
        known = self._image.partition(TopicPartition(topic, partition))
        return NO_LEADER if known is None else KnownLeader(known.leader, known.leader_epoch)
