"""The errors of a client and a broker that do not trust each other. No state.

Made by the updaters of the metadata; the calls of clients raise them at once, because a retry with the same settings
cannot help. Kafka: AuthenticationException, SslAuthenticationException, SaslAuthenticationException.
"""

from __future__ import annotations

from barnabas.rpc.connection_states import Node
from barnabas.transport.channel.authenticator import AuthenticationFailed


class AuthenticationError(Exception):
    """A broker and this client do not trust each other (Kafka: AuthenticationException)."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake has failed (Kafka: SslAuthenticationException)."""


class SaslAuthenticationError(AuthenticationError):
    """The broker rejects the login, or cannot prove itself (Kafka: SaslAuthenticationException)."""


_CHECKS = {
    "unable to get certificate CRL": "check ssl.crl.location: it must have a list of each authority of the chain",
    "CRL has expired": "the file of ssl.crl.location needs newer revocation lists",
    "revoked": "the broker needs a new certificate",
    "unable to get": "check ssl.truststore.location: it must have the authority that signed the broker's certificate",
    "self-signed": "check ssl.truststore.location: it must have the authority that signed the broker's certificate",
    "self signed": "check ssl.truststore.location: it must have the authority that signed the broker's certificate",
    "mismatch": "connect by a name that stands in the broker's certificate",
    "not valid for": "connect by a name that stands in the broker's certificate",
    "expired": "the broker needs a new certificate",
    "CERTIFICATE_REQUIRED": "check ssl.keystore.location: the broker asks clients for a certificate",
    "WRONG_VERSION_NUMBER": "check security.protocol: this listener may be without TLS",
}
"""A part of OpenSSL's text -> what to check."""


def authentication_error(node: Node | None, error: AuthenticationFailed) -> AuthenticationError:
    """Return the error for users: the address, the reason, and what to check. It has no secret."""
    # Imported when used: without a login, it is not needed at all.
    from barnabas.security.sasl.client.client_authenticator import SaslRejected  # noqa: PLC0415

    where = "a broker" if node is None else f"{node.host}:{node.port}"
    text = f"Authentication with {where} failed: {error}"
    if isinstance(error, SaslRejected):
        return SaslAuthenticationError(f"{text.removesuffix('.')}; check sasl.mechanism, user name and password")
    hint = next((check for part, check in _CHECKS.items() if part in str(error)), None)
    return SslAuthenticationError(text if hint is None else f"{text}; {hint}")
