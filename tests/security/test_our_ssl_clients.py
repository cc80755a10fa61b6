"""Our clients over TLS: producer, consumer in a group, transactions, admin; and one clear error for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import SslAuthenticationError
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.errors import Unreachable
from barnabas.clients.producer.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.conftest import Certificates, ssl_broker
from tests.security.secured_clients import SECONDS, address, check_clients
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import PASSWORD, CertificateAuthority


def trusting(certificates: Certificates, **more: Any) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.trust_pem), **more}


@pytest.mark.parametrize("listener", ["SSL", "REQUIRED"])
def test_each_client_works_over_tls(
    ssl_server: BarnabasProcess, certificates: Certificates, topic: str, listener: str
) -> None:
    settings = trusting(certificates)
    if listener == "REQUIRED":
        settings["ssl_keystore_location"] = str(certificates.client_pem)
    check_clients(address(ssl_server, listener), topic, settings)


def test_stores_may_be_pkcs12_or_stand_in_the_settings(
    ssl_server: BarnabasProcess, certificates: Certificates, tmp_path: Path
) -> None:
    store = certificates.client.write_pkcs12(tmp_path / "client.p12")
    kinds: list[dict[str, Any]] = [
        {
            "ssl_keystore_location": str(store),
            "ssl_keystore_type": "PKCS12",
            "ssl_keystore_password": PASSWORD,
            "ssl_truststore_location": str(certificates.trust_pem),
        },
        {
            "ssl_keystore_key": certificates.client.key_pem("key password"),
            "ssl_key_password": "key password",
            "ssl_keystore_certificate_chain": certificates.client.certificate_pem,
            "ssl_truststore_certificates": certificates.authority.pem,
        },
    ]
    for settings in kinds:
        config = ClientConfig(security_protocol="SSL", **settings)
        with Admin(address(ssl_server, "REQUIRED", "localhost"), config=config) as admin:
            assert admin.describe_cluster().nodes


def refused(servers: str, settings: dict[str, Any]) -> str:
    """The error of an admin, of a producer's first send and of a consumer's first poll, which are the same."""
    with Admin(servers, config=ClientConfig(**settings)) as admin, pytest.raises(SslAuthenticationError) as caught:
        admin.list_topics()
    text = str(caught.value)
    with Producer(servers, **settings) as producer, pytest.raises(SslAuthenticationError) as sent:
        producer.send("t", value=b"v").result(SECONDS)
    with Consumer(servers, group_id="readers", **settings) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(SslAuthenticationError) as polled:
            consumer.poll(1000 * SECONDS)
    assert str(sent.value) == str(polled.value) == text
    return text


def test_a_broker_of_another_authority_is_refused_at_once(ssl_server: BarnabasProcess, tmp_path: Path) -> None:
    other = CertificateAuthority("another").write_pem(tmp_path / "other.pem")
    settings = {"security_protocol": "SSL", "ssl_truststore_location": str(other)}
    text = refused(address(ssl_server, "SSL"), settings)
    assert "certificate verify failed" in text.replace("_", " ").lower()
    assert "check ssl.truststore.location" in text


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    ssl_server: BarnabasProcess, certificates: Certificates
) -> None:
    text = refused(address(ssl_server, "REQUIRED"), trusting(certificates))
    assert text.endswith("check ssl.keystore.location: the broker asks clients for a certificate")


@pytest.mark.parametrize(
    ("names", "days", "hint"),
    [
        (("elsewhere.example",), 365, "connect by a name that stands in the broker's certificate"),
        (("127.0.0.1",), -1, "the broker needs a new certificate"),
    ],
)
def test_a_certificate_with_another_name_or_past_its_time_is_refused(
    certificates: Certificates, tmp_path: Path, names: tuple[str, ...], days: float, hint: str
) -> None:
    store = certificates.authority.issue("server", names=names, days=days).write_pem(tmp_path / "server.pem")
    broker = ssl_broker(tmp_path, certificates, ssl_keystore_location=str(store))
    broker.start()
    try:
        servers = address(broker, "SSL")
        assert refused(servers, trusting(certificates)).endswith(hint)
        if days > 0:
            anyone = trusting(certificates, ssl_endpoint_identification_algorithm="")
            with Admin(servers, config=ClientConfig(**anyone)) as admin:
                assert admin.describe_cluster().nodes
    finally:
        broker.stop()


def test_the_wrong_protocol_is_named_in_the_error(ssl_server: BarnabasProcess, certificates: Certificates) -> None:
    """Such a connection may also have broken by chance, so it is tried again until the client's time is over."""
    plain = ClientConfig(bootstrap_timeout_ms=1_000)
    with (
        Admin(address(ssl_server, "SSL"), config=plain) as admin,
        pytest.raises(Unreachable, match=r"check security\.protocol"),
    ):
        admin.list_topics()
    secure = ClientConfig(bootstrap_timeout_ms=1_000, **trusting(certificates))
    with (
        Admin(address(ssl_server, "PLAINTEXT"), config=secure) as admin,
        pytest.raises(Unreachable, match=r"handshake|reset"),
    ):
        admin.list_topics()
