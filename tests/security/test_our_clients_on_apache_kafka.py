"""Our clients on Apache Kafka 3.9: SSL, SASL_PLAINTEXT and SASL_SSL, with each mechanism, and what it rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.authentication_errors import SaslAuthenticationError, SslAuthenticationError
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import Certificates
from tests.security.test_our_ssl_clients import check_clients
from tests.support.apache_kafka import CONFIG_COMMAND, ApacheKafka, need_apache_kafka, run_tool
from tests.support.certificates import CertificateAuthority
from tests.support.server_process import free_port

pytestmark = [pytest.mark.java, pytest.mark.slow]

USER, SECRET = "alice", "alice-knows-this"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
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
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
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
        credentials = ",".join(f"{mechanism}=[password={SECRET}]" for mechanism in MECHANISMS[1:])
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


def settings_of(certificates: Certificates, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": protocol}
    if "SSL" in protocol:
        settings["ssl_truststore_location"] = str(certificates.trust_pem)
    if "SASL" in protocol:
        settings |= {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": SECRET}
    return settings


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), *((protocol, mechanism) for protocol in PROTOCOLS[1:] for mechanism in MECHANISMS)],
)
def test_each_client_works(kafka: SecuredKafka, certificates: Certificates, protocol: str, mechanism: str) -> None:
    settings = settings_of(certificates, protocol, mechanism)
    topic = f"t-{protocol}-{mechanism or 'none'}"
    servers = kafka.addresses[protocol]
    with Admin(servers, config=ClientConfig(**settings)) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    check_clients(servers, topic, settings)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_answered_in_kafka_s_words(
    kafka: SecuredKafka, certificates: Certificates, mechanism: str
) -> None:
    settings = settings_of(certificates, "SASL_SSL", mechanism) | {"sasl_password": "wrong-password"}
    config = ClientConfig(**settings)
    with (
        Admin(kafka.addresses["SASL_SSL"], config=config) as admin,
        pytest.raises(SaslAuthenticationError, match="Authentication failed") as caught,
    ):
        admin.list_topics()
    assert "wrong-password" not in str(caught.value)


def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(
    kafka: SecuredKafka, certificates: Certificates
) -> None:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token": "t",
    }
    with (
        Admin(kafka.addresses["SASL_PLAINTEXT"], config=ClientConfig(**settings)) as admin,
        pytest.raises(SaslAuthenticationError, match=r"'OAUTHBEARER' not enabled in the server, enabled .*SCRAM"),
    ):
        admin.list_topics()


def test_a_broker_of_another_authority_is_refused(kafka: SecuredKafka, certificates: Certificates) -> None:
    settings: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_truststore_certificates": CertificateAuthority("another").pem,
    }
    with (
        Admin(kafka.addresses["SSL"], config=ClientConfig(**settings)) as admin,
        pytest.raises(SslAuthenticationError, match=r"check ssl\.truststore\.location"),
    ):
        admin.list_topics()
