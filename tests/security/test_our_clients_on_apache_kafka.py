"""Our clients on Apache Kafka 3.9: SSL, SASL_PLAINTEXT and SASL_SSL, with each mechanism, and what it rejects."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.authentication_errors import SaslAuthenticationError, SslAuthenticationError
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import PROTOCOLS, SASL_MECHANISMS, SECRET, USER, Certificates, SecuredKafka
from tests.security.secured_clients import check_clients
from tests.support.certificates import CertificateAuthority

pytestmark = [pytest.mark.java, pytest.mark.slow]


def settings_of(certificates: Certificates, protocol: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": protocol}
    if "SSL" in protocol:
        settings["ssl_truststore_location"] = str(certificates.trust_pem)
    if "SASL" in protocol:
        settings |= {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": SECRET}
    return settings


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), *((protocol, mechanism) for protocol in PROTOCOLS[1:] for mechanism in SASL_MECHANISMS)],
)
def test_each_client_works(kafka: SecuredKafka, certificates: Certificates, protocol: str, mechanism: str) -> None:
    settings = settings_of(certificates, protocol, mechanism)
    topic = f"t-{protocol}-{mechanism or 'none'}"
    servers = kafka.addresses[protocol]
    with Admin(servers, config=ClientConfig(**settings)) as admin:
        admin.create_topics([NewTopic(topic, 1)])
    check_clients(servers, topic, settings)


@pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
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
