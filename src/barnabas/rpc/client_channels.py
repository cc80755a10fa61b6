"""The channels of a client by its security protocol: TLS, a login, both or neither.

Made with a client, of its settings; immutable, and called by the threads of its Selectors for each connection.
Kafka: ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

from functools import partial

from barnabas.security.sasl.client.client_authenticator import SaslClientAuthenticator, SaslLogin
from barnabas.security.tls.tls_contexts import TlsClient
from barnabas.transport.channel.authenticator import Authenticator, ChannelBuilder, PlaintextAuthenticator
from barnabas.transport.channel.transport_layer import PlaintextTransportLayer, StreamSocket, TransportLayer


class ClientChannels:
    """A ClientChannelBuilder. tls: None for a transport in plaintext; login: None without SASL."""

    def __init__(self, tls: TlsClient | None, login: SaslLogin | None, client_id: str) -> None:
        self._tls = tls
        self._login = login
        self._client_id = client_id

    def __call__(self, host: str) -> ChannelBuilder:
        """Return the builder of a connection to a host."""
        return partial(self._build, host)

    def _build(self, host: str, stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
        transport: TransportLayer = (
            PlaintextTransportLayer(stream_socket) if self._tls is None else self._tls.transport(stream_socket, host)
        )
        if self._login is None:
            return transport, PlaintextAuthenticator()
        return transport, SaslClientAuthenticator(self._login, self._client_id)
