"""The settings of SASL of one listener.

Made by `broker/` when the listener is opened or checked; immutable. Kafka: BrokerSecurityConfigs, SaslConfigs,
JaasContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from barnabas.config.broker_config_keys import LISTENER_PREFIX
from barnabas.config.config_values import ConfigValues
from barnabas.config.protection import TOKEN_HANDLERS
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, setting

OAUTHBEARER: Final = "OAUTHBEARER"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
SIGNED_HANDLERS: Final = TOKEN_HANDLERS[:2]
"""Kafka's classes that check signatures: the second one is the old name of the first one."""
UNSECURED_HANDLER: Final = TOKEN_HANDLERS[2]
"""Kafka's class that believes every token. Kafka uses it where none is named."""


class OAuthConfig(Settings):
    """The settings of OAUTHBEARER (KIP-255, KIP-768). expected_audience: any of these is right.

    Without an expected audience, tokens have none.
    """

    jwks_url: str | None = setting(JWKS_URL)
    refresh_ms: int = setting("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    retry_backoff_ms: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
    retry_backoff_max_ms: int = setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
    clock_skew_seconds: int = setting("sasl.oauthbearer.clock.skew.seconds")
    expected_audience: tuple[str, ...] = setting("sasl.oauthbearer.expected.audience", lambda value: tuple(value or ()))
    expected_issuer: str | None = setting("sasl.oauthbearer.expected.issuer")
    user_claim: str = setting("sasl.oauthbearer.sub.claim.name")
    scope_claim: str = setting("sasl.oauthbearer.scope.claim.name")


_LOGIN = ".sasl.jaas.config"
_HANDLER = ".sasl.server.callback.handler.class"
_MAX_REAUTH = ".connections.max.reauth.ms"


class SaslConfig(Settings):
    """All settings. logins: mechanism, in upper case -> login context, in Java's notation.

    login_of_no_mechanism: a login context without the prefix of a mechanism, which has no effect, as in Kafka.
    max_reauth_ms: how long a session lasts at most; 0: for ever. max_reauth_ms_of: the same, by mechanism, in upper
    case, where a mechanism has a setting of its own. plain_users: those of PLAIN that stand beside the login contexts.
    """

    enabled_mechanisms: tuple[str, ...] = setting("sasl.enabled.mechanisms")
    max_receive_bytes: int = setting("sasl.server.max.receive.size")
    login_of_no_mechanism: Secret | None = setting("sasl.jaas.config", Secret.of)
    max_reauth_ms: int = setting("connections.max.reauth.ms")
    plain_users: Secret | None = setting("sasl.plain.users", Secret.of)
    oauth: OAuthConfig = field(default_factory=OAuthConfig)
    handlers: Mapping[str, str] = field(default_factory=dict)
    """Mechanism, in upper case -> the Java class that is to check its logins."""
    logins: Mapping[str, Secret] = field(default_factory=dict)
    max_reauth_ms_of: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, config: ConfigValues, listener_name: str) -> SaslConfig:
        """Read the settings of a listener: those behind its prefix override the others.

        A login context has the prefixes of its listener and its mechanism:
        `listener.name.<listener>.<mechanism>.sasl.jaas.config`.
        """
        prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."
        logins = {
            mechanism: Secret(config.originals[name])
            for mechanism, name in _settings_of_mechanisms(config, prefix, _LOGIN).items()
        }
        max_reauth_ms_of = {
            mechanism: config.integer(name)
            for mechanism, name in _settings_of_mechanisms(config, prefix, _MAX_REAUTH).items()
        }
        handlers = {
            mechanism: config.originals[name]
            for mechanism, name in _settings_of_mechanisms(config, prefix, _HANDLER).items()
        }
        return cls.from_kafka_config(
            config.of_listener(listener_name),
            logins=logins,
            max_reauth_ms_of=max_reauth_ms_of,
            handlers=handlers,
            oauth=OAuthConfig.from_kafka_config(config.of_mechanism(listener_name, OAUTHBEARER)),
        )


def _settings_of_mechanisms(config: ConfigValues, prefix: str, suffix: str) -> dict[str, str]:
    """Return mechanism, in upper case -> the name of its own setting, which ends with `suffix`."""
    return {
        name[len(prefix) : -len(suffix)].upper(): name
        for name in config.originals
        if name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix) + len(suffix)
    }
