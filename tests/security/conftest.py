"""Fixtures of the security tests: an authority with certificates, and a broker with a listener of each kind.

The listeners: PLAINTEXT (that of the brokers), SSL (no client certificate), REQUESTED and REQUIRED. One broker a
session and dispatch mode; tests keep apart by topic names, and do not change its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import CertificateAuthority, Identity
from tests.support.server_fixtures import SERVER_PROPERTIES, topic

__all__ = ["topic"]

LISTENERS = {"SSL": "none", "REQUESTED": "requested", "REQUIRED": "required"}


@dataclass(frozen=True, slots=True)
class Certificates:
    """The session's authority, and the files made with it."""

    authority: CertificateAuthority
    server: Identity
    client: Identity
    directory: Path

    @property
    def trust_pem(self) -> Path:
        """The trust store of clients and servers."""
        return self.directory / "trust.pem"

    @property
    def server_pem(self) -> Path:
        """The broker's key store."""
        return self.directory / "server.pem"

    @property
    def client_pem(self) -> Path:
        """The key store of a client, whose certificate the authority has signed."""
        return self.directory / "client.pem"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for a session."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


def make_certificates(directory: Path) -> Certificates:
    """Make an authority, certificates, and their files."""
    authority = CertificateAuthority()
    made = Certificates(authority, authority.issue("server"), authority.issue("alice"), directory)
    authority.write_pem(made.trust_pem)
    made.server.write_pem(made.server_pem)
    made.client.write_pem(made.client_pem)
    return made


def ssl_properties(certificates: Certificates) -> dict[str, str]:
    """The settings of all SSL listeners."""
    return {
        "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", *(f"{name}:SSL" for name in LISTENERS)]),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server_pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trust_pem),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        **{f"listener.name.{name.lower()}.ssl.client.auth": auth for name, auth in LISTENERS.items()},
    }


def ssl_broker(directory: Path, certificates: Certificates, **properties: str) -> BarnabasProcess:
    """A broker with all listeners, not started; property names with `_` for `.`."""
    more = {name.replace("_", "."): value for name, value in properties.items()}
    broker = BarnabasProcess(directory, SERVER_PROPERTIES | ssl_properties(certificates) | more)
    broker.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in LISTENERS)
    return broker


@pytest.fixture(scope="session", params=["inline", "queue"])
def ssl_server(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BarnabasProcess]:
    """A running broker with all listeners, in each dispatch mode."""
    inline = str(request.param == "inline").lower()
    broker = ssl_broker(
        tmp_path_factory.mktemp("ssl"), certificates, inline_requests_enable=inline, num_network_threads="2"
    )
    broker.start()
    yield broker
    broker.stop()
