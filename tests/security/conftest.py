"""Fixtures of the security tests: an authority with certificates, and a broker with a listener of each kind.

The listeners: PLAINTEXT (that of the brokers), SSL (no client certificate), REQUESTED and REQUIRED. One broker a
session and dispatch mode; tests keep apart by topic names, and do not change its settings.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.apache_kafka import CONFIG_COMMAND, ApacheKafka, need_apache_kafka, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import CertificateAuthority, Identity
from tests.support.server_fixtures import SERVER_PROPERTIES, many_descriptors, topic
from tests.support.server_process import free_port

__all__ = ["many_descriptors", "topic"]

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


PASSWORD = "alice-knows-this"
SASL_LISTENERS = {"SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}


def sasl_properties(certificates: Certificates) -> dict[str, str]:
    """The settings of both SASL listeners."""
    users = f'user_alice="{PASSWORD}" user_bob="bob-knows-this"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    return ssl_properties(certificates) | {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in SASL_LISTENERS.items())]
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "connection.failed.authentication.delay.ms": "1",
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": login for name in SASL_LISTENERS},
    }


@pytest.fixture(scope="session", params=["inline", "queue"])
def sasl_server(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BarnabasProcess]:
    """A running broker with both listeners, in each dispatch mode."""
    inline = {"inline.requests.enable": str(request.param == "inline").lower()}
    properties = {
        name: value for name, value in sasl_properties(certificates).items() if not name.startswith("listener.name.re")
    }
    broker = BarnabasProcess(tmp_path_factory.mktemp("sasl"), SERVER_PROPERTIES | properties | inline)
    broker.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in SASL_LISTENERS)
    broker.start()
    yield broker
    broker.stop()
    log = broker.log_text()
    for secret in (PASSWORD, "bob-knows-this"):
        assert secret not in log, "a secret is in the log"


def client_hello(certificates: Certificates) -> bytes:
    """The first bytes of a handshake."""
    outgoing = ssl.MemoryBIO()
    tls = certificates.authority.client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


USER, SECRET = "alice", "alice-knows-this"
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """A running broker, and the address of each protocol's listener."""

    broker: ApacheKafka
    addresses: dict[str, str]


@pytest.fixture(scope="module")
def kafka(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    need_apache_kafka()
    directory = tmp_path_factory.mktemp("secured-kafka")
    ports = {protocol: free_port() for protocol in ("PLAINTEXT", *PROTOCOLS)}
    module = "org.apache.kafka.common.security"
    logins = {
        "plain": f'{module}.plain.PlainLoginModule required user_{USER}="{SECRET}";',
        "scram-sha-256": f"{module}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{module}.scram.ScramLoginModule required;",
    }
    broker = ApacheKafka(
        directory,
        {
            "listeners": ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items()),
            "sasl.enabled.mechanisms": ",".join(SASL_MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server_pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.trust_pem),
            "ssl.client.auth": "requested",
            "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": "3600000",
            **{
                f"listener.name.{protocol}.{mechanism}.sasl.jaas.config": login
                for protocol in ("sasl_plaintext", "sasl_ssl")
                for mechanism, login in logins.items()
            },
        },
    )
    broker.port = ports["PLAINTEXT"]
    try:
        broker.start()
        credentials = ",".join(f"{mechanism}=[password={SECRET}]" for mechanism in SASL_MECHANISMS[1:])
        user = ("--entity-type", "users", "--entity-name", USER)
        servers = f"127.0.0.1:{broker.port}"
        run_tool(
            CONFIG_COMMAND,
            *("--bootstrap-server", servers, "--alter", "--add-config", credentials, *user),
            directory=directory,
        )
        yield SecuredKafka(broker, {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()})
    finally:
        broker.close()
