"""The TLS of one client: it makes the transports of connections to servers, whose certificates and names it verifies.

Made with a client, whose files are read then; immutable, so the threads of its connections share it.
Kafka: SslFactory in mode CLIENT.
"""

from __future__ import annotations

from barnabas.security.tls.key_stores import load_key_store, load_trust_store
from barnabas.security.tls.tls_config import TlsConfig
from barnabas.security.tls.tls_contexts import HTTPS, client_context
from barnabas.transport.tls_transport_layer import TlsTransportLayer
from barnabas.transport.transport_layer import StreamSocket


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
        # The dot that makes a name absolute is no part of the name in a certificate.
        return TlsTransportLayer(
            stream_socket, self._context, server_side=False, server_hostname=host.removesuffix(".") or None
        )
