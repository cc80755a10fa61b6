"""Which certificates are accepted: the same with every Python, whatever it checks by default.

From 3.13 on `ssl.create_default_context` makes OpenSSL's strict check: a certificate must have all that RFC 5280 asks
for. Clients that make it must accept whatever this project issues; this project accepts what Apache Kafka does.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from barnabas.config.secret import Secret
from barnabas.security.tls.development_certificates import make_certificates
from barnabas.security.tls.key_stores import load_key_store, load_trust_store
from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_contexts import HttpsTrust, client_context, server_context
from tests.support.certificates import CertificateAuthority, strict_context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Why one side refuses the other; empty if none does."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for side in sides * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
    return ""


def listener(key_store: Path, trust_pem: str) -> ssl.SSLContext:
    """A listener of the broker that asks for certificates."""
    config = TlsConfig(
        client_auth="required",
        keystore=KeyStoreConfig(type="PEM", location=str(key_store)),
        truststore=TrustStoreConfig(type="PEM", certificates=Secret(trust_pem)),
    )
    store = load_key_store(config.keystore)
    assert store is not None
    return server_context(config, store, load_trust_store(config.truststore))


def client_of(key_store: Path, trust_pem: str) -> ssl.SSLContext:
    """A client of ours, or a broker that connects to another."""
    config = TlsConfig(
        keystore=KeyStoreConfig(type="PEM", location=str(key_store)),
        truststore=TrustStoreConfig(type="PEM", certificates=Secret(trust_pem)),
    )
    return client_context(config, load_key_store(config.keystore), load_trust_store(config.truststore))


def strict_server(key_store: Path, trust_pem: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trust_pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(key_store)
    return context


def strict_client(key_store: Path, trust_pem: str) -> ssl.SSLContext:
    context = strict_context(trust_pem)
    context.load_cert_chain(key_store)
    return context


def test_what_certs_init_makes_passes_the_strict_check(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certs")
    trust = made.authority.read_text()
    assert handshake(listener(made.server, trust), strict_client(made.client, trust)) == ""
    assert handshake(strict_server(made.server, trust), client_of(made.client, trust)) == ""
    assert handshake(strict_server(made.server, trust), strict_client(made.client, trust)) == ""


@pytest.mark.parametrize("has_middle", [False, True])
def test_what_the_tests_own_authorities_issue_passes_it_too(tmp_path: Path, has_middle: bool) -> None:
    root = CertificateAuthority()
    issuer = CertificateAuthority("middle", root) if has_middle else root
    server, client = (issuer.issue(name).write_pem(tmp_path / f"{name}.pem") for name in ("server", "client"))
    if has_middle:
        for chain in (server, client):
            chain.write_text(chain.read_text() + issuer.pem)
    assert handshake(strict_server(server, root.pem), strict_client(client, root.pem)) == ""


def test_a_users_certificates_may_lack_what_the_strict_check_asks_for(tmp_path: Path) -> None:
    """As with Apache Kafka, and with every Python."""
    authority = CertificateAuthority(is_strict=False)
    server, client = (authority.issue(name).write_pem(tmp_path / f"{name}.pem") for name in ("server", "client"))
    assert handshake(listener(server, authority.pem), client_of(client, authority.pem)) == ""
    refused = handshake(listener(server, authority.pem), strict_client(client, authority.pem))
    assert refused, "the check of these tests is none"


def test_web_servers_are_checked_like_brokers() -> None:
    """Those that issue tokens, and schema registries."""
    flags = client_context(TlsConfig(), None, None).verify_flags
    assert HttpsTrust().context.verify_flags == flags
    assert not flags & ssl.VERIFY_X509_STRICT
    assert HttpsTrust().context.verify_mode is ssl.CERT_REQUIRED
    assert HttpsTrust().context.check_hostname
