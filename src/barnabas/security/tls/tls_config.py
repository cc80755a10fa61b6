"""The settings of TLS: those of one listener, or of a client.

Made by `broker/` for each listener (`TlsConfig.of` of the listener's settings), or by a client with the fields it has;
immutable. Kafka: SslConfigs, BrokerSecurityConfigs.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from barnabas.config.config_values import ConfigValues
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, setting


def text_if_given(value: Any) -> str | None:
    """Return a text; None for an empty one, which a properties file may have for a setting that is not given."""
    return str(value) if value else None


class KeyStoreConfig(Settings):
    """The place of the private key and its certificates: a file, or PEM in the settings themselves (KIP-651)."""

    type: str = setting("ssl.keystore.type")
    location: str | None = setting("ssl.keystore.location", text_if_given)
    password: Secret | None = setting("ssl.keystore.password", Secret.of)
    key_password: Secret | None = setting("ssl.key.password", Secret.of)
    key: Secret | None = setting("ssl.keystore.key", Secret.of)
    certificate_chain: Secret | None = setting("ssl.keystore.certificate.chain", Secret.of)


class TrustStoreConfig(Settings):
    """The place of the trusted certificates: a file, or PEM in the settings themselves.

    crl_location: the file of the revocation lists; None: no certificate is looked up.
    """

    type: str = setting("ssl.truststore.type")
    location: str | None = setting("ssl.truststore.location", text_if_given)
    password: Secret | None = setting("ssl.truststore.password", Secret.of)
    certificates: Secret | None = setting("ssl.truststore.certificates", Secret.of)
    crl_location: str | None = setting("ssl.crl.location", text_if_given)


class TlsConfig(Settings):
    """All settings. client_auth: none, requested or required. cipher_suites: IANA's names; empty for OpenSSL's choice.

    allow_dn_changes, allow_san_changes: a certificate that is loaded while the broker runs may have other names.
    """

    client_auth: str = setting("ssl.client.auth")
    principal_mapping_rules: str = setting("ssl.principal.mapping.rules")
    enabled_protocols: tuple[str, ...] = setting("ssl.enabled.protocols")
    cipher_suites: tuple[str, ...] = setting("ssl.cipher.suites")
    allow_dn_changes: bool = setting("ssl.allow.dn.changes")
    allow_san_changes: bool = setting("ssl.allow.san.changes")
    keystore: KeyStoreConfig = field(default_factory=KeyStoreConfig)
    truststore: TrustStoreConfig = field(default_factory=TrustStoreConfig)

    @classmethod
    def of(cls, config: ConfigValues) -> TlsConfig:
        """Read the settings of a listener. config: with the listener's own settings in front (`of_listener`)."""
        return cls.from_kafka_config(
            config,
            keystore=KeyStoreConfig.from_kafka_config(config),
            truststore=TrustStoreConfig.from_kafka_config(config),
        )
