"""The functions that make a connected socket's transport and authenticator, by security protocol.

Handed to every Selector; called on its thread for each new connection. Pure; no lock. Kafka: ChannelBuilder,
PlaintextChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.transport.authenticator import Authenticator, PlaintextAuthenticator
from barnabas.transport.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer

ChannelBuilder = Callable[[StreamSocket], tuple[TransportLayer, Authenticator]]
ClientChannelBuilder = Callable[[str], ChannelBuilder]
"""Returns the builder of a connection to a host, given the host's name as the client's user knows it."""


def plaintext_channel(stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
    """Build a PLAINTEXT channel: no handshake, every peer is ANONYMOUS."""
    return PlaintextTransportLayer(stream_socket), PlaintextAuthenticator()
