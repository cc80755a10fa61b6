"""A broker whose certificate the other brokers would not trust does not start, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.channels.inter_broker_security import InterBrokerSecurity
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.security.tls.development_certificates import DevelopmentCertificates, make_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> DevelopmentCertificates:
    return make_certificates(tmp_path_factory.mktemp("ours"))


def security(certificates: DevelopmentCertificates, **more: str) -> InterBrokerSecurity:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "metadata.store": "embedded",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.directory / "server.pem"),
        **{name.replace("_", "."): text for name, text in more.items()},
    }
    return InterBrokerSecurity(KafkaConfig.parse(settings, "a test"), "0")


def test_without_a_trust_store(certificates: DevelopmentCertificates) -> None:
    with pytest.raises(ConfigError, match=r"at listener SSL by TLS, and would not .*: no trust store is set; set ssl"):
        security(certificates)


def test_with_the_trust_store_of_another_authority(certificates: DevelopmentCertificates, tmp_path: Path) -> None:
    others = make_certificates(tmp_path / "others")
    with pytest.raises(ConfigError, match="the trust store has not their authority"):
        security(certificates, ssl_truststore_type="PEM", ssl_truststore_location=str(others.directory / "ca.pem"))


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_with_the_authority(certificates: DevelopmentCertificates, client_auth: str) -> None:
    ours = str(certificates.directory / "ca.pem")
    made = security(certificates, ssl_truststore_type="PEM", ssl_truststore_location=ours, ssl_client_auth=client_auth)
    assert made.protects("SSL")
