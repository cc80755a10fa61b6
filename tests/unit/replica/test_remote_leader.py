"""The connection to a leader: the buffer of an answer is free again before the next request is sent."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.fetcher.leader_end_point import RemoteLeader
from barnabas.rpc.connection_states import Node
from barnabas.rpc.fetch_request import FetchLimits, FetchPosition
from barnabas.rpc.fetch_session_handler import WantedPositions
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.peer_connection import PeerConnection
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest

NODE = Node(7, "127.0.0.1", 9092)
TOPIC_ID = bytes(range(16))
POSITIONS = WantedPositions()
POSITIONS.put(FetchPosition(TopicPartition("t", 0), 0, 1_000_000, 0, TOPIC_ID))
LIMITS = FetchLimits(500, 1, 10_000_000)


class Leader:
    """A leader with one batch of records, which notes when its answers' buffers are given back."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.releases: list[weakref.ref[Callable[[], None]]] = []
        self.selector = ScriptedSelector(MockClock())
        self.selector.responder = self._answer
        self.selector.passes_time = True
        self.connection = PeerConnection(NODE, self.selector, NetworkClientConfig(), self.selector.clock)

    def _answer(self, request: SentRequest) -> Message:
        assert request.channel is not None

        def release() -> None:
            self.events.append("given back")

        request.channel.release = release
        self.releases.append(weakref.ref(release))
        self.events.append("asked")
        data = FetchResponse.PartitionData(partition_index=0, high_watermark=1, records=b"the records")
        topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return FetchResponse(session_id=5, responses=[topic])


def test_a_buffer_is_given_back_before_the_next_request() -> None:
    leader = Leader()
    remote = RemoteLeader(NODE, leader.connection, lambda: LIMITS, 1, 30_000)
    for _ in range(2):
        (data,) = remote.fetch(POSITIONS).values()
        assert data.records == b"the records"
    assert leader.events == ["asked", "given back", "asked"]
    remote.close()
    remote.close()
    assert leader.events == ["asked", "given back", "asked", "given back"]


def test_nothing_of_an_exchange_waits_for_a_collection() -> None:
    leader = Leader()
    remote = RemoteLeader(NODE, leader.connection, lambda: LIMITS, 1, 30_000)
    gc.disable()
    try:
        remote.fetch(POSITIONS)
        remote.fetch(POSITIONS)
        assert leader.releases[0]() is None, "the first answer is still held"
    finally:
        gc.enable()
