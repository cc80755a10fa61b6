"""A certificate authority for development: keys and certificates of a broker and a client, in PEM, in one directory.

Called by `barnabas certs init` and the test kit, on their threads. Needs the package `cryptography` (extra `tls`). The
files of keys are readable by their owner alone. Not for production: the authority's own key lies beside the others.

    ca.pem, ca-key.pem    the authority, which clients and brokers trust
    server.pem            a broker's key and certificate, in one file (a key store of type PEM)
    client.pem            the same of a client, for listeners with ssl.client.auth=required
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 365
LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_ORGANISATION: Final = "Barnabas development"


class CertificatesMissing(Exception):
    """The error for certificates that cannot be made: the package `cryptography` is not installed."""


class DevelopmentCertificates(NamedTuple):
    """The files of one directory, and the settings that name them. directory: an absolute path."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The trusted certificate: the trust store of brokers and clients."""
        return self.directory / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """The authority's own key, with which more certificates can be signed."""
        return self.directory / "ca-key.pem"

    @property
    def server(self) -> Path:
        """The key store of brokers."""
        return self.directory / "server.pem"

    @property
    def client(self) -> Path:
        """The key store of clients."""
        return self.directory / "client.pem"

    @property
    def broker_settings(self) -> dict[str, str]:
        """The settings of a broker with SSL listeners."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    @property
    def client_settings(self) -> dict[str, str]:
        """The settings of Java's clients, and of all that take Kafka's names."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.client),
        }

    @property
    def librdkafka_settings(self) -> dict[str, str]:
        """The settings of confluent-kafka, kcat and the other clients on librdkafka."""
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.client),
            "ssl.key.location": str(self.client),
        }


def make_certificates(
    directory: Path, *, hosts: Sequence[str] = LOOPBACK_HOSTS, client: str = "client"
) -> DevelopmentCertificates:
    """Make an authority, a broker's and a client's certificate. hosts: the broker's names and addresses.

    client: the common name of the client. Raises FileExistsError: one of the files exists, and none is replaced.
    Raises OSError: a file cannot be written. Raises CertificatesMissing: the package `cryptography` is not there.
    """
    made = DevelopmentCertificates(directory.absolute())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (made.authority, made.authority_key, made.server, made.client):
        if path.exists():
            raise FileExistsError(f"{path} exists already")
    authority = _Authority()
    _write(made.authority, authority.certificate_pem, 0o644)
    _write(made.authority_key, authority.key_pem, 0o600)
    _write(made.server, authority.issue(hosts[0], hosts), 0o600)
    _write(made.client, authority.issue(client, ()), 0o600)
    return made


def _write(path: Path, text: str, mode: int) -> None:
    # Exclusive, and with its mode from the beginning: no moment in which others could read a key.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)


class _Authority:
    """A new key, and its certificate signed by itself."""

    def __init__(self) -> None:
        self._key = _new_key()
        self._name = _name("authority")
        self._certificate = self._signed(self._name, self._key, AUTHORITY_DAYS, is_authority=True)

    @property
    def certificate_pem(self) -> str:
        """The authority's certificate."""
        return _pem_of(self._certificate)

    @property
    def key_pem(self) -> str:
        """The authority's key."""
        return _key_pem_of(self._key)

    def issue(self, common_name: str, hosts: Sequence[str]) -> str:
        """Return a new key and its certificate, as one text."""
        key = _new_key()
        certificate = self._signed(_name(common_name), key, LEAF_DAYS, hosts=hosts)
        return _key_pem_of(key) + _pem_of(certificate)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        days: int,
        *,
        hosts: Sequence[str] = (),
        is_authority: bool = False,
    ) -> x509.Certificate:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(_key_usage(is_authority), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _new_key() -> ec.EllipticCurvePrivateKey:
    """Make a private key. Raises CertificatesMissing: the package `cryptography` is not there."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - only certificates need the extra
    except ImportError:
        raise CertificatesMissing("certificates need the package cryptography: pip install 'barnabas[tls]'") from None
    return ec.generate_private_key(ec.SECP256R1())


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem_of(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
