"""How a client gets back to its cluster when the brokers that it knows are gone (KIP-899, KIP-1102)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.metadata.metadata_updater import ClusterMetadataUpdater
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.transport.channel.kafka_channel import ChannelState
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest, all_versions

BOOTSTRAP = (Node(-1, "old", 1), Node(-2, "new", 1))


class Setting:
    """A client that has found the brokers 0 and 1. `metadata_error` is the error of the next answer."""

    def __init__(self, **config: Any) -> None:
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.responder = self._respond
        self.metadata_error = ErrorCode.NONE
        self.answers_metadata = True
        self.metadata = ClusterMetadata(BOOTSTRAP, ClientConfig(**config).metadata_config(), Random(1))
        self.client = NetworkClient(
            self.selector,
            ClusterMetadataUpdater(self.metadata, request_timeout_ms=30_000),
            # All brokers have to be in their wait at once: longer than the wait before the next update.
            NetworkClientConfig(reconnect_backoff_ms=1_000, reconnect_backoff_max_ms=10_000),
            self.clock,
            Random(1),
            resolve=lambda host, port: (host,),
        )
        self.turns()
        assert not self.metadata.cluster.is_bootstrap

    def _respond(self, request: SentRequest) -> Message | None:
        if request.header.api_key == ApiKey.API_VERSIONS:
            return all_versions(MetadataRequest)
        if not self.answers_metadata:
            return None
        if self.metadata_error:
            error, self.metadata_error = self.metadata_error, ErrorCode.NONE
            return MetadataResponse(error_code=int(error))
        return metadata_response({}, 2)

    def turns(self, count: int = 8, *, advance_ms: int = 0) -> None:
        for _ in range(count):
            self.client.poll(0, self.client.now_ms())
            self.clock.advance(advance_ms)

    def connect(self, node: Node) -> None:
        for _ in range(4):
            self.client.ready(node, self.client.now_ms())
            self.client.poll(0, self.client.now_ms())
        assert self.client.can_send_request(node.id, self.client.now_ms())

    def lose_all(self) -> None:
        """Lose every connection, and let no new one to the known brokers be made."""
        self.selector.refused |= {"0", "1"}
        for connection_id in list(self.selector.channels):
            self.selector.disconnect(connection_id, ChannelState.READY)

    def hosts_tried(self) -> list[str]:
        return [address[0] for _, address in self.selector.attempts]


def test_a_client_that_reaches_no_known_broker_asks_its_bootstrap_servers_again() -> None:
    setting = Setting()
    setting.lose_all()
    setting.selector.attempts.clear()
    setting.turns(100, advance_ms=50)
    assert {"old", "new"} & set(setting.hosts_tried())
    assert not setting.metadata.cluster.is_bootstrap, "and has found the cluster again"


def test_without_recovery_only_the_known_brokers_are_tried() -> None:
    setting = Setting(metadata_recovery_strategy="none")
    setting.lose_all()
    setting.selector.attempts.clear()
    setting.turns(100, advance_ms=50)
    assert set(setting.hosts_tried()) == {"127.0.0.1"}


def test_a_broker_that_requires_it_makes_the_client_close_its_connections_and_bootstrap() -> None:
    setting = Setting()
    setting.connect(Node(0, "127.0.0.1", 9092))
    setting.clock.advance(1_000)
    setting.metadata_error = ErrorCode.REBOOTSTRAP_REQUIRED
    setting.metadata.request_update()
    setting.selector.attempts.clear()
    setting.turns(2)
    assert setting.metadata.cluster.is_bootstrap
    assert "0" in setting.selector.closed
    # The back-off that the closed connection begins.
    setting.clock.advance(125)
    setting.turns()
    assert not setting.metadata.cluster.is_bootstrap


def test_without_recovery_a_demand_to_bootstrap_is_a_failed_update() -> None:
    setting = Setting(metadata_recovery_strategy="none")
    setting.connect(Node(0, "127.0.0.1", 9092))
    setting.metadata_error = ErrorCode.REBOOTSTRAP_REQUIRED
    setting.clock.advance(1_000)
    setting.metadata.request_update()
    setting.turns(2)
    assert not setting.metadata.cluster.is_bootstrap
    assert setting.metadata.update_requested()
    assert setting.metadata.time_to_next_update_ms(setting.client.now_ms()) > 0, "the next one waits"


@pytest.mark.parametrize(("strategy", "expected"), [("rebootstrap", True), ("none", False)])
def test_brokers_that_never_answer_are_given_up_after_the_trigger(strategy: str, expected: bool) -> None:
    setting = Setting(metadata_recovery_strategy=strategy, metadata_recovery_rebootstrap_trigger_ms=5_000)
    setting.connect(Node(0, "127.0.0.1", 9092))
    setting.clock.advance(1_000)
    setting.answers_metadata = False
    setting.metadata.request_update()
    setting.turns(10, advance_ms=500)
    assert not setting.metadata.cluster.is_bootstrap, "5 s are not over"
    setting.turns(4, advance_ms=500)
    assert setting.metadata.cluster.is_bootstrap is expected
    assert ("0" in setting.selector.closed) is expected


def test_an_answer_ends_the_wait_for_the_trigger() -> None:
    setting = Setting(metadata_recovery_rebootstrap_trigger_ms=5_000)
    for _ in range(5):
        setting.clock.advance(3_000)
        setting.metadata.request_update()
        setting.turns()
    assert not setting.metadata.cluster.is_bootstrap
