"""Tokens without a signature (`alg: none`), for development: everybody can make one for every user.

Used only where a listener names Kafka's class for them, `OAuthBearerUnsecuredValidatorCallbackHandler`. Immutable, so
any thread. Kafka: OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import Clock
from barnabas.security.sasl.token_claims import ClaimRules, TokenInvalid, ValidToken, decoded_part, valid_token

_PREFIX: Final = "unsecuredValidator"
OPTIONS: Final = tuple(
    f"{_PREFIX}{name}" for name in ("PrincipalClaimName", "ScopeClaimName", "AllowableClockSkewMs", "RequiredScope")
)


class UnsecuredTokenValidator:
    """A TokenValidator that believes what a token says, as long as it is not expired."""

    __slots__ = ("_clock", "_rules")

    def __init__(self, options: Mapping[str, str], clock: Clock, setting: str) -> None:
        """options: those of the login module. setting: its name. Raises ConfigError: an option is unknown or wrong."""
        unknown = sorted(name for name in options if name.startswith(_PREFIX) and name not in OPTIONS)
        if unknown:
            raise ConfigError(f"{setting}: unknown option {unknown[0]}; there are {', '.join(OPTIONS)}", setting)
        given = {name: options.get(name, "").strip() for name in OPTIONS}
        user_claim, scope_claim, skew, scope = (given[name] for name in OPTIONS)
        if skew and not (skew.isascii() and skew.isdigit()):
            raise ConfigError(f"{setting}: {OPTIONS[2]} is a number of milliseconds, not {skew!r}", setting)
        self._clock = clock
        self._rules = ClaimRules(
            user_claim or "sub",
            scope_claim or "scope",
            int(skew or 0),
            needs_issue_time=False,
            required_scope=frozenset(scope.split()),
        )

    def validate(self, token: str) -> ValidToken:
        """Return whose token it claims to be. Raises TokenInvalid."""
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenInvalid("it is signed, or no JWS: this listener takes unsecured tokens only")
        header, claims = (decoded_part(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise TokenInvalid("its alg is not none: this listener takes unsecured tokens only")
        return valid_token(claims, self._rules, self._clock.milliseconds())
