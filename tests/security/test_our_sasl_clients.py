"""Our clients' logins: PLAIN and a login context of Java's, in plaintext and over TLS, and the command line's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SaslAuthenticationError
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import PASSWORD, SASL_LISTENERS, Certificates
from tests.security.secured_clients import SECONDS, address, barnabas, check_clients, login
from tests.support.barnabas_process import BarnabasProcess

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize("listener", sorted(SASL_LISTENERS))
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
