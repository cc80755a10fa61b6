"""The authenticator of SSL channels: the principal is the name in the client's certificate.

Made for each connection by its listener's TlsListener; called by the thread that owns the channel, after the handshake,
which has verified the certificate. Kafka: SslChannelBuilder.SslAuthenticator, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from barnabas.security.tls.distinguished_name import MalformedCertificate, parse_certificate
from barnabas.security.tls.principal_mapper import NoMatchingRule, PrincipalMapper
from barnabas.transport.authenticator import ANONYMOUS, AuthenticationFailed, Conversation
from barnabas.transport.tls_transport_layer import TlsTransportLayer


class TlsAuthenticator:
    """A peer without a certificate is ANONYMOUS: the handshake has decided that it needs none."""

    __slots__ = ("_mapper", "_transport", "complete", "principal")

    def __init__(self, transport: TlsTransportLayer, mapper: PrincipalMapper) -> None:
        self._transport = transport
        self._mapper = mapper
        self.complete = False
        self.principal = ANONYMOUS

    def authenticate(self, conversation: Conversation) -> None:
        """Take the principal from the certificate.

        Raises AuthenticationFailed when the certificate cannot be read, or no rule makes a name of its subject.
        """
        certificate = self._transport.peer_certificate
        if certificate is not None:
            try:
                name = self._mapper.name_of(parse_certificate(certificate).subject)
            except (MalformedCertificate, NoMatchingRule) as error:
                raise AuthenticationFailed(f"The client's certificate names no principal: {error}") from error
            self.principal = f"User:{name}"
        self.complete = True

    def close(self) -> None:
        """Do nothing: the transport has all state about the peer."""
