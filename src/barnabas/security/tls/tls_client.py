"""The TLS of one client: it makes the transports of connections to servers, whose certificates and names it verifies.

Made with a client, whose files are read then; immutable, so the threads of its connections share it. `transport` is for
the selectors of this project, `protected` for a library that has sockets of its own.
Kafka: SslFactory in mode CLIENT.
"""

from __future__ import annotations

import ssl
from typing import Any

from barnabas.security.tls.key_stores import load_key_store, load_trust_store
from barnabas.security.tls.tls_config import TlsConfig
from barnabas.security.tls.tls_contexts import HTTPS, client_context
from barnabas.transport.channel.tls_transport_layer import TlsTransportLayer, reason_of
from barnabas.transport.channel.transport_layer import StreamSocket


class TlsRefused(Exception):
    """One side refuses the other: its certificate, its name, or what it speaks. Another attempt would fail, too."""


class TlsClient:
    """The maker of a client's TLS transports."""

    def __init__(self, config: TlsConfig, endpoint_identification: str = HTTPS) -> None:
        """endpoint_identification: `https` to verify the server's name, empty to trust any name.

        Raises ConfigError: a store is missing or cannot be used, or a setting is wrong.
        """
        self._context = client_context(
            config, load_key_store(config.keystore), load_trust_store(config.truststore), endpoint_identification
        )

    def transport(self, stream_socket: StreamSocket, host: str) -> TlsTransportLayer:
        """Return the transport of a connection. host: a name or an address, as the user knows the server."""
        return TlsTransportLayer(stream_socket, self._context, server_side=False, server_hostname=_name_of(host))

    def protected(self, connected: Any, host: str) -> ssl.SSLSocket:
        """Return a connected `socket.socket` with TLS, after a handshake that waits as long as the socket does.

        Raises TlsRefused: one side refuses the other. Raises OSError: the connection is lost, or too slow.
        """
        try:
            return self._context.wrap_socket(connected, server_hostname=_name_of(host))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise
        except ssl.SSLError as error:
            raise TlsRefused(reason_of(error)) from error


def _name_of(host: str) -> str | None:
    # The dot that makes a name absolute is no part of the name in a certificate.
    return host.removesuffix(".") or None
