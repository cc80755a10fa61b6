"""Logins and TLS handshakes by mutants: the broker ends each of them, serves others, and forgets the connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.protocol.errors import ErrorCode
from barnabas.security.sasl.oauth_config import UNSECURED_HANDLER
from tests.fuzz.campaign import resident_bytes
from tests.fuzz.login_mutants import SECONDS, LoginMutants, Ports, User, client_hello
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_metrics import metric_value
from tests.support.certificates import CertificateAuthority
from tests.support.raw_client import RawClient
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="others may fuzz Apache Kafka")

USER = User("alice", "what-alice-alone-knows")
LISTENERS = {"TLS": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
OPEN = "kafka_server_socket_server_metrics_connection_count"
SENDERS = 4
MOST_GROWTH = 0.05
"""Of the memory in the second half of the campaign. In the first one, heaps and the buckets of histograms fill."""
FRAGMENT = 8
"""A mutant rarely has the whole password: so many characters of it in a row count as the password."""


@pytest.fixture(scope="module")
def trust_pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("login-fuzz")
    authority = CertificateAuthority()
    authority.issue("server").write_pem(directory / "server.pem")
    return authority.write_pem(directory / "trust.pem")


@pytest.fixture(scope="module")
def broker(trust_pem: Path) -> Iterator[BarnabasProcess]:
    """A broker with a listener of each secured protocol."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{USER.password}";'
    properties = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in LISTENERS.items())]
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(trust_pem.with_name("server.pem")),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "1",
        "connections.max.reauth.ms": "60000",
        "metrics.listen": "127.0.0.1:0",
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": login for name in ("SASL", "SASLTLS")},
        **{
            f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER
            for name in ("SASL", "SASLTLS")
        },
    }
    running = BarnabasProcess(trust_pem.parent / "broker", SERVER_PROPERTIES | properties)
    running.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in LISTENERS)
    running.start()
    with Admin(f"{running.host}:{running.port}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration(USER.name, ScramMechanism.SCRAM_SHA_256, USER.password)])
    await_user(running)
    yield running
    running.stop()
    log = running.log_text()
    for start in range(len(USER.password) - FRAGMENT + 1):
        assert USER.password[start : start + FRAGMENT] not in log, "a part of a password is in the log"
    assert ",p=" not in log, "a proof is in the log"
    assert "Bearer ey" not in log, "a token is in the log"
    unexpected = log.find("Traceback")
    assert unexpected < 0, log[max(unexpected - 1000, 0) : unexpected + 3000]


def await_user(broker: BarnabasProcess) -> None:
    """Wait until the user can log in by SCRAM: a credential is in force a moment after the answer."""
    deadline = time.monotonic() + 2 * SECONDS
    while True:
        with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as client:
            if client.log_in(USER.name, USER.password, "SCRAM-SHA-256").error_code == ErrorCode.NONE:
                return
        assert time.monotonic() < deadline, "the user cannot log in"
        time.sleep(0.05)


def send_mutants(broker: BarnabasProcess, trust_pem: Path, count: int, seed: int) -> dict[str, int]:
    """Send mutants from several threads; how many of each kind were sent. Raises what a sender raises."""
    ports = Ports(broker.ports["TLS"], broker.ports["SASL"], broker.ports["SASLTLS"])
    senders = [LoginMutants(ports, USER, str(trust_pem), seed + number) for number in range(SENDERS)]
    with ThreadPoolExecutor(SENDERS) as threads:
        for done in [threads.submit(sender.run, count // SENDERS) for sender in senders]:
            done.result()
    return {kind: sum(sender.sent[kind] for sender in senders) for kind in senders[0].sent}


def check_serves(broker: BarnabasProcess, topic: str) -> None:
    """A client logs in, writes and reads."""
    with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as client:
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as each:
                assert each.log_in(USER.name, USER.password, mechanism).error_code == ErrorCode.NONE
        client.log_in(USER.name, USER.password)
        client.create_topic(topic)
        assert client.produce_values(topic, b"alive") == 0


def await_no_connections(broker: BarnabasProcess, most: float) -> None:
    """Wait until the broker has forgotten the connections of the mutants."""
    deadline = time.monotonic() + 2 * SECONDS
    while metric_value(broker.ports["http"], OPEN) > most:
        assert time.monotonic() < deadline, "connections of mutants are still there"
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_two_thousand_mutants(broker: BarnabasProcess, trust_pem: Path) -> None:
    before = metric_value(broker.ports["http"], OPEN)
    sent = send_mutants(broker, trust_pem, 2_000, 16)
    assert min(sent.values()) > 50, sent
    await_no_connections(broker, before)
    check_serves(broker, "after-two-thousand")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_thousand_mutants(broker: BarnabasProcess, trust_pem: Path) -> None:
    before = metric_value(broker.ports["http"], OPEN)
    send_mutants(broker, trust_pem, 100_000, 1_600)
    resident = resident_bytes(broker)
    send_mutants(broker, trust_pem, 100_000, 160_000)
    await_no_connections(broker, before)
    check_serves(broker, "after-two-hundred-thousand")
    assert resident_bytes(broker) <= resident * (1 + MOST_GROWTH)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thousand_half_handshakes_delay_nobody(broker: BarnabasProcess) -> None:
    before = metric_value(broker.ports["http"], OPEN)
    hello = client_hello()
    half_open = []
    try:
        for number in range(1_000):
            connection = socket.create_connection((broker.host, broker.ports["TLS"]), SECONDS)
            half_open.append(connection)
            connection.sendall(hello[: 1 + number % (len(hello) - 1)])
        check_serves(broker, "beside-half-handshakes")
        with RawClient(broker) as client:
            began = time.monotonic()
            for _ in range(100):
                client.produce_values("beside-half-handshakes", b"v")
            assert time.monotonic() - began < SECONDS
    finally:
        for connection in half_open:
            connection.close()
    await_no_connections(broker, before)
