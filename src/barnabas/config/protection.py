"""The settings that promise protection which this version does not have: none of them may be given.

A broker that starts with `authorizer.class.name` and lets every client do everything is worse than one that does not
start: its operator believes that the data are protected. Each row names a setting, the values that make a promise, and
what is missing. A default of Kafka's that is written out in a file promises nothing. Settings that only tune a
protection (`ssl.cipher.suites`) or mean something beside another one (`super.users`) have no row: the setting that
switches the protection on has one.

Called by `cross_checks` for a file and for a change at run time alike; pure functions over an immutable table. A change
that makes a protection work removes its rows. Kafka: no counterpart, since Kafka has all of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, find_key
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigValue
from barnabas.config.config_values import ConfigValues


class ProtectionMissing(ConfigError):
    """The error for settings that promise protection which this version does not have."""


class Promise(NamedTuple):
    """The promise of one setting. is_made: whether a value makes it. missing: what the broker would do instead.

    kept: the values whose promise this version keeps.
    """

    is_made: Callable[[ConfigValue], bool]
    missing: str
    kept: tuple[str, ...] = ()


def _is_given(value: ConfigValue) -> bool:
    return value not in (None, "", ())


def _differs(name: str) -> Callable[[ConfigValue], bool]:
    default = BROKER_CONFIG_KEYS[name].default
    return lambda value: _is_given(value) and value != default


AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""The values of `authorizer.class.name` that select the authorizer of this version. Kafka's two decide alike."""
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
TOKEN_HANDLERS: Final = (
    f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.secured.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
)
"""The values of `sasl.server.callback.handler.class` that select a check of this version, for OAUTHBEARER only."""
_OTHER_AUTHORIZER: Final = (
    f"there is no Java to load the class, so it would refuse nothing; {AUTHORIZERS[0]} selects the authorizer there is"
)
_NO_JAVA: Final = "there is no Java to load the class, so it would refuse nothing"

# A new row belongs here when an operator who reads the setting in a file would believe that an access is checked, a
# connection encrypted, or a client limited, and it is not. Passwords of key stores have no row: without the key store,
# which has one, they promise nothing. Settings of tokens that a broker fetches for itself have none: this broker
# authenticates to no server.
PROMISES: Final[Mapping[str, Promise]] = {
    # -- permissions
    "authorizer.class.name": Promise(
        lambda value: _is_given(value) and value not in AUTHORIZERS, _OTHER_AUTHORIZER, AUTHORIZERS
    ),
    "principal.builder.class": Promise(
        _differs("principal.builder.class"),
        "there is no Java to load the class, so it would name no principal",
        (str(BROKER_CONFIG_KEYS["principal.builder.class"].default),),
    ),
    # -- TLS
    "ssl.engine.factory.class": Promise(_is_given, "there is no Java to load the class, so it would encrypt nothing"),
    # -- SASL; the mechanisms that are enabled are checked with their listener (`security.sasl.sasl_listener`)
    "sasl.server.callback.handler.class": Promise(
        lambda value: _is_given(value) and value not in TOKEN_HANDLERS, _NO_JAVA, TOKEN_HANDLERS
    ),
    "sasl.kerberos.service.name": Promise(_is_given, "there is no Kerberos, so no ticket would be checked"),
    # -- classes that would refuse or limit requests
    "create.topic.policy.class.name": Promise(_is_given, _NO_JAVA),
    "alter.config.policy.class.name": Promise(_is_given, _NO_JAVA),
    "client.quota.callback.class": Promise(_is_given, "there is no Java to load the class, so it would set no limits"),
}
"""Name -> promise."""


def check_protection(config: ConfigValues) -> None:
    """Check that no setting, for all listeners or for one, makes a promise that is not kept.

    Raises ProtectionMissing: settings do. The message names all of them, their values and what is missing.
    """
    broken = {name: missing for name in sorted(config.originals) if (missing := _broken_promise(config, name))}
    if broken:
        reasons = "; ".join(f"{name}={_display_value(config, name)}: {missing}" for name, missing in broken.items())
        raise ProtectionMissing(
            f"Settings promise protection that this version does not have. {reasons}. "
            "Remove them if every client that reaches this broker may do everything, unencrypted",
            next(iter(broken)),
        )


def _broken_promise(config: ConfigValues, name: str) -> str | None:
    key = find_key(name)
    promise = PROMISES.get(key.name) if key is not None else None
    return promise.missing if promise is not None and promise.is_made(config.value(name)) else None


def _display_value(config: ConfigValues, name: str) -> str:
    key = find_key(name)
    return "[hidden]" if key is None or key.is_sensitive else config.originals.get(name) or config.text(name) or ""
