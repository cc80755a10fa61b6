"""The TLS of one listener: transports and principals of its connections, and new keys while the broker runs.

One TlsListener for each listener with TLS, shared by the Processors of the listener. They read `_loaded`, which a
reload replaces by one assignment: a handshake uses either the old key or the new one, and established connections live
on with the key of their handshake. Reloads come one at a time (DynamicBrokerConfig).

Kafka: SslFactory, SslChannelBuilder, SslChannelBuilder.SslAuthenticator, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import Clock
from barnabas.security.tls.distinguished_name import (
    InvalidRule,
    MalformedCertificate,
    NoMatchingRule,
    PrincipalMapper,
    parse_certificate,
)
from barnabas.security.tls.key_stores import KeyStore, TrustStore, load_key_store, load_trust_store
from barnabas.security.tls.tls_config import TlsConfig
from barnabas.security.tls.tls_contexts import server_context
from barnabas.transport.channel.authenticator import ANONYMOUS, AuthenticationFailed, Authenticator, Conversation
from barnabas.transport.channel.tls_transport_layer import TlsTransportLayer
from barnabas.transport.channel.transport_layer import StreamSocket, TransportLayer

logger = logging.getLogger(__name__)


class LoadedStores(NamedTuple):
    """The key and the trusted certificates in force, and the context made of them.

    versions: what tells the files that were read from their successors.
    """

    config: TlsConfig
    key_store: KeyStore
    trust_store: TrustStore | None
    context: ssl.SSLContext
    versions: tuple[int, ...]


class TlsListener:
    """A listener's channel builder (`build`), and the keeper of its key."""

    def __init__(self, listener_name: str, config: TlsConfig, clock: Clock) -> None:
        """Raises ConfigError: the key store is missing or cannot be used, or a rule of principals is malformed."""
        self._listener_name = listener_name
        self._clock = clock
        try:
            self._mapper = PrincipalMapper(config.principal_mapping_rules)
        except InvalidRule as error:
            raise ConfigError(f"ssl.principal.mapping.rules: {error}", "ssl.principal.mapping.rules") from error
        self._loaded = self._load(config)
        self._warn_if_expired()

    def build(self, stream_socket: StreamSocket) -> tuple[TransportLayer, Authenticator]:
        """Build an SSL channel (ChannelBuilder): a peer is what its certificate says, without one ANONYMOUS."""
        transport = self.transport(stream_socket)
        return transport, _TlsAuthenticator(transport, self._mapper)

    def transport(self, stream_socket: StreamSocket) -> TlsTransportLayer:
        """Return the transport of an accepted connection, with the key in force now."""
        return TlsTransportLayer(stream_socket, self._loaded.context, server_side=True)

    # -- new keys

    def check(self, config: TlsConfig) -> None:
        """Check settings that are to be taken over, and changed files. Raises ConfigError: they cannot be used."""
        if not self._is_loaded(config):
            self._check_compatible(self._load(config))

    def reload(self, config: TlsConfig) -> bool:
        """Take over settings, and files that have changed. New handshakes use them. Returns whether anything differs.

        Raises ConfigError: the stores cannot be read, or Kafka does not allow the change; the old ones stay in force.
        """
        if self._is_loaded(config):
            return False
        loaded = self._load(config)
        self._check_compatible(loaded)
        self._loaded = loaded
        logger.info(
            "Listener %s uses a new TLS context: certificate of %s, valid until %s",
            self._listener_name,
            loaded.key_store.certificate.subject,
            loaded.key_store.certificate.expires.isoformat(),
        )
        self._warn_if_expired()
        return True

    def _is_loaded(self, config: TlsConfig) -> bool:
        loaded = self._loaded
        return config == loaded.config and _versions(config) == loaded.versions

    def _load(self, config: TlsConfig) -> LoadedStores:
        # Read before the files: a file that is replaced in between is read again by the next reload.
        versions = _versions(config)
        key_store = load_key_store(config.keystore)
        if key_store is None:
            raise ConfigError(
                f"Listener {self._listener_name} uses TLS and has no key store: set ssl.keystore.location, or "
                "ssl.keystore.key and ssl.keystore.certificate.chain",
                "ssl.keystore.location",
            )
        trust_store = load_trust_store(config.truststore)
        return LoadedStores(config, key_store, trust_store, server_context(config, key_store, trust_store), versions)

    def _check_compatible(self, new: LoadedStores) -> None:
        """Check Kafka's rules for a new key store. Raises ConfigError: it is for another server, as far as is known."""
        old, config = self._loaded, new.config
        before, after = old.key_store.certificate, new.key_store.certificate
        if not config.allow_dn_changes and before.subject.lower() != after.subject.lower():
            raise ConfigError(
                f"Keystore DistinguishedName does not match:  existing={{DN={before.subject}}}, "
                f"new={{DN={after.subject}}}"
            )
        if not config.allow_san_changes and not after.alternative_names >= before.alternative_names:
            lost = sorted(_shown(name) for name in before.alternative_names - after.alternative_names)
            raise ConfigError(f"Keystore SubjectAltNames do not match: the new certificate lacks {', '.join(lost)}")
        if old.trust_store is None and new.trust_store is not None:
            raise ConfigError(
                "Cannot add SSL truststore to an existing listener for which no truststore was configured."
            )

    def _warn_if_expired(self) -> None:
        certificate = self._loaded.key_store.certificate
        if certificate.expires < datetime.fromtimestamp(self._clock.milliseconds() / 1000, UTC):
            logger.warning(
                "The certificate of listener %s (%s) has expired at %s: clients will refuse it",
                self._listener_name,
                certificate.subject,
                certificate.expires.isoformat(),
            )


class _TlsAuthenticator:
    """The authenticator of one connection: the principal is the name in the client's certificate.

    Called by the thread that owns the channel, after the handshake, which has verified the certificate. A peer without
    a certificate is ANONYMOUS: the handshake has decided that it needs none.
    """

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


def _versions(config: TlsConfig) -> tuple[int, ...]:
    """Return what tells each file from its successor: the time of its last change, its size and its number."""
    versions: list[int] = []
    stores = (config.keystore.location, config.truststore.location, config.truststore.crl_location)
    for location in stores:
        try:
            status = None if location is None else Path(location).stat()
        except OSError:
            status = None  # reading it will say what is wrong
        if status is not None:
            versions += (status.st_mtime_ns, status.st_size, status.st_ino)
    return tuple(versions)


def _shown(name: tuple[int, bytes]) -> str:
    kind, value = name
    return value.decode("ascii") if kind in (0x81, 0x82, 0x86) and value.isascii() else f"{kind:#x}:{value.hex()}"
