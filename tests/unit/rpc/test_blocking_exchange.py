"""Waiting for a connection: one attempt a call, however soon the client might try again."""

from __future__ import annotations

import pytest

from barnabas.rpc.blocking_exchange import ConnectionLost, await_ready
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from barnabas.rpc.node import Node
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector

NODE = Node(7, "127.0.0.1", 9092)


def test_a_connection_that_was_lost_since_the_last_request_is_made_again() -> None:
    clock = MockClock()
    selector = ScriptedSelector(clock)
    config = NetworkClientConfig(client_id="0", discover_broker_versions=False, reconnect_backoff_ms=0)
    client = NetworkClient(selector, ManualMetadataUpdater([NODE]), config, clock)
    await_ready(client, NODE, 30_000, lambda: True)
    selector.disconnect(str(NODE.id))
    clock.advance(1_000)
    await_ready(client, NODE, 30_000, lambda: True)
    assert len(selector.attempts) == 2


def test_a_refused_connection_is_reported_at_once_by_a_client_without_backoff() -> None:
    clock = MockClock()
    selector = ScriptedSelector(clock)
    selector.passes_time = True
    selector.refused.add(str(NODE.id))
    config = NetworkClientConfig(
        client_id="0", reconnect_backoff_ms=0, reconnect_backoff_max_ms=0, discover_broker_versions=False
    )
    client = NetworkClient(selector, ManualMetadataUpdater([NODE]), config, clock)
    for attempts in (1, 2):
        with pytest.raises(ConnectionLost, match="failed"):
            await_ready(client, NODE, 30_000, lambda: True)
        assert len(selector.attempts) == attempts
    selector.refused.clear()
    await_ready(client, NODE, 30_000, lambda: True)
    assert len(selector.attempts) == 3
