"""Connections of a simulated producer that break, and the network client over them.

Used by test_deliveries.py and test_transaction_deliveries.py. On the test's thread.
"""

from __future__ import annotations

import collections
from abc import abstractmethod
from random import Random

from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.metadata.metadata_updater import ClusterMetadataUpdater
from barnabas.protocol.messages.message import Message
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest

REQUEST_TIMEOUT_MS = 200
RECONNECT_BACKOFF_MS = 5
RECONNECT_BACKOFF_MAX_MS = 20


class BreakingConnections(ScriptedSelector):
    """Keeps the answers that are under way, and loses them with their connection."""

    def __init__(self, clock: MockClock, chance: Random) -> None:
        super().__init__(clock)
        self.chance = chance
        self.answers: dict[str, list[tuple[SentRequest, Message]]] = collections.defaultdict(list)
        self.breaks = 0

    @abstractmethod
    def handle(self, request: SentRequest) -> Message | None:
        """Let the node handle a request. Returns the answer, None when the node never gives one."""

    def break_connection(self, connection_id: str) -> None:
        if connection_id not in self._next_disconnected:
            self.breaks += 1
            self._lose(connection_id)
            self.disconnect(connection_id)

    def close(self, connection_id: str) -> None:
        self._lose(connection_id)
        super().close(connection_id)

    def _lose(self, connection_id: str) -> None:
        """The node may still handle requests that it has received; their answers are lost, like those under way."""
        waiting = [request for request in self.sent if request.connection_id == connection_id]
        self.sent = [request for request in self.sent if request.connection_id != connection_id]
        for request in waiting[: self.chance.randint(0, len(waiting))]:
            self.handle(request)
        self.answers.pop(connection_id, None)
        if connection_id in self.channels:
            self.channels[connection_id].frames.clear()


def network_client(connections: BreakingConnections, metadata: ClusterMetadata, max_in_flight: int) -> NetworkClient:
    """Return the client of a simulated producer."""
    return NetworkClient(
        connections,
        ClusterMetadataUpdater(
            metadata, request_timeout_ms=REQUEST_TIMEOUT_MS, reconnect_backoff_ms=RECONNECT_BACKOFF_MS
        ),
        NetworkClientConfig(
            max_in_flight=max_in_flight,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
        ),
        connections.clock,
        resolve=lambda host, port: (host,),
    )
