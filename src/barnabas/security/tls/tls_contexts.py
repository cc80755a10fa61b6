"""Contexts of OpenSSL made of settings: for a listener, for a client's connections to brokers, and for `https:`.

Called when a listener opens or changes and when a client is made; a context is then shared by the threads of the
connections, which only start handshakes with it.

Beside the settings hold the rules of Kafka's engine: a client may not ask for a new handshake, every certificate of a
trust store is an anchor, not only those of root authorities, and a certificate may lack what RFC 5280 asks for and
nothing depends on (OpenSSL's strict check, which `ssl.create_default_context` turns on from Python 3.13 on).

Kafka: DefaultSslEngineFactory.createSSLContext, createSslEngine, SslFactory.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.security.tls.key_stores import KeyStore, TrustStore, load_key_store, load_trust_store
from barnabas.security.tls.tls_config import TlsConfig, TrustStoreConfig
from barnabas.transport.channel.tls_transport_layer import TlsTransportLayer, reason_of
from barnabas.transport.channel.transport_layer import StreamSocket

HTTPS: Final = "https"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS_1_3_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITE: Final = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z0-9_]+)_WITH_(?P<cipher>[A-Z0-9_]+)")
_LONGEST_HANDSHAKE: Final = 10
"""The turns of both sides that a handshake may take; it takes two or three."""


class _CipherSuites(NamedTuple):
    """The suites of a setting, which has IANA's names. before_1_3: OpenSSL's names. of_1_3: those of TLS 1.3."""

    before_1_3: tuple[str, ...]
    of_1_3: frozenset[str]


def server_context(config: TlsConfig, key_store: KeyStore, trust_store: TrustStore | None) -> ssl.SSLContext:
    """Return the context of a listener. Raises ConfigError: OpenSSL refuses the key, or a setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, config, key_store, trust_store, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = _CLIENT_AUTH[config.client_auth]
    context.num_tickets = 1  # as Java; the second one that OpenSSL sends by default costs a tenth of a handshake
    return context


def client_context(
    config: TlsConfig, key_store: KeyStore | None, trust_store: TrustStore | None, endpoint_identification: str = HTTPS
) -> ssl.SSLContext:
    """Return the context of a client. endpoint_identification: `https` to check the server's name, empty not to.

    Without a trust store the authorities of the system are trusted, as Java trusts those of its own. Raises
    ConfigError: OpenSSL refuses the key, or a setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = endpoint_identification.lower() == HTTPS
    _set_up(context, config, key_store, trust_store, ssl.Purpose.SERVER_AUTH)
    return context


def refusal_between(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """Return why a client and a server with these contexts do not trust each other, or None: a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_LONGEST_HANDSHAKE):
        is_waiting = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                is_waiting = True
            except ssl.SSLError as error:
                return reason_of(error)
        if not is_waiting:
            return None
    return "the handshake does not come to its end"


def _set_up(
    context: ssl.SSLContext,
    config: TlsConfig,
    key_store: KeyStore | None,
    trust_store: TrustStore | None,
    purpose: ssl.Purpose,
) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    _set_versions(context, config.enabled_protocols)
    if config.cipher_suites:
        _set_cipher_suites(context, config.cipher_suites)
    if key_store is not None:
        _load_key(context, key_store)
    if trust_store is None:
        context.load_default_certs(purpose)
    else:
        try:
            context.load_verify_locations(cadata=trust_store.certificates)
        except ssl.SSLError as error:
            raise ConfigError(f"The trust store cannot be used: {reason_of(error)}") from error
        if trust_store.revocation_lists is not None:
            _load_revocation_lists(context, trust_store.revocation_lists)


def _load_revocation_lists(context: ssl.SSLContext, lists: str) -> None:
    """Have each certificate of a peer's chain looked up. Raises ConfigError: OpenSSL cannot read the lists."""
    with _as_file(lists) as path:
        try:
            context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            raise ConfigError(f"The revocation lists cannot be used: {reason_of(error)}", "ssl.crl.location") from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _set_versions(context: ssl.SSLContext, enabled: tuple[str, ...]) -> None:
    name = "ssl.enabled.protocols"
    for version in enabled:
        if version not in _VERSIONS:
            raise ConfigError.invalid(name, version, f"known are {', '.join(_VERSIONS)}")
    versions = [_VERSIONS[version] for version in enabled] or list(_VERSIONS.values())
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_cipher_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    setting = "ssl.cipher.suites"
    try:
        suites = _cipher_suites_of(names)
        if suites.before_1_3:
            context.set_ciphers(":".join(suites.before_1_3))
    except (ValueError, ssl.SSLError) as error:
        text = reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
        raise ConfigError.invalid(setting, ",".join(names), text) from error
    chosen = {cipher["name"] for cipher in context.get_ciphers()}
    for name in suites.before_1_3:
        if name not in chosen:
            raise ConfigError.invalid(setting, ",".join(names), f"this OpenSSL has no cipher suite {name}")
    # Python cannot choose among the suites of TLS 1.3, so a choice must be all of them or none.
    if not suites.of_1_3:
        _limit(context, "maximum_version", ssl.TLSVersion.TLSv1_2, names)
    elif suites.of_1_3 != _TLS_1_3_SUITES:
        raise ConfigError.invalid(
            setting,
            ",".join(names),
            f"the suites of TLS 1.3 cannot be chosen one by one: name all of {', '.join(sorted(_TLS_1_3_SUITES))}, or "
            "none, which leaves TLSv1.2",
        )
    if not suites.before_1_3:
        _limit(context, "minimum_version", ssl.TLSVersion.TLSv1_3, names)


def _cipher_suites_of(names: Sequence[str]) -> _CipherSuites:
    """Sort the suites of a setting by version. Raises ValueError: a name is of another form than IANA's."""
    of_1_3 = frozenset(name for name in names if "_WITH_" not in name and name.startswith("TLS_"))
    return _CipherSuites(tuple(_openssl_name(name) for name in names if name not in of_1_3), of_1_3)


def _openssl_name(name: str) -> str:
    """Return OpenSSL's name of a cipher suite. It follows from IANA's by rules, so no table can be out of date.

        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256    ECDHE-RSA-AES128-GCM-SHA256
        TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256    ECDHE-RSA-AES128-SHA256
        TLS_RSA_WITH_AES_256_GCM_SHA384          AES256-GCM-SHA384

    The suites of TLS 1.3 have one name only, without WITH. Raises ValueError: the name is of another form than IANA's.
    """
    match = _SUITE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is no cipher suite's name, like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    cipher = re.sub(r"^AES_(\d+)_", r"AES\1_", match["cipher"]).replace("_CBC_", "_")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"
    exchange = match["exchange"]
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _limit(context: ssl.SSLContext, bound: str, version: ssl.TLSVersion, names: tuple[str, ...]) -> None:
    """Leave out the versions of TLS that have none of the suites. Raises ConfigError: no version is left."""
    setattr(context, bound, version)
    if context.minimum_version > context.maximum_version:
        raise ConfigError.invalid(
            "ssl.cipher.suites", ",".join(names), "none of these suites belongs to a version in ssl.enabled.protocols"
        )


def _load_key(context: ssl.SSLContext, key_store: KeyStore) -> None:
    password = "" if key_store.key_password is None else key_store.key_password.reveal()
    with _as_file(key_store.private_key.reveal() + key_store.chain) as path:
        try:
            # A password in any case: without one OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ConfigError("The private key does not belong to the first certificate of its chain") from None
            if key_store.key_password is not None:
                raise ConfigError(
                    "The private key cannot be read: ssl.key.password is wrong, or the key is of an unknown kind",
                    "ssl.key.password",
                ) from None
            raise ConfigError(f"The private key and its certificates cannot be used: {reason_of(error)}") from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give OpenSSL a text as a file: Python hands over keys by path only. On Linux the file is in memory alone."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("barnabas-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # readable by this user alone
        file.write(text)
        file.flush()
        yield file.name


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


class HttpsTrust:
    """A context for `https:`, which verifies the server's name too."""

    __slots__ = ("context",)

    def __init__(self, store: TrustStoreConfig | None = None) -> None:
        """store: None for the authorities of the system. Raises ConfigError: the store cannot be used."""
        # Never `ssl.create_default_context`, which checks certificates by other rules in each release of Python.
        if store is None:
            self.context = client_context(TlsConfig(), None, None)
        else:
            self.context = client_context(TlsConfig(truststore=store), None, load_trust_store(store))


def is_refused_certificate(reason: object) -> bool:
    """Return whether the reason of a failed request is the server's certificate: another attempt would fail, too."""
    return isinstance(reason, ssl.SSLCertVerificationError)
