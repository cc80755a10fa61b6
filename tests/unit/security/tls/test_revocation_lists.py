"""Revocation lists and chains of two authorities: every certificate is looked up, and what cannot be is refused."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.config.secret import Secret
from barnabas.security.tls.key_stores import load_key_store, load_trust_store
from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_contexts import server_context
from tests.support.certificates import CertificateAuthority, strict_context

ROOT = CertificateAuthority("root")
MIDDLE = CertificateAuthority("middle", ROOT)
SERVER = ROOT.issue("server")
CLIENT = MIDDLE.issue("client")


def refusal(directory: Path, lists: Sequence[str]) -> str:
    """The server's reason to refuse a client of the middle authority, by these lists; empty if it accepts."""
    (directory / "lists.pem").write_text("".join(lists))
    config = TlsConfig(
        client_auth="required",
        keystore=KeyStoreConfig(type="PEM", location=str(SERVER.write_pem(directory / "server.pem"))),
        truststore=TrustStoreConfig(
            type="PEM", certificates=Secret(ROOT.pem), crl_location=str(directory / "lists.pem")
        ),
    )
    key_store = load_key_store(config.keystore)
    assert key_store is not None
    accepting = server_context(config, key_store, load_trust_store(config.truststore))
    connecting = strict_context(ROOT.pem)
    chain = directory / "client.pem"
    chain.write_text(CLIENT.key_pem() + CLIENT.certificate_pem + MIDDLE.pem)
    connecting.load_cert_chain(chain)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = accepting.wrap_bio(to_server, to_client, server_side=True)
    client = connecting.wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            assert side is server
            return error.verify_message
    return ""


def revocations(authority: CertificateAuthority, directory: Path, *revoked: CertificateAuthority) -> str:
    return authority.write_revocations(directory / "list.pem", *revoked).read_text()


def test_the_lists_of_all_authorities_are_needed(tmp_path: Path) -> None:
    of_root, of_middle = revocations(ROOT, tmp_path), revocations(MIDDLE, tmp_path)
    assert refusal(tmp_path, [of_root, of_middle]) == ""
    for lists in ([of_root], [of_middle]):
        assert refusal(tmp_path, lists) == "unable to get certificate CRL"


def test_the_certificates_of_a_revoked_authority_are_refused(tmp_path: Path) -> None:
    lists = [revocations(ROOT, tmp_path, MIDDLE), revocations(MIDDLE, tmp_path)]
    assert refusal(tmp_path, lists) == "certificate revoked"


@pytest.mark.parametrize("text", ["-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n"])
def test_a_list_that_cannot_be_read_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="The revocation lists cannot be used"):
        refusal(tmp_path, [text])
