"""The settings of OAUTHBEARER of one listener (KIP-255, KIP-768).

Read with the listener's other settings of SASL; immutable. Kafka: SaslConfigs, OAuthBearerValidatorCallbackHandler.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.protection import TOKEN_HANDLERS
from barnabas.config.setting import Settings, setting

OAUTHBEARER: Final = "OAUTHBEARER"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
SIGNED_HANDLERS: Final = TOKEN_HANDLERS[:2]
"""Kafka's classes that check signatures: the second one is the old name of the first one."""
UNSECURED_HANDLER: Final = TOKEN_HANDLERS[2]
"""Kafka's class that believes every token. Kafka uses it where none is named."""


class OAuthConfig(Settings):
    """All settings. expected_audience: any of these is right; empty: tokens have no audience."""

    jwks_url: str | None = setting(JWKS_URL)
    refresh_ms: int = setting("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    retry_backoff_ms: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
    retry_backoff_max_ms: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
    clock_skew_seconds: int = setting("sasl.oauthbearer.clock.skew.seconds")
    expected_audience: tuple[str, ...] = setting("sasl.oauthbearer.expected.audience", lambda value: tuple(value or ()))
    expected_issuer: str | None = setting("sasl.oauthbearer.expected.issuer")
    user_claim: str = setting("sasl.oauthbearer.sub.claim.name")
    scope_claim: str = setting("sasl.oauthbearer.scope.claim.name")
