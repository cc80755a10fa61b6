"""The settings of a NetworkClient or a PeerConnection.

Made by `clients` and `broker`, read by the client's thread; frozen, so no lock. Kafka: CommonClientConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.transport.channel.authenticator import ClientChannelBuilder


@dataclass(frozen=True)
class NetworkClientConfig:
    """Kafka's client settings of the same names. Times in milliseconds, -1 buffers are the system's."""

    client_id: str = ""
    max_in_flight: int = 5
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    """For the code that makes the client's selector, which closes idle connections; -1 is never."""
    send_buffer_bytes: int = 131_072
    receive_buffer_bytes: int = 65_536
    discover_broker_versions: bool = True
    """False where the peer is known to take what is sent, in its latest version: nothing is asked first."""
    channel_builder: ClientChannelBuilder | None = None
    """Makes the channels, with TLS and login (`security`); None: those of the Selector, which are plaintext."""
