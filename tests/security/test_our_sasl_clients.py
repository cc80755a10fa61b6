"""Our clients' logins: PLAIN and a login context of Java's, in plaintext and over TLS, and the command line's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SaslAuthenticationError
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import Certificates
from tests.security.test_our_ssl_clients import SECONDS, address, check_clients
from tests.security.test_sasl_listeners import LISTENERS, PASSWORD, sasl_server
from tests.support.barnabas_process import BarnabasProcess

__all__ = ["sasl_server"]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def login(certificates: Certificates, listener: str, password: str = PASSWORD) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "security_protocol": LISTENERS[listener],
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": password,
    }
    if "SSL" in LISTENERS[listener]:
        settings["ssl_truststore_location"] = str(certificates.trust_pem)
    return settings


@pytest.mark.parametrize("listener", sorted(LISTENERS))
def test_each_client_works_after_its_login(
    sasl_server: BarnabasProcess, certificates: Certificates, topic: str, listener: str
) -> None:
    check_clients(address(sasl_server, listener), topic, login(certificates, listener))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_rejected_login_ends_each_call_with_the_broker_s_words(
    sasl_server: BarnabasProcess, certificates: Certificates, mechanism: str
) -> None:
    wrong = "not-the-password"
    settings = login(certificates, "SASL", wrong) | {"sasl_mechanism": mechanism}
    servers = address(sasl_server, "SASL")
    with Admin(servers, config=ClientConfig(**settings)) as admin, pytest.raises(SaslAuthenticationError) as caught:
        admin.list_topics()
    text = str(caught.value)
    assert "Authentication failed" in text
    assert wrong not in text
    with Producer(servers, **settings) as producer, pytest.raises(SaslAuthenticationError):
        producer.send("t", value=b"v").result(SECONDS)
    with Consumer(servers, group_id="readers", **settings) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(SaslAuthenticationError):
            consumer.poll(1000 * SECONDS)


def barnabas(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", *arguments]
    return subprocess.run(command, input="one\ntwo\n", capture_output=True, text=True, timeout=120, check=False)


def test_commands_read_kafka_s_properties_file(
    sasl_server: BarnabasProcess, certificates: Certificates, topic: str, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={MODULE} required username="alice" password="{PASSWORD}";',
        f"ssl.truststore.location={certificates.trust_pem}",
        "max.poll.records=100",
    ]
    properties.write_text("\n".join(lines))
    broker = ("--bootstrap-server", address(sasl_server, "SASLTLS"), "--command-config", str(properties))
    commands = (["topics", "create", topic], ["produce", topic, "--quiet"], ["consume", topic, "--quiet"])
    runs = [barnabas(*arguments, *broker) for arguments in commands]
    assert [done.returncode for done in runs] == [0, 0, 0], runs
    assert runs[-1].stdout == "one\ntwo\n"
    properties.write_text("\n".join(lines).replace(PASSWORD, "another-password"))
    done = barnabas("topics", "list", *broker)
    assert done.returncode == 1
    assert done.stderr.count("authentication with") == 1
    assert "another-password" not in done.stderr
    properties.write_text("sasl.pasword=another-password\n")
    done = barnabas("topics", "list", *broker)
    assert done.returncode == 2
    assert "clients have no setting 'sasl.pasword'; did you mean 'sasl.password'" in done.stderr
    assert "another-password" not in done.stderr
