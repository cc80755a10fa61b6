"""Revocation lists: a broker refuses the clients that are in one, our clients the brokers, and neither anybody else."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SslAuthenticationError
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.security.conftest import Certificates, ssl_broker
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.settings_client import BROKER, OK, SET, SettingsClient
from tests.support.tls_client import TlsRawClient

CRL_LOCATION = "listener.name.required.ssl.crl.location"


def is_served(broker: BarnabasProcess, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> bool:
    """Whether a client gets an answer. session: an earlier one, which it tries to resume."""
    try:
        with TlsRawClient(broker, "REQUIRED", context, session) as client:
            client.socket.sendall(client.encode(ApiVersionsRequest(), 0))
            return bool(client.socket.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_broker_refuses_revoked_clients(certificates: Certificates, tmp_path: Path) -> None:
    authority = certificates.authority
    first, second, third = (authority.issue(name) for name in ("first", "second", "third"))
    contexts = {each: authority.client_context(each, tmp_path) for each in (first, second, third)}
    lists = authority.write_revocations(tmp_path / "lists.pem", first)
    broker = ssl_broker(tmp_path / "broker", certificates, **{CRL_LOCATION: str(lists)})
    broker.start()
    try:
        assert not is_served(broker, contexts[first])
        wait_for_log_line(broker, "certificate revoked")
        with TlsRawClient(broker, "REQUIRED", contexts[second]) as client:
            assert client.supported_versions()
            session = client.socket.session
        assert session is not None
        assert is_served(broker, contexts[second], session)
        # A list is replaced, and taken over like a key store. A session from before is no way around it.
        authority.write_revocations(tmp_path / "new.pem", first, second).replace(lists)
        assert SettingsClient(broker).change(BROKER, "0", (CRL_LOCATION, SET, str(lists))) == OK
        wait_for_log_line(broker, "Listener REQUIRED uses a new TLS context")
        assert not is_served(broker, contexts[second], session)
        assert is_served(broker, contexts[third])
        # Without a list that is up to date nobody can tell who is revoked, so nobody is served.
        authority.write_revocations(tmp_path / "old.pem", days=-1).replace(lists)
        assert SettingsClient(broker).change(BROKER, "0", (CRL_LOCATION, SET, str(lists))) == OK
        wait_for_log_line(broker, "Listener REQUIRED uses a new TLS context", 2)
        assert not is_served(broker, contexts[third])
        wait_for_log_line(broker, "CRL has expired")
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("is_listed", "days", "hint"),
    [
        (True, 30, "certificate revoked; the broker needs a new certificate"),
        (False, -1, "CRL has expired; the file of ssl.crl.location needs newer revocation lists"),
        (False, 30, None),
    ],
)
def test_a_client_refuses_a_revoked_broker(
    ssl_server: BarnabasProcess,
    certificates: Certificates,
    tmp_path: Path,
    is_listed: bool,
    days: float,
    hint: str | None,
) -> None:
    revoked = certificates.server if is_listed else certificates.client
    config = ClientConfig(
        security_protocol="SSL",
        ssl_truststore_location=str(certificates.trust_pem),
        ssl_crl_location=str(certificates.authority.write_revocations(tmp_path / "lists.pem", revoked, days=days)),
    )
    with Admin(f"localhost:{ssl_server.ports['SSL']}", config=config) as admin:
        if hint is None:
            assert admin.describe_cluster().nodes
            return
        with pytest.raises(SslAuthenticationError) as caught:
            admin.describe_cluster()
    assert str(caught.value).endswith(hint)
