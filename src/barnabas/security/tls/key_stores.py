"""Key stores and trust stores: read from PEM or PKCS12, checked, and held as PEM, which OpenSSL loads.

Called when a listener opens, when its settings change, and when a client is made: these threads may block on files.
Nothing is kept. PKCS12 needs the package `cryptography`; PEM needs nothing. The checks between settings and their
messages are Kafka's.

Kafka: DefaultSslEngineFactory.createKeystore, createTruststore, PemParser.
"""

from __future__ import annotations

import re
import ssl
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.secret import Secret
from barnabas.security.tls.distinguished_name import Certificate, MalformedCertificate, parse_certificate
from barnabas.security.tls.tls_config import KeyStoreConfig, TrustStoreConfig

PEM: Final = "PEM"
_ONLY_PEM: Final = "Known are PEM and PKCS12"
_JKS_FORMS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS and JCEKS

_PEM_BLOCK: Final = re.compile(
    r"-+BEGIN\s+([A-Z0-9 ]*?(?:CERTIFICATE|PRIVATE\s+KEY))\s*-+(.*?)-+END\s+\1\s*-+", re.DOTALL
)
_REVOCATION_LIST: Final = re.compile(r"-+BEGIN X509 CRL-+.*?-+END X509 CRL-+", re.DOTALL)
_PEM_HEADER: Final = re.compile(r"[A-Za-z0-9-]+: ")
_PEM_LINE_LENGTH: Final = 64


class KeyStore(NamedTuple):
    """A private key, and the certificates that prove it, the key's own first.

    private_key: PEM. key_password: of an encrypted key. chain: PEM. certificate: the first of the chain.
    """

    private_key: Secret
    key_password: Secret | None
    chain: str
    certificate: Certificate


class TrustStore(NamedTuple):
    """The certificates that are trusted. certificates: PEM.

    revocation_lists: PEM; None: no certificate is looked up in such lists.
    """

    certificates: str
    revocation_lists: str | None = None


class _PemText(NamedTuple):
    """The blocks of a text, each as OpenSSL reads it."""

    certificates: tuple[str, ...]
    private_keys: tuple[str, ...]

    @property
    def has_encrypted_key(self) -> bool:
        """Whether a password is needed to read a private key."""
        return any("ENCRYPTED" in key for key in self.private_keys)


def load_key_store(config: KeyStoreConfig) -> KeyStore | None:
    """Read the key store of a configuration; None when the configuration names no store.

    Raises ConfigError: settings contradict one another, or the store cannot be read with them.
    """
    if config.key is not None:
        _check_inline_key(config)
        assert config.certificate_chain is not None
        text = _parse_pem(config.key.reveal())
        chain = _parse_pem(config.certificate_chain.reveal())
        return _from_pem(_PemText(chain.certificates, text.private_keys), config.key_password, "ssl.keystore.key")
    if config.certificate_chain is not None:
        raise _error("SSL certificate chain is specified, but private key is not specified", "ssl.keystore.key")
    location, password = config.location, config.password
    if location is None:
        if password is not None:
            raise _error(
                "SSL key store is not specified, but key store password is specified.", "ssl.keystore.password"
            )
        return None
    if config.type.upper() == PEM:
        if password is not None:
            raise _error(
                "SSL key store password cannot be specified with PEM format, only key password may be specified",
                "ssl.keystore.password",
            )
        text = _parse_pem(_read_text(location, "ssl.keystore.location"))
        return _from_pem(text, config.key_password, "ssl.keystore.location", location)
    if password is None:
        raise _error("SSL key store is specified, but key store password is not specified.", "ssl.keystore.password")
    data = _read_store(location, config.type, "ssl.keystore")
    contents = _read_pkcs12(data, location, password, "ssl.keystore")
    if not contents.private_keys or not contents.certificates:
        raise _error(f"The key store {location} has no private key with a certificate", "ssl.keystore.location")
    return _from_pem(contents, None, "ssl.keystore.location", location)


def load_trust_store(config: TrustStoreConfig) -> TrustStore | None:
    """Read the trust store of a configuration, with its revocation lists; None when the configuration names no store.

    Raises ConfigError: settings contradict one another, or the store cannot be read with them.
    """
    anchors = _load_anchors(config)
    if config.crl_location is None:
        return None if anchors is None else TrustStore("".join(anchors))
    name = "ssl.crl.location"
    if anchors is None:
        raise _error(
            f"{name}={config.crl_location}: revocation lists need the authorities that have signed them in a trust "
            "store: set ssl.truststore.location",
            name,
        )
    parsed = [_parsed(each, "trust store") for each in anchors]
    # OpenSSL looks up every certificate of a chain, so the chain has to end with one that names itself.
    missing = {each.issuer for each in parsed} - {each.subject for each in parsed}
    if missing:
        raise _error(
            f"{name}={config.crl_location}: the trust store lacks authorities, which revocation lists need up to the "
            f"root: {'; '.join(sorted(missing))}",
            name,
        )
    lists = _revocation_lists_of(_read_text(config.crl_location, name))
    if not lists:
        raise _error(f"{name}={config.crl_location}: an 'X509 CRL' in PEM is expected, and none is there", name)
    return TrustStore("".join(anchors), "".join(lists))


def _load_anchors(config: TrustStoreConfig) -> tuple[str, ...] | None:
    """Return the trusted certificates, each as PEM; None if there is no trust store. Raises ConfigError."""
    location, password = config.location, config.password
    is_pem = config.type.upper() == PEM
    if config.certificates is not None:
        name = "ssl.truststore.certificates"
        if not is_pem:
            raise _error(
                f"SSL trust store certs can be specified only for PEM, but trust store type is {config.type}.", name
            )
        if location is not None:
            raise _error("Both SSL trust store location and separate trust certificates are specified.", name)
    if is_pem and password is not None:
        raise _error("SSL trust store password cannot be specified for PEM format.", "ssl.truststore.password")
    if config.certificates is not None:
        return _trusted(_parse_pem(config.certificates.reveal()).certificates, "ssl.truststore.certificates")
    if location is None:
        if password is not None:
            raise _error(
                "SSL trust store is not specified, but trust store password is specified.", "ssl.truststore.password"
            )
        return None
    if is_pem:
        text = _read_text(location, "ssl.truststore.location")
        return _trusted(_parse_pem(text).certificates, "ssl.truststore.location", location)
    data = _read_store(location, config.type, "ssl.truststore")
    certificates = _read_pkcs12(data, location, password, "ssl.truststore").certificates
    return _trusted(certificates, "ssl.truststore.location", location)


def _check_inline_key(config: KeyStoreConfig) -> None:
    """Check the settings beside a private key in the settings. Raises ConfigError: one of them contradicts it."""
    name = "ssl.keystore.key"
    if config.type.upper() != PEM:
        raise _error(f"SSL private key can be specified only for PEM, but key store type is {config.type}.", name)
    if config.certificate_chain is None:
        raise _error("SSL private key is specified, but certificate chain is not specified.", name)
    if config.location is not None:
        raise _error("Both SSL key store location and separate private key are specified.", name)
    if config.password is not None:
        raise _error(
            "SSL key store password cannot be specified with PEM format, only key password may be specified.", name
        )


def _from_pem(text: _PemText, key_password: Secret | None, name: str, location: str | None = None) -> KeyStore:
    """Make a key store of PEM blocks. Raises ConfigError: it is not one key and its certificates."""
    where = name if location is None else f"{name}={location}"
    if len(text.private_keys) != 1:
        raise _error(f"{where}: one private key in PEM is expected, and {len(text.private_keys)} are there", name)
    if not text.certificates:
        raise _error(f"{where}: at least one certificate in PEM is expected, and none is there", name)
    if text.has_encrypted_key and key_password is None:
        raise _error(f"{where}: the private key is encrypted, and ssl.key.password is not set", "ssl.key.password")
    return KeyStore(
        Secret(text.private_keys[0]), key_password, "".join(text.certificates), _parsed(text.certificates[0], where)
    )


def _trusted(certificates: tuple[str, ...], name: str, location: str | None = None) -> tuple[str, ...]:
    where = name if location is None else f"{name}={location}"
    if not certificates:
        raise _error(f"{where}: at least one certificate is expected, and none is there", name)
    for certificate in certificates:
        _parsed(certificate, where)
    return certificates


def _parsed(certificate: str, where: str) -> Certificate:
    try:
        return parse_certificate(ssl.PEM_cert_to_DER_cert(certificate))
    except (MalformedCertificate, ValueError) as error:
        raise ConfigError(f"{where}: a certificate cannot be read: {error}") from error


def _read_text(location: str, name: str) -> str:
    return _read(location, name).decode("utf-8", "replace")


def _read(location: str, name: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise _error(f"{name}={location} cannot be read: {error.strerror}", name) from error


def _read_store(location: str, kind: str, prefix: str) -> bytes:
    """Read a store that is not PEM. Raises ConfigError: it is of a type that only Java reads."""
    data = _read(location, f"{prefix}.location")
    if data.startswith(_JKS_FORMS):
        raise _error(
            f"{prefix}.location={location} is a key store in Java's own format JKS. Convert it: keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12; then set "
            f"{prefix}.location={location}.p12 and {prefix}.type=PKCS12",
            f"{prefix}.location",
        )
    # Java reads PKCS12 by the type JKS too, which is the default of the setting.
    if kind.upper() not in ("PKCS12", "JKS"):
        raise _error(f"{prefix}.type={kind}: this type of store cannot be read. {_ONLY_PEM}", f"{prefix}.type")
    if b"-----BEGIN " in data:
        raise _error(f"{prefix}.location={location} is PEM: set {prefix}.type=PEM", f"{prefix}.type")
    return data


def _read_pkcs12(data: bytes, location: str, password: Secret | None, prefix: str) -> _PemText:
    """Read a PKCS12 store. Raises ConfigError: the password is wrong, or the file is no such store."""
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only PKCS12 needs the extra
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415
    except ImportError:
        raise _error(
            f"{prefix}.location={location}: PKCS12 needs the package cryptography (pip install 'barnabas[tls]'); PEM "
            "needs nothing",
            f"{prefix}.location",
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.reveal().encode())
    except ValueError as error:
        raise _error(
            f"{prefix}.location={location} cannot be read: {prefix}.password is wrong, or the file is no PKCS12 store",
            f"{prefix}.password",
        ) from error
    found = [each for each in (store.cert, *store.additional_certs) if each is not None]
    certificates = [each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in found]
    if store.key is None:
        return _PemText(tuple(certificates), ())
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _PemText(tuple(certificates), (key.decode(),))


def _error(message: str, name: str) -> ConfigError:
    return ConfigError(message, name)


# -- PEM texts


def _parse_pem(text: str) -> _PemText:
    """Find the certificates and private keys of a text, as Kafka does; what stands between them is ignored.

    A setting may have the text on one line (KIP-651), with spaces for line ends, which OpenSSL would not read.
    """
    certificates: list[str] = []
    keys: list[str] = []
    for label, body in _PEM_BLOCK.findall(text):
        name = " ".join(label.split())
        # Headers (Proc-Type, DEK-Info of the old encrypted form) end with an empty line, so that form stays as it is.
        content = body.strip() if _PEM_HEADER.search(body) else textwrap.fill("".join(body.split()), _PEM_LINE_LENGTH)
        block = f"-----BEGIN {name}-----\n{content}\n-----END {name}-----\n"
        (certificates if name.endswith("CERTIFICATE") else keys).append(block)
    return _PemText(tuple(certificates), tuple(keys))


def _revocation_lists_of(text: str) -> tuple[str, ...]:
    """Find the revocation lists of a text, each as OpenSSL reads it; what stands between them is ignored."""
    return tuple(f"{block}\n" for block in _REVOCATION_LIST.findall(text))
