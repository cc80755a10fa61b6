"""ClientConnectionConfig: what reaches the connections of each kind of client, and the errors for wrong settings."""

from __future__ import annotations

import pytest

from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.settings.client_config import ClientConfig, ClientConnectionConfig
from barnabas.rpc.connection_states import Node
from barnabas.rpc.metadata_updater import ManualMetadataUpdater
from barnabas.rpc.network_client import NetworkClient
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector


def test_set_up_timeouts_reach_the_connections() -> None:
    config = ClientConnectionConfig(socket_connection_setup_timeout_ms=5, socket_connection_setup_timeout_max_ms=7)
    network = config.network_config()
    assert (network.connection_setup_timeout_ms, network.connection_setup_timeout_max_ms) == (5, 7)
    defaults = ClientConnectionConfig().network_config()
    assert (defaults.connection_setup_timeout_ms, defaults.connection_setup_timeout_max_ms) == (10_000, 30_000)


@pytest.mark.parametrize(
    ("config_class", "receive_buffer_bytes"), [(ClientConfig, 65_536), (ProducerConfig, 32_768), (ConsumerConfig, -1)]
)
def test_buffer_sizes_reach_the_sockets(config_class: type[ClientConnectionConfig], receive_buffer_bytes: int) -> None:
    defaults = config_class().network_config()
    assert (defaults.send_buffer_bytes, defaults.receive_buffer_bytes) == (131_072, receive_buffer_bytes)
    network = config_class(send_buffer_bytes=1_000, receive_buffer_bytes=-1).network_config()
    clock = MockClock()
    selector = ScriptedSelector(clock)
    client = NetworkClient(selector, ManualMetadataUpdater(), network, clock, resolve=lambda *_: ("10.0.0.1",))
    client.ready(Node(0, "a", 1), client.now_ms())
    assert selector.buffer_sizes == [(1_000, -1)]


def test_the_error_for_a_wrong_name_names_the_class_that_was_made() -> None:
    with pytest.raises(
        TypeError, match="ClientConfig has no setting 'send_bufer_bytes'; did you mean 'send_buffer_bytes'"
    ):
        ClientConfig(send_bufer_bytes=1)  # type: ignore[call-arg]
