"""The connection of one fetcher thread to the leader it copies from.

`LeaderEndPoint` is what the thread needs; RemoteLeader sends its requests over a PeerConnection, in the versions of
Kafka 3.9: brokers of a ZooKeeper cluster do not ask each other for their versions. Owned by the fetcher's thread, no
lock; `initiate_close` alone may be called from another thread. Tests put a leader of the same process here.

Kafka: LeaderEndPoint, RemoteLeaderEndPoint, BrokerBlockingSender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.fetch import FetchResponse, PartitionData
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import Node
from barnabas.rpc.fetch_request import FetchLimits
from barnabas.rpc.fetch_session_handler import FetchSessionHandler, WantedPositions
from barnabas.rpc.peer_connection import PeerConnection
from barnabas.storage.log.timestamp_search import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 7
TRUSTED_MS: Final = 50
"""A follower asks again as soon as it has an answer: the poll that brought it has looked at the connection, too."""


FetchedPartitions: TypeAlias = dict[TopicPartition, PartitionData]
"""A leader's answers, one for each partition."""


class LeaderEndPoint(Protocol):
    """A leader as its fetcher sees it. Every call blocks, and raises ConnectionLost when no answer comes."""

    def fetch(self, positions: WantedPositions) -> FetchedPartitions:
        """Return the answers for exactly these partitions; those of a session that have not changed are left out.

        The records are views that may be used until the next call of any method.
        """

    def earliest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        """Return where the leader's log starts. Raises ApiError: the leader's error."""

    def latest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        """Return where the leader's log ends. Raises ApiError: the leader's error."""

    def initiate_close(self) -> None:
        """End the call that waits, and all later ones. Any thread may call it."""

    def close(self) -> None:
        """Close the connection."""


class RemoteLeader:
    """A leader on another broker. limits: sizes and waiting time of a fetch, with the id and epoch of this broker."""

    def __init__(
        self,
        node: Node,
        connection: PeerConnection,
        limits: Callable[[], FetchLimits],
        replica_id: int,
        timeout_ms: int,
    ) -> None:
        self._node = node
        self._connection = connection
        self._limits = limits
        self._replica_id = replica_id
        self._timeout_ms = timeout_ms
        self._session = FetchSessionHandler(node.id)

    def fetch(self, positions: WantedPositions) -> FetchedPartitions:
        """Fetch in the session with this leader.

        Returns nothing when the leader does not accept the session's request; the next one begins another session.
        Raises ConnectionLost.
        """
        session = self._session
        request = session.build_changes(positions)
        version = request.last_version(FETCH_VERSION)
        try:
            response = self._exchange(request.request(self._limits(), version), version)
        except Exception:
            session.handle_error()
            raise
        assert isinstance(response, FetchResponse)
        partitions = session.partitions_of(response, version)
        return partitions if session.handle_response(response, version, partitions.keys()) else {}

    def earliest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        """Return where the leader's log starts. Raises ApiError, ConnectionLost."""
        return self._list_offset(partition, leader_epoch, EARLIEST_TIMESTAMP)

    def latest_offset(self, partition: TopicPartition, leader_epoch: int) -> int:
        """Return where the leader's log ends. Raises ApiError, ConnectionLost."""
        return self._list_offset(partition, leader_epoch, LATEST_TIMESTAMP)

    def initiate_close(self) -> None:
        """End the call that waits, and all later ones."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _list_offset(self, partition: TopicPartition, leader_epoch: int, timestamp: int) -> int:
        wanted = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        topic = ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=self._replica_id, topics=[topic])
        response = self._exchange(request, LIST_OFFSETS_VERSION)
        assert isinstance(response, ListOffsetsResponse)
        for answered in (each for topic_answer in response.topics for each in topic_answer.partitions):
            if answered.partition_index == partition.partition:
                error = error_of(answered.error_code)
                if error is not ErrorCode.NONE:
                    raise ApiError(error)
                return answered.offset
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self._node} left {partition} out of its answer")

    def _exchange(self, request: Message, version: int) -> Message:
        """Send, and wait for the answer. Raises ConnectionLost."""
        self._connection.await_ready(self._timeout_ms, trusted_ms=TRUSTED_MS)
        return self._connection.call(request, version)
