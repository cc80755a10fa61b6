"""A NetworkClient on a scripted selector: a test says what its peers answer, and polls."""

from __future__ import annotations

from typing import Any

from barnabas.config.secret import Secret
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.security.sasl.client.client_authenticator import SaslClientAuthenticator, SaslLogin
from barnabas.security.sasl.client.plain_client import PlainClient
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, all_versions

NODES = [Node(0, "a", 9092), Node(1, "b", 9092), Node(2, "c", 9092)]


class Setting:
    def __init__(self, **config: Any) -> None:
        self.names = {"a": ["10.0.0.1", "10.0.0.2"]}
        """The addresses of host names; others have those of "a"."""
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.updater = ManualMetadataUpdater(NODES)
        self.client = NetworkClient(
            self.selector,
            self.updater,
            NetworkClientConfig(client_id="test", **config),
            self.clock,
            resolve=lambda host, port: self.names.get(host, self.names["a"]),
        )
        self.answers: list[ClientResponse] = []

    @property
    def now(self) -> int:
        return self.client.now_ms()

    def poll(self) -> list[ClientResponse]:
        return self.client.poll(100, self.now)

    def make_ready(self, node: Node = NODES[0], versions: ApiVersionsResponse | None = None) -> None:
        assert not self.client.ready(node, self.now)
        self.poll()
        request = self.selector.sent.pop()
        self.selector.answer(request, versions or all_versions(MetadataRequest, ProduceRequest))
        self.poll()
        assert self.client.ready(node, self.now)

    def send(self, node: Node = NODES[0], **options: Any) -> None:
        request = self.client.new_request(
            node.id, MetadataRequest(topics=None), callback=self.answers.append, **options
        )
        self.client.send(request, self.now)


LIFE_MS = 10_000
RENEWAL_MS = 8_500


def authenticator(lifetime_ms: int = LIFE_MS) -> SaslClientAuthenticator:
    """An authenticator that has logged in."""
    made = SaslClientAuthenticator(SaslLogin("PLAIN", lambda: PlainClient("alice", Secret("pencil"))), "client")
    made.session_lifetime_ms = lifetime_ms
    return made
