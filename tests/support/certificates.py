"""A certificate authority for tests: keys, certificates and stores, as files and as PEM.

What it issues passes OpenSSL's strict check (RFC 5280), and its clients make that check with every Python; Python does
by itself from 3.13 on.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "store-password-of-tests"
ORGANISATION = "Barnabas Tests"


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate, with the authority that has signed it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        """The key, encrypted if there is a password."""
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        text = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return text.decode()

    @property
    def certificate_pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def certificate_der(self) -> bytes:
        """The certificate, not as text."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """A key store of type PEM: key and certificate in one file."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """A key store of type PKCS12."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"kafka", self.key, self.certificate, [self.authority], encryption)
        )
        return path


class CertificateAuthority:
    """An authority of the tests' own. `pem`: its certificate. parent: the one that has signed it; None: itself.

    is_strict: whether its certificates have all that RFC 5280 asks for. Many authorities in use leave some of it out.
    """

    def __init__(
        self, name: str = "test authority", parent: CertificateAuthority | None = None, *, is_strict: bool = True
    ) -> None:
        self.is_strict = is_strict
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        issuer, issuer_key = (subject, self.key) if parent is None else (parent.certificate.subject, parent.key)
        builder = _builder(subject, issuer, self.key, 3650).add_extension(constraints, critical=True)
        if is_strict:
            builder = _with_key_identifiers(builder, self.key, issuer_key)
            builder = builder.add_extension(_AUTHORITY_USAGE, critical=True)
        self.certificate: x509.Certificate = builder.sign(issuer_key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self,
        subject: str | x509.Name,
        *,
        names: tuple[str, ...] = ("localhost", "127.0.0.1"),
        days: float = 365,
    ) -> Identity:
        """A new key with a certificate. subject: a common name, or the whole. days: below zero: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        if isinstance(subject, str):
            subject = x509.Name(
                [
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
                    x509.NameAttribute(NameOID.COMMON_NAME, subject),
                ]
            )
        builder = _builder(subject, self.certificate.subject, key, days)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        if self.is_strict:
            builder = _with_key_identifiers(builder, key, self.key)
        return Identity(key, builder.sign(self.key, hashes.SHA256()), self.certificate)

    def write_pem(self, path: Path) -> Path:
        """A trust store of type PEM."""
        path.write_text(self.pem)
        return path

    def write_revocations(self, path: Path, *revoked: Identity | CertificateAuthority, days: float = 30) -> Path:
        """A revocation list (PEM) that has certificates of this authority. days: below zero: it is out of date."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - timedelta(days=60)).next_update(now + timedelta(days=days))
        builder = builder.add_extension(_key_identifier_of_issuer(self.key), critical=False)
        builder = builder.add_extension(x509.CRLNumber(1), critical=False)
        for identity in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(identity.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - timedelta(days=1)).build())
        path.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def client_context(self, identity: Identity | None = None, directory: Path | None = None) -> ssl.SSLContext:
        """A client that trusts this authority. identity: presented to the server; `directory` takes its files."""
        context = strict_context(self.pem)
        if identity is not None:
            assert directory is not None
            context.load_cert_chain(identity.write_pem(directory / f"{identity.certificate.serial_number}.pem"))
        return context


def strict_context(trust_pem: str) -> ssl.SSLContext:
    """Python's default context for a client from 3.13 on, with every Python. trust_pem: the authorities."""
    context = ssl.create_default_context(cadata=trust_pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


_AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _with_key_identifiers(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(subject, critical=False).add_extension(
        _key_identifier_of_issuer(issuer_key), critical=False
    )


def _key_identifier_of_issuer(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
