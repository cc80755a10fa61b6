"""The names in certificates, as Java prints them; certificates that were tampered with are refused, not believed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.tls.distinguished_name import MalformedCertificate, parse_certificate
from tests.support.certificates import CertificateAuthority

AUTHORITY = CertificateAuthority()


def part(kind: ObjectIdentifier, value: str, encoding: _ASN1Type | None = None) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value, encoding)])


def subject_of(*parts: x509.RelativeDistinguishedName) -> str:
    identity = AUTHORITY.issue(x509.Name(parts))
    return parse_certificate(identity.certificate_der).subject


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("kafka-1", "CN=kafka-1"),
        ("Streams, Inc.", "CN=Streams\\, Inc."),
        ('a+b=c<d>e#f;g"h\\i', 'CN=a\\+b\\=c\\<d\\>e\\#f\\;g\\"h\\\\i'),
        ("  two spaces ", "CN=\\ \\ two spaces\\ "),
        (" ", "CN=\\ "),
        ("Jürgen 大", "CN=Jürgen 大"),
    ],
)
def test_values_are_escaped(value: str, shown: str) -> None:
    assert subject_of(part(NameOID.COMMON_NAME, value)) == shown


def test_the_last_part_comes_first() -> None:
    assert (
        subject_of(
            part(NameOID.COUNTRY_NAME, "DE"),
            part(NameOID.STATE_OR_PROVINCE_NAME, "BY"),
            part(NameOID.LOCALITY_NAME, "Munich"),
            part(NameOID.STREET_ADDRESS, "Main 1"),
            part(NameOID.DOMAIN_COMPONENT, "example"),
            part(NameOID.ORGANIZATION_NAME, "Org"),
            part(NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit"),
            part(NameOID.USER_ID, "7"),
            part(NameOID.COMMON_NAME, "kafka"),
        )
        == "CN=kafka,UID=7,OU=Unit,O=Org,DC=example,STREET=Main 1,L=Munich,ST=BY,C=DE"
    )


def test_parts_without_a_keyword_are_numbers() -> None:
    assert subject_of(part(NameOID.EMAIL_ADDRESS, "a.b@c"), part(NameOID.COMMON_NAME, "x")) == (
        "CN=x,1.2.840.113549.1.9.1=#1605612e624063"
    )


def test_a_part_of_several_values_keeps_their_order() -> None:
    several = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "b")]
    )
    assert sorted(subject_of(several).split("+")) == ["CN=a", "OU=b"]


def test_other_encodings_are_read_as_java_reads_them() -> None:
    assert subject_of(part(NameOID.COMMON_NAME, "k", _ASN1Type.BMPString)) == "CN=\\00k"
    assert subject_of(part(NameOID.COMMON_NAME, "é", _ASN1Type.T61String)) == "CN=é"


def test_expiry_and_other_names_are_read() -> None:
    identity = AUTHORITY.issue("server", names=("localhost", "127.0.0.1", "::1"))
    parsed = parse_certificate(identity.certificate_der)
    assert parsed.expires == identity.certificate.not_valid_after_utc
    assert parsed.alternative_names == {(0x82, b"localhost"), (0x87, b"\x7f\0\0\1"), (0x87, bytes(15) + b"\1")}
    assert parse_certificate(AUTHORITY.issue("none", names=()).certificate_der).alternative_names == set()
    assert parse_certificate(AUTHORITY.issue("far", days=365 * 60).certificate_der).expires.year >= 2080


VALID = AUTHORITY.issue("server").certificate.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("end", [0, 1, 2, 10, -1])
def test_a_cut_certificate_is_refused(end: int) -> None:
    with pytest.raises(MalformedCertificate):
        parse_certificate(VALID[:end])


# Tags and lengths, and what lies beside them: each in the place of each byte.
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x02, 0x04, 0x06, 0x30, 0x31, 0x7F, 0x80, 0x82, 0xA3, 0xFF])
def test_any_changed_byte_is_read_or_refused(byte: int) -> None:
    for position in range(len(VALID)):
        changed = VALID[:position] + bytes([byte]) + VALID[position + 1 :]
        with suppress(MalformedCertificate):
            assert isinstance(parse_certificate(changed).subject, str)


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        parse_certificate(data)
