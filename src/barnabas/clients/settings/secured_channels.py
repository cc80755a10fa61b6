"""Makes the channels of a client of its security settings: TLS, a login, or both.

Imported by `client_security` when a client has either, and called on its thread; no state, no lock.
Kafka: ChannelBuilders.clientChannelBuilder, LoginManager.
"""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from barnabas.clients.settings.security_config import ClientSecurityConfig, ClientTokenConfig
from barnabas.config.secret import Secret
from barnabas.rpc.client_channels import ClientChannels
from barnabas.security.sasl.client.client_authenticator import PasswordUser, SaslLogin
from barnabas.security.sasl.client.token_endpoint import NoToken, TokenEndpoint, TokenRequest, TokenRules
from barnabas.security.sasl.jaas import InvalidJaas, LoginModule
from barnabas.security.sasl.login_context import module_of_login_context, user_of_login_context
from barnabas.security.sasl.mechanisms import MECHANISMS
from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_contexts import HttpsTrust, TlsClient

_ENDPOINT = "sasl_oauthbearer_token_endpoint_url"


def client_channels(config: ClientSecurityConfig, client_id: str) -> ClientChannels:
    """Return the maker of channels that are not plaintext. Reads the key and trust stores.

    Raises ConfigError, a ValueError: a store is missing or cannot be used, or a setting is wrong.
    """
    tls = None
    if "SSL" in config.security_protocol:
        tls = TlsClient(_tls_config(config), config.ssl_endpoint_identification_algorithm)
    return ClientChannels(tls, sasl_login(config) if "SASL" in config.security_protocol else None, client_id)


def sasl_login(config: ClientSecurityConfig) -> SaslLogin:
    """Return the login of the chosen mechanism. Raises ValueError: a setting that it needs is missing."""
    if config.sasl_mechanism is None:
        raise ValueError(f"security_protocol={config.security_protocol} needs sasl_mechanism: {', '.join(MECHANISMS)}")
    mechanism = MECHANISMS[config.sasl_mechanism]
    jaas = _secret(config.sasl_jaas_config)
    return mechanism.login(token_source(config, jaas) if mechanism.takes_token else _user(config, mechanism.name, jaas))


def _user(config: ClientSecurityConfig, mechanism: str, jaas: Secret | None) -> PasswordUser:
    """Return the user of the settings, or of the login context. Raises ValueError: none, or both, are given."""
    username, password = config.sasl_username, _secret(config.sasl_password)
    if jaas is None:
        if not username or password is None:
            raise ValueError(f"sasl_mechanism={mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")
        return PasswordUser(username, password, config.sasl_token_auth)
    if username is not None or password is not None or config.sasl_token_auth:
        raise ValueError("sasl_jaas_config is given beside sasl_username, sasl_password or sasl_token_auth: choose one")
    try:
        return user_of_login_context(mechanism, jaas)
    except InvalidJaas as error:
        raise ValueError(f"sasl_jaas_config: {error}") from None  # the cause's frames hold the text


def token_source(config: ClientTokenConfig, jaas: Secret | None) -> Callable[[], str]:
    """Return what gives a token for each login. jaas: the login context.

    Raises ValueError: no source is given, or two are, or one is incomplete.
    """
    token, url = config.sasl_oauthbearer_token, config.sasl_oauthbearer_token_endpoint_url
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
        return partial(_token_of_file, urllib.request.url2pathname(parts.path))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"{_ENDPOINT} must be https://..., http://... or file:///..., not {url!r}")
    return _endpoint(config, url, None if jaas is None else _module(jaas))


def _endpoint(config: ClientTokenConfig, url: str, module: LoginModule | None) -> TokenEndpoint:
    options = {} if module is None else module.options
    client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret: Secret | str | None = config.sasl_oauthbearer_client_credentials_client_secret
    secret = secret or options.get("clientSecret")
    if not client_id or not secret:
        raise ValueError(
            f"{_ENDPOINT} needs sasl_oauthbearer_client_credentials_client_id and ..._client_secret, or"
            " sasl_jaas_config with clientId and clientSecret"
        )
    if not 0 < config.sasl_login_refresh_window_factor <= 1:
        raise ValueError(
            "sasl_login_refresh_window_factor must be above 0 and at most 1, not"
            f" {config.sasl_login_refresh_window_factor}"
        )
    if not 0 <= config.sasl_login_refresh_window_jitter <= 1:
        raise ValueError(
            f"sasl_login_refresh_window_jitter must be from 0 to 1, not {config.sasl_login_refresh_window_jitter}"
        )
    request = TokenRequest(
        url=url,
        client_id=client_id,
        client_secret=Secret(secret) if isinstance(secret, str) else secret,
        scope=config.sasl_oauthbearer_scope or options.get("scope"),
        encodes_header=config.sasl_oauthbearer_header_urlencode,
        connect_timeout_ms=config.sasl_login_connect_timeout_ms,
        read_timeout_ms=config.sasl_login_read_timeout_ms,
        trust=_trust(options.get("ssl.truststore.location"), options.get("ssl.truststore.type", "PEM")),
    )
    rules = TokenRules(
        user_claim=config.sasl_oauthbearer_sub_claim_name,
        scope_claim=config.sasl_oauthbearer_scope_claim_name,
        refresh_window_factor=config.sasl_login_refresh_window_factor,
        refresh_window_jitter=config.sasl_login_refresh_window_jitter,
        refresh_min_period_seconds=config.sasl_login_refresh_min_period_seconds,
        refresh_buffer_seconds=config.sasl_login_refresh_buffer_seconds,
        retry_backoff_ms=config.sasl_login_retry_backoff_ms,
        retry_backoff_max_ms=config.sasl_login_retry_backoff_max_ms,
    )
    return TokenEndpoint(request, rules)


def _tls_config(config: ClientSecurityConfig) -> TlsConfig:
    return TlsConfig(
        enabled_protocols=tuple(config.ssl_enabled_protocols),
        cipher_suites=tuple(config.ssl_cipher_suites),
        keystore=KeyStoreConfig(
            type=config.ssl_keystore_type,
            location=config.ssl_keystore_location,
            password=_secret(config.ssl_keystore_password),
            key_password=_secret(config.ssl_key_password),
            key=_secret(config.ssl_keystore_key),
            certificate_chain=_secret(config.ssl_keystore_certificate_chain),
        ),
        truststore=TrustStoreConfig(
            type=config.ssl_truststore_type,
            location=config.ssl_truststore_location,
            password=_secret(config.ssl_truststore_password),
            certificates=_secret(config.ssl_truststore_certificates),
            crl_location=config.ssl_crl_location,
        ),
    )


def _module(jaas: Secret) -> LoginModule:
    try:
        return module_of_login_context("OAUTHBEARER", jaas)
    except InvalidJaas as error:
        raise ValueError(f"sasl_jaas_config: {error}") from None  # the cause's frames hold the text


def _trust(location: str | None, kind: str) -> HttpsTrust:
    """Return what verifies the provider's certificate. location: of the trust store that the login context names.

    Raises ConfigError: the store cannot be used.
    """
    return HttpsTrust(None if location is None else TrustStoreConfig(type=kind, location=location))


def _token_of_file(path: str) -> str:
    """Return the token in a file. Raises NoToken: it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise NoToken(f"{path} has no token: {error}") from None


def _given(token: Secret | str) -> Callable[[], str]:
    return token.reveal if isinstance(token, Secret) else lambda: token


def _secret(value: Secret | str | None) -> Secret | None:
    return Secret.of(value) if isinstance(value, str) else value
