"""The settings of TLS to ZooKeeper, as ZooKeeper reads them; errors have the names that the settings have there."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperTlsConfig
from tests.support.certificates import PASSWORD, CertificateAuthority


def config_of(**settings: object) -> ZookeeperTlsConfig:
    given = {f"zookeeper.ssl.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    return ZookeeperTlsConfig.of(
        KafkaConfig.parse({"zookeeper.connect": "localhost", "zookeeper.ssl.client.enable": "true", **given})
    )


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def test_stores_by_the_names_of_their_files(authority: CertificateAuthority, tmp_path: Path) -> None:
    identity, trusted = authority.issue("broker"), authority.write_pem(tmp_path / "trusted.pem")
    with_password = identity.write_pem(tmp_path / "keys.PEM", PASSWORD)
    assert config_of(
        keystore_location=with_password,
        keystore_password=PASSWORD,
        truststore_location=trusted,
        truststore_password="ZooKeeper ignores it, too",
    ).new_client()
    pkcs12 = identity.write_pkcs12(tmp_path / "keys.jks")  # Java reads it whatever its name
    assert config_of(keystore_location=pkcs12, keystore_password=PASSWORD, truststore_location=trusted).new_client()
    plain = identity.write_pem(tmp_path / "keys")
    assert config_of(keystore_location=plain, keystore_type="pem").new_client()


def test_unusable_stores_are_refused_by_their_settings(authority: CertificateAuthority, tmp_path: Path) -> None:
    jks = tmp_path / "keys.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed" + bytes(64))
    encrypted = authority.issue("broker").write_pem(tmp_path / "encrypted.pem", PASSWORD)
    for settings, reason in (
        (
            {"keystore_location": jks, "keystore_password": "x"},
            r"keytool -importkeystore .* zookeeper\.ssl\.keystore\.type=PKCS12",
        ),
        ({"truststore_location": jks}, r"^zookeeper\.ssl\.truststore\.location=.* Java's own format JKS"),
        ({"truststore_location": tmp_path / "none.pem"}, r"^zookeeper\.ssl\.truststore\.location=.* cannot be read"),
        ({"keystore_location": encrypted}, r"encrypted, and zookeeper\.ssl\.keystore\.password is not set"),
        (
            {"keystore_location": encrypted, "keystore_password": "wrong"},
            r"zookeeper\.ssl\.keystore\.password is wrong",
        ),
        ({"enabled_protocols": "TLSv1.1"}, r"configuration zookeeper\.ssl\.enabled\.protocols: known are"),
        ({"protocol": "SSLv3"}, "known are TLSv1.2, TLSv1.3"),
        ({"cipher_suites": "NONE_SUCH"}, r"zookeeper\.ssl\.cipher\.suites"),
    ):
        with pytest.raises(ConfigError, match=reason) as caught:
            config_of(**settings).new_client()
        assert caught.value.name is None or caught.value.name.startswith("zookeeper.ssl.")


def test_plaintext_reads_no_file() -> None:
    settings = {"zookeeper.ssl.client.enable": "false", "zookeeper.ssl.keystore.location": "/none"}
    assert ZookeeperTlsConfig.of(KafkaConfig.parse({"zookeeper.connect": "localhost", **settings})).new_client() is None
