"""The settings by which a client gets tokens for OAUTHBEARER: a token, or an identity provider that issues them.

The base of ClientSecurityConfig, whose users and threads it shares: no lock. Kafka: SaslConfigs (KIP-768, KIP-1139).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.clients.settings.notation import setting
from barnabas.config.secret import Secret

if TYPE_CHECKING:
    from barnabas.security.sasl.client.token_endpoint import TokenEndpoint
    from barnabas.security.sasl.jaas import LoginModule
    from barnabas.security.tls.https_trust import HttpsTrust

LOGIN_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerLoginCallbackHandler" for place in ("", "secured.")
)
"""Kafka's class that asks a token endpoint, by its present and its old name."""
_ENDPOINT = "sasl_oauthbearer_token_endpoint_url"


@dataclass(frozen=True, kw_only=True)
class ClientTokenConfig:
    """The settings of tokens. `token_source` returns what a login calls."""

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

    def token_source(self, jaas: Secret | None) -> Callable[[], str]:
        """Return what gives a token for each login. jaas: the login context.

        Raises ValueError: no source is given, or two are, or one is incomplete.
        """
        token, url = self.sasl_oauthbearer_token, self.sasl_oauthbearer_token_endpoint_url
        if token and url:
            raise ValueError(f"sasl_oauthbearer_token and {_ENDPOINT} are given: choose one")
        if token:
            if jaas is not None:
                raise ValueError("sasl_mechanism=OAUTHBEARER takes sasl_oauthbearer_token, not sasl_jaas_config")
            return token if callable(token) else _given(token)
        if not url:
            raise ValueError(f"sasl_mechanism=OAUTHBEARER needs sasl_oauthbearer_token or {_ENDPOINT}")
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            from urllib.request import url2pathname

            return partial(_token_of_file, url2pathname(parts.path))
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError(f"{_ENDPOINT} must be https://..., http://... or file:///..., not {url!r}")
        return self._endpoint(url, None if jaas is None else _module(jaas))

    def _endpoint(self, url: str, module: LoginModule | None) -> TokenEndpoint:
        from barnabas.security.sasl.client.token_endpoint import TokenEndpoint, TokenRequest, TokenRules

        options = {} if module is None else module.options
        client_id = self.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
        secret: Secret | str | None = self.sasl_oauthbearer_client_credentials_client_secret
        secret = secret or options.get("clientSecret")
        if not client_id or not secret:
            raise ValueError(
                f"{_ENDPOINT} needs sasl_oauthbearer_client_credentials_client_id and ..._client_secret, or"
                " sasl_jaas_config with clientId and clientSecret"
            )
        if not 0 < self.sasl_login_refresh_window_factor <= 1:
            raise ValueError(
                "sasl_login_refresh_window_factor must be above 0 and at most 1, not"
                f" {self.sasl_login_refresh_window_factor}"
            )
        if not 0 <= self.sasl_login_refresh_window_jitter <= 1:
            raise ValueError(
                f"sasl_login_refresh_window_jitter must be from 0 to 1, not {self.sasl_login_refresh_window_jitter}"
            )
        request = TokenRequest(
            url=url,
            client_id=client_id,
            client_secret=Secret(secret) if isinstance(secret, str) else secret,
            scope=self.sasl_oauthbearer_scope or options.get("scope"),
            encodes_header=self.sasl_oauthbearer_header_urlencode,
            connect_timeout_ms=self.sasl_login_connect_timeout_ms,
            read_timeout_ms=self.sasl_login_read_timeout_ms,
            trust=_trust(options.get("ssl.truststore.location"), options.get("ssl.truststore.type", "PEM")),
        )
        rules = TokenRules(
            user_claim=self.sasl_oauthbearer_sub_claim_name,
            scope_claim=self.sasl_oauthbearer_scope_claim_name,
            refresh_window_factor=self.sasl_login_refresh_window_factor,
            refresh_window_jitter=self.sasl_login_refresh_window_jitter,
            refresh_min_period_seconds=self.sasl_login_refresh_min_period_seconds,
            refresh_buffer_seconds=self.sasl_login_refresh_buffer_seconds,
            retry_backoff_ms=self.sasl_login_retry_backoff_ms,
            retry_backoff_max_ms=self.sasl_login_retry_backoff_max_ms,
        )
        return TokenEndpoint(request, rules)


def _module(jaas: Secret) -> LoginModule:
    from barnabas.security.sasl.jaas import InvalidJaas
    from barnabas.security.sasl.login_context import module_of_login_context

    try:
        return module_of_login_context("OAUTHBEARER", jaas)
    except InvalidJaas as error:
        raise ValueError(f"sasl_jaas_config: {error}") from None  # the cause's frames hold the text


def _trust(location: str | None, kind: str) -> HttpsTrust:
    """Return what verifies the provider's certificate. location: of the trust store that the login context names.

    Raises ConfigError: the store cannot be used.
    """
    from barnabas.security.tls.https_trust import HttpsTrust
    from barnabas.security.tls.tls_config import TrustStoreConfig

    return HttpsTrust(None if location is None else TrustStoreConfig(type=kind, location=location))


def _token_of_file(path: str) -> str:
    """Return the token in a file. Raises NoToken: it cannot be read."""
    from barnabas.security.sasl.client.token_endpoint import NoToken

    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"{path} has no token: {error}") from None


def _given(token: Secret | str) -> Callable[[], str]:
    return token.reveal if isinstance(token, Secret) else lambda: token
