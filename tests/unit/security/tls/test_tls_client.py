"""The name that a client tells a server as a handshake begins (SNI), and refuses if it is not the server's."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.config.secret import Secret
from barnabas.security.tls.tls_config import TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_contexts import TlsClient
from barnabas.transport.channel.authenticator import AuthenticationFailed
from tests.support.certificates import CertificateAuthority
from tests.support.memory_network import MemoryNetwork

AUTHORITY = CertificateAuthority()
SERVER = AUTHORITY.issue("server", names=("broker.example", "127.0.0.1"))


@pytest.mark.parametrize(
    ("host", "told"), [("broker.example", "broker.example"), ("broker.example.", "broker.example"), ("127.0.0.1", None)]
)
def test_a_server_is_told_the_name_and_no_address(host: str, told: str | None, tmp_path: Path) -> None:
    assert names_told(host, tmp_path / "server.pem") == [told]


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match="mismatch"):
        names_told("elsewhere.example", tmp_path / "server.pem")


def names_told(host: str, key_store: Path) -> list[str | None]:
    """What the server hears in a handshake that succeeds. Raises AuthenticationFailed: the client refuses it."""
    heard: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SERVER.write_pem(key_store))
    context.sni_callback = lambda _, name, __: heard.append(name)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    near, far = MemoryNetwork().pair()
    config = TlsConfig(truststore=TrustStoreConfig(type="PEM", certificates=Secret(AUTHORITY.pem)))
    transport = TlsClient(config).transport(near, host)
    while not transport.ready:
        transport.handshake()
        incoming.write(far.take())
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        if outgoing.pending:
            far.send(outgoing.read())
    return heard
