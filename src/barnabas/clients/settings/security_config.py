"""The settings of a client's security: Kafka's names with underscores. Immutable.

The base of ClientConnectionConfig, whose users and threads it shares: no lock. Passwords, keys and tokens become
`Secret` values, so that no repr, log or error shows them. Kafka: CommonClientConfigs, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from barnabas.clients.settings.notation import setting
from barnabas.config.secret import Secret
from barnabas.security.sasl.mechanisms import MECHANISMS

PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_KEY_STORE = "The client's own certificate, for brokers that ask for one (`ssl.client.auth`)"


LOGIN_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerLoginCallbackHandler" for place in ("", "secured.")
)
"""Kafka's class that asks a token endpoint, by its present and its old name."""


@dataclass(frozen=True, kw_only=True)
class ClientTokenConfig:
    """The settings by which a client gets tokens for OAUTHBEARER: a token, or an identity provider that issues them.

    `secured_channels.token_source` returns what a login calls. Kafka: SaslConfigs (KIP-768, KIP-1139).
    """

    sasl_oauthbearer_token: Secret | str | Callable[[], str] | None = setting(
        None,
        "The token for OAUTHBEARER, as the identity provider has issued it, or a function that returns one that is"
        " valid now, for each login. Not a setting of Kafka's.",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None,
        "The URL at which the identity provider issues tokens for the client's credentials (`https:`); or a file that"
        " has a token (`file:`), which is read for each login. For OAUTHBEARER.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        None, "The client's id at the identity provider. In `sasl_jaas_config`: `clientId`."
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | str | None = setting(
        None, "The client's secret at the identity provider. In `sasl_jaas_config`: `clientSecret`."
    )
    sasl_oauthbearer_scope: str | None = setting(
        None, "The scope that is asked for. In `sasl_jaas_config`: `scope`.", importance="low"
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sub", "The claim of the token that names the user.", importance="low"
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        "scope", "The claim of the token that has the scope.", importance="low"
    )
    sasl_oauthbearer_header_urlencode: bool = setting(
        False,
        "Whether id and secret are URL-encoded before they are sent, as RFC 6749 says. Some providers expect it.",
        importance="low",
    )
    sasl_login_callback_handler_class: str | None = setting(
        None,
        "Kafka's class that asks a token endpoint; its name is taken, so that Kafka's files work, and has no effect.",
        choices=LOGIN_HANDLERS,
        importance="low",
    )
    sasl_login_connect_timeout_ms: int = setting(
        10_000,
        "How long the connection to the identity provider may take. Kafka has no limit.",
        minimum=1,
        importance="low",
    )
    sasl_login_read_timeout_ms: int = setting(
        10_000, "How long the identity provider may be silent. Kafka has no limit.", minimum=1, importance="low"
    )
    sasl_login_retry_backoff_ms: int = setting(
        100, "The pause after the first failed request for a token; it doubles.", minimum=0, importance="low"
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        10_000, "How long failed requests for a token are repeated in all.", minimum=0, importance="low"
    )
    sasl_login_refresh_window_factor: float = setting(
        0.8, "The share of a token's life after which the next one is fetched.", importance="low"
    )
    sasl_login_refresh_window_jitter: float = setting(
        0.05,
        "How much larger that share is at most, by chance: many clients then do not ask at once.",
        importance="low",
    )
    sasl_login_refresh_min_period_seconds: int = setting(
        60, "How long a token is used at least, if it lives long enough.", minimum=0, importance="low"
    )
    sasl_login_refresh_buffer_seconds: int = setting(
        300,
        "How long before its end a token is replaced at the latest, if it lives long enough.",
        minimum=0,
        importance="low",
    )


@dataclass(frozen=True, kw_only=True)
class ClientSecurityConfig(ClientTokenConfig):
    """The settings of the connections' security. `client_security.check_security` checks them."""

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
