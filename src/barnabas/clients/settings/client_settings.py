"""The keyword arguments of both clients, made from ClientConfig by `make docs`: change that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from barnabas.config.secret import Secret


class ClientSettings(TypedDict, total=False):
    """The keyword arguments of both clients; ClientConfig has their meaning and defaults."""

    sasl_oauthbearer_token: Secret | str | Callable[[], str] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: Secret | str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_header_urlencode: bool
    sasl_login_callback_handler_class: str | None
    sasl_login_connect_timeout_ms: int
    sasl_login_read_timeout_ms: int
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    security_protocol: str
    ssl_truststore_location: str | None
    ssl_truststore_type: str
    ssl_truststore_password: Secret | str | None
    ssl_truststore_certificates: Secret | str | None
    ssl_crl_location: str | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str
    ssl_keystore_password: Secret | str | None
    ssl_keystore_key: Secret | str | None
    ssl_keystore_certificate_chain: Secret | str | None
    ssl_key_password: Secret | str | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: Sequence[str]
    ssl_cipher_suites: Sequence[str]
    sasl_mechanism: str | None
    sasl_username: str | None
    sasl_password: Secret | str | None
    sasl_token_auth: bool
    sasl_jaas_config: Secret | str | None
    client_id: str
    request_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    client_dns_lookup: str
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    bootstrap_timeout_ms: int | None
