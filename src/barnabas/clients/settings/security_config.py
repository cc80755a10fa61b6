"""The settings of a client's security: Kafka's names with underscores. Immutable.

The base of ClientConnectionConfig, whose users and threads it shares: no lock. Passwords, keys and tokens become
`Secret` values, so that no repr, log or error shows them. Kafka: CommonClientConfigs, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from barnabas.clients.settings.notation import setting
from barnabas.clients.settings.token_config import ClientTokenConfig
from barnabas.config.secret import Secret
from barnabas.security.sasl.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from barnabas.rpc.client_channels import ClientChannels
    from barnabas.security.sasl.client.client_authenticator import PasswordUser, SaslLogin
    from barnabas.security.tls.tls_config import TlsConfig

PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_KEY_STORE = "The client's own certificate, for brokers that ask for one (`ssl.client.auth`)"


@dataclass(frozen=True, kw_only=True)
class ClientSecurityConfig(ClientTokenConfig):
    """The settings of the connections' security.

    Raises ValueError when settings contradict one another, or belong to another `security_protocol`.
    """

    security_protocol: str = setting(
        PLAINTEXT,
        "How connections are protected: SSL encrypts and verifies the broker, SASL logs the client in.",
        choices=SECURITY_PROTOCOLS,
    )
    ssl_truststore_location: str | None = setting(
        None,
        "The file of the authorities that may have signed the brokers' certificates. None: those of the system.",
        importance="high",
    )
    ssl_truststore_type: str = setting(
        "PEM",
        "The type of that file. PKCS12 (also by the name JKS, as in Java) needs the extra `tls`. Kafka's default is"
        " JKS.",
        choices=_STORE_TYPES,
    )
    ssl_truststore_password: Secret | str | None = setting(
        None, "The password of that file, unless it is PEM.", importance="high"
    )
    ssl_truststore_certificates: Secret | str | None = setting(
        None, "The authorities themselves, as PEM, instead of a file (KIP-651).", importance="high"
    )
    ssl_crl_location: str | None = setting(
        None,
        "The PEM file with the revocation lists (CRLs) of the authorities: a broker whose certificate is in a list is"
        " refused, and so is one of an authority without a list that is up to date. Not a setting of Kafka's.",
        importance="low",
    )
    ssl_keystore_location: str | None = setting(None, f"{_KEY_STORE}: a file with it and its key.", importance="high")
    ssl_keystore_type: str = setting("PEM", "The type of that file. Kafka's default is JKS.", choices=_STORE_TYPES)
    ssl_keystore_password: Secret | str | None = setting(
        None, "The password of that file, unless it is PEM.", importance="high"
    )
    ssl_keystore_key: Secret | str | None = setting(
        None, "The private key itself, as PEM, instead of a file (KIP-651).", importance="high"
    )
    ssl_keystore_certificate_chain: Secret | str | None = setting(
        None, "The certificates of that key, as PEM, the key's own first.", importance="high"
    )
    ssl_key_password: Secret | str | None = setting(None, "The password of an encrypted PEM key.", importance="high")
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        "https: a broker's certificate must have the name or address by which the client connects. Empty: any name is"
        " trusted, so whoever has a certificate of the same authority can pose as the broker.",
        choices=("https", ""),
        importance="low",
    )
    ssl_enabled_protocols: Sequence[str] = setting(("TLSv1.2", "TLSv1.3"), "The versions of TLS that may be used.")
    ssl_cipher_suites: Sequence[str] = setting(
        (), "The cipher suites that may be used, by IANA's names; empty: OpenSSL's choice.", importance="low"
    )
    sasl_mechanism: str | None = setting(
        None,
        "How the client logs in: needed for SASL. GSSAPI, Kafka's default, is not offered.",
        choices=tuple(MECHANISMS),
    )
    sasl_username: str | None = setting(
        None,
        "The user, for PLAIN and SCRAM; the id of a delegation token with `sasl_token_auth`. Not a setting of Kafka's.",
    )
    sasl_password: Secret | str | None = setting(
        None, "The user's password, or the HMAC of the delegation token. Not a setting of Kafka's."
    )
    sasl_token_auth: bool = setting(
        False,
        "Whether the SCRAM login is one by delegation token (KIP-48). Not a setting of Kafka's.",
        importance="low",
    )
    sasl_jaas_config: Secret | str | None = setting(
        None,
        "The login as Java's clients have it: a login module with `username` and `password`, and for SCRAM"
        " `tokenauth`. Instead of `sasl_username` and its kin.",
    )

    def security_settings(self) -> dict[str, Any]:
        """Return these settings by name: the keywords that give a client the same security."""
        return {each.name: getattr(self, each.name) for each in fields(ClientSecurityConfig)}

    def hide_secrets(self) -> None:
        """Make `Secret` values of the passwords, keys and tokens, before anything can show them."""
        for each in fields(ClientSecurityConfig):
            value = getattr(self, each.name)
            if "Secret" in str(each.type) and isinstance(value, str):
                object.__setattr__(self, each.name, Secret.of(value))

    def check_security(self) -> None:
        """Check the settings against one another. Raises ValueError, with what would be right."""
        for each in fields(ClientSecurityConfig):
            prefix = each.name.partition("_")[0].upper()
            if prefix not in ("SSL", "SASL") or getattr(self, each.name) == each.default:
                continue
            if prefix not in self.security_protocol:
                # Kafka ignores such settings: the user would believe in a protection that is not there.
                raise ValueError(
                    f"{each.name} is given, and security_protocol is {self.security_protocol}: choose"
                    f" {' or '.join(name for name in SECURITY_PROTOCOLS if prefix in name)}"
                )
        if "SASL" in self.security_protocol:
            self._login()

    def channel_builder(self, client_id: str) -> ClientChannels | None:
        """Return the maker of channels; None for plaintext ones. Reads the key and trust stores.

        Raises ConfigError, a ValueError: a store is missing or cannot be used, or a setting is wrong.
        """
        if self.security_protocol == PLAINTEXT:
            return None
        from barnabas.rpc.client_channels import ClientChannels
        from barnabas.security.tls.tls_client import TlsClient

        tls = None
        if "SSL" in self.security_protocol:
            tls = TlsClient(self._tls_config(), self.ssl_endpoint_identification_algorithm)
        return ClientChannels(tls, self._login() if "SASL" in self.security_protocol else None, client_id)

    def _tls_config(self) -> TlsConfig:
        from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig

        return TlsConfig(
            enabled_protocols=tuple(self.ssl_enabled_protocols),
            cipher_suites=tuple(self.ssl_cipher_suites),
            keystore=KeyStoreConfig(
                type=self.ssl_keystore_type,
                location=self.ssl_keystore_location,
                password=_secret(self.ssl_keystore_password),
                key_password=_secret(self.ssl_key_password),
                key=_secret(self.ssl_keystore_key),
                certificate_chain=_secret(self.ssl_keystore_certificate_chain),
            ),
            truststore=TrustStoreConfig(
                type=self.ssl_truststore_type,
                location=self.ssl_truststore_location,
                password=_secret(self.ssl_truststore_password),
                certificates=_secret(self.ssl_truststore_certificates),
                crl_location=self.ssl_crl_location,
            ),
        )

    def _login(self) -> SaslLogin:
        """Return the login of the chosen mechanism. Raises ValueError: a setting that it needs is missing."""
        if self.sasl_mechanism is None:
            raise ValueError(
                f"security_protocol={self.security_protocol} needs sasl_mechanism: {', '.join(MECHANISMS)}"
            )
        mechanism = MECHANISMS[self.sasl_mechanism]
        jaas = _secret(self.sasl_jaas_config)
        return mechanism.login(self.token_source(jaas) if mechanism.takes_token else self._user(mechanism.name, jaas))

    def _user(self, mechanism: str, jaas: Secret | None) -> PasswordUser:
        """Return the user of the settings, or of the login context. Raises ValueError: none, or both, are given."""
        from barnabas.security.sasl.client.client_authenticator import PasswordUser
        from barnabas.security.sasl.jaas import InvalidJaas
        from barnabas.security.sasl.login_context import user_of_login_context

        username, password = self.sasl_username, _secret(self.sasl_password)
        if jaas is None:
            if not username or password is None:
                raise ValueError(
                    f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config"
                )
            return PasswordUser(username, password, self.sasl_token_auth)
        if username is not None or password is not None or self.sasl_token_auth:
            raise ValueError(
                "sasl_jaas_config is given beside sasl_username, sasl_password or sasl_token_auth: choose one"
            )
        try:
            return user_of_login_context(mechanism, jaas)
        except InvalidJaas as error:
            raise ValueError(f"sasl_jaas_config: {error}") from None  # the cause's frames hold the text


def _secret(value: Secret | str | None) -> Secret | None:
    return Secret.of(value) if isinstance(value, str) else value
