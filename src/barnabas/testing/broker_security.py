"""The security of a broker of the test kit: certificates, users, and the settings by which client libraries connect.

Made by BrokerProcess, on the caller's thread; immutable. Certificates are made before the first start, in a directory
beside the data, and need the extra `tls`. A single broker of the kit reaches itself by a plaintext listener; brokers of
a cluster reach each other by the secured one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.security.tls.development_certificates import DevelopmentCertificates
    from barnabas.security.tls.tls_contexts import TlsClient

PASSWORDS: Final = {"alice": "alice-secret", "bob": "bob-secret"}
"""User -> password, of a broker with SASL. For tests alone: they stand in the broker's command line."""
MECHANISM: Final = "PLAIN"
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of all clients that show neither a password nor a certificate."""
_BROKERS_USER: Final = "broker"
_BROKERS_PASSWORD: Final = "broker-secret"  # noqa: S105 - for tests alone
_KINDS: Final = ("ssl", "sasl_plaintext", "sasl_ssl")
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The secured listener of one broker, and its clients. user: as whom they log in (SASL only)."""

    protocol: str
    """SSL, SASL_PLAINTEXT or SASL_SSL: Kafka's name of the protocol, and the name of the listener."""
    certificates: DevelopmentCertificates | None
    user: str = "alice"

    @property
    def password(self) -> str:
        """The user's password."""
        return PASSWORDS[self.user]

    def as_user(self, user: str) -> BrokerSecurity:
        """Return the same for another user. Raises ValueError: the broker has no such user, or asks for none."""
        if not self.has_users or user not in PASSWORDS:
            known = ", ".join(PASSWORDS) if self.has_users else f"none, with {self.protocol}"
            raise ValueError(f"user={user!r}: the broker's users are {known}")
        return replace(self, user=user)

    @property
    def broker_settings(self) -> dict[str, str]:
        """The settings of the broker."""
        settings = {} if self.certificates is None else self.certificates.broker_settings
        if self.has_users:
            settings["sasl.enabled.mechanisms"] = f"{MECHANISM},SCRAM-SHA-256,SCRAM-SHA-512"
            settings[self._login_setting] = f"{_LOGIN_MODULE} {_users(PASSWORDS)};"
        return settings

    @property
    def cluster_settings(self) -> dict[str, str]:
        """The settings of a broker whose fellows connect to the secured listener, too."""
        settings = {**self.broker_settings, "security.inter.broker.protocol": self.protocol}
        if self.has_users:
            own = f'username="{_BROKERS_USER}" password="{_BROKERS_PASSWORD}"'
            users = _users({**PASSWORDS, _BROKERS_USER: _BROKERS_PASSWORD})
            settings[self._login_setting] = f"{_LOGIN_MODULE} {own} {users};"
            settings["sasl.mechanism.inter.broker.protocol"] = MECHANISM
        return settings

    def cluster_principal(self, *, asks_for_certificates: bool, mapping_rules: str = "DEFAULT") -> str | None:
        """Return the principal of a broker whose fellows connect to the secured listener, too.

        mapping_rules: what makes names of certificates. None: they cannot be read, or none makes a name of the broker's
        certificate; the broker itself says so when it starts.
        """
        if self.has_users:
            return f"User:{_BROKERS_USER}"
        if not asks_for_certificates:
            return ANONYMOUS
        from barnabas.security.tls.distinguished_name import (  # noqa: PLC0415
            InvalidRule,
            NoMatchingRule,
            PrincipalMapper,
        )
        from barnabas.security.tls.key_stores import load_key_store  # noqa: PLC0415 - most test runs never need it
        from barnabas.security.tls.tls_config import KeyStoreConfig  # noqa: PLC0415

        assert self.certificates is not None  # TLS alone
        keys = load_key_store(KeyStoreConfig(type="PEM", location=str(self.certificates.server)))
        assert keys is not None
        try:
            return f"User:{PrincipalMapper(mapping_rules).name_of(keys.certificate.subject)}"
        except (InvalidRule, NoMatchingRule):
            return None

    def tls_client(self) -> TlsClient:
        """Return the TLS of the kit's own connections, which have the client's certificate."""
        from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig  # noqa: PLC0415
        from barnabas.security.tls.tls_contexts import TlsClient  # noqa: PLC0415 - most test runs never need it

        assert self.certificates is not None
        keys = KeyStoreConfig(type="PEM", location=str(self.certificates.client))
        trusted = TrustStoreConfig(type="PEM", location=str(self.certificates.authority))
        return TlsClient(TlsConfig(keystore=keys, truststore=trusted))

    @property
    def _login_setting(self) -> str:
        return f"listener.name.{self.protocol.lower()}.{MECHANISM.lower()}.sasl.jaas.config"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords of our Producer and Consumer, and of the ClientConfig of our Admin."""
        return {name.replace(".", "_"): value for name, value in self.java.items()}

    @property
    def java(self) -> dict[str, str]:
        """The settings of Java's clients and Kafka's tools (`--command-config`)."""
        settings = {} if self.certificates is None else dict(self.certificates.client_settings)
        settings["security.protocol"] = self.protocol
        if self.has_users:
            login = f'{_LOGIN_MODULE} username="{self.user}" password="{self.password}";'
            settings |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": login}
        return settings

    @property
    def librdkafka(self) -> dict[str, str]:
        """The settings of confluent-kafka, kcat and the other clients on librdkafka."""
        settings = {} if self.certificates is None else dict(self.certificates.librdkafka_settings)
        settings["security.protocol"] = self.protocol.lower()
        if self.has_users:
            settings |= {"sasl.mechanisms": MECHANISM, "sasl.username": self.user, "sasl.password": self.password}
        return settings

    @property
    def kafka_python(self) -> dict[str, str]:
        """The keywords of kafka-python's clients."""
        settings = {"security_protocol": self.protocol}
        if self.certificates is not None:
            settings |= {
                "ssl_cafile": str(self.certificates.authority),
                "ssl_certfile": str(self.certificates.client),
                "ssl_keyfile": str(self.certificates.client),
            }
        if self.has_users:
            settings |= {
                "sasl_mechanism": MECHANISM,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return settings

    @property
    def has_users(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")


def _users(passwords: Mapping[str, str]) -> str:
    return " ".join(f'user_{name}="{password}"' for name, password in passwords.items())


def security_of(data_dir: str, kind: str) -> BrokerSecurity:
    """Return the security of the broker with this data directory, whose certificates are made if they are not there.

    Raises ValueError for a kind of security that there is not, CertificatesMissing without the extra `tls`.
    """
    if kind not in _KINDS:
        raise ValueError(f"security={kind!r}: known are 'plaintext', {', '.join(map(repr, _KINDS))}")
    has_tls = kind.endswith("ssl")
    return BrokerSecurity(kind.upper(), _certificates_beside(data_dir) if has_tls else None)


def _certificates_beside(data_dir: str) -> DevelopmentCertificates:
    from barnabas.security.tls.development_certificates import DevelopmentCertificates, make_certificates  # noqa: PLC0415 - most test runs never need them

    made = DevelopmentCertificates(Path(data_dir.rstrip(os.sep) + "-certificates").absolute())
    return made if made.client.exists() else make_certificates(made.directory)
