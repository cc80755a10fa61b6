"""What a client of OAUTHBEARER says: its first message (RFC 7628), the claims of its token and their checks.

Called on the thread of a channel that logs in, and by a client on the thread that has fetched a token. Immutable values
and pure functions; no lock. A signature is checked elsewhere (`signed_tokens`), before the claims; tokens without one
are for development. Errors quote claims, never the message or the token.

Kafka: OAuthBearerClientInitialResponse, OAuthBearerSaslServer.jsonErrorResponse, ValidatorAccessTokenValidator,
ClaimValidationUtils, OAuthBearerValidationUtils, OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import Clock
from barnabas.security.sasl.scram_mechanism import SASL_NAME

_FIRST_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<user>{SASL_NAME}))?,\x01"
    # Bounded, because each turn of a group is dear, and the client has not logged in yet.
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01){0,64})\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")

_UNSECURED_PREFIX: Final = "unsecuredValidator"
_UNSECURED_OPTIONS: Final = tuple(
    f"{_UNSECURED_PREFIX}{name}"
    for name in ("PrincipalClaimName", "ScopeClaimName", "AllowableClockSkewMs", "RequiredScope")
)


class MessageMalformed(ValueError):
    """The error for a message that is none of OAUTHBEARER."""


class OAuthBearerMessage(NamedTuple):
    """The first message of a client. authorization_id: the user that it wants to be; empty: that of the token.

    n,a=alice,^Aauth=Bearer eyJhbGciOi...^Atraceid=7^A^A     "a=alice," may be missing; ^A is the byte 1
    """

    token: str
    authorization_id: str

    @classmethod
    def parse(cls, data: bytes) -> OAuthBearerMessage:
        """Parse a message; extensions are checked and dropped. Raises MessageMalformed."""
        found = _FIRST_MESSAGE.fullmatch(data.decode("utf-8", "replace"))
        if found is None:
            raise MessageMalformed("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
        if "auth" not in pairs:
            raise MessageMalformed("Invalid OAUTHBEARER client first message: 'auth' not specified")
        auth = _AUTH.fullmatch(pairs["auth"])
        if auth is None or auth["scheme"].lower() != "bearer":
            raise MessageMalformed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
        return cls(auth["token"], found["user"] or "")

    def __repr__(self) -> str:
        return f"OAuthBearerMessage({self.authorization_id!r}, token hidden)"


class TokenInvalid(Exception):
    """The error for a token that gives no login. Its text is for the log; `answer` is the JSON for the client."""

    def __init__(self, reason: str, *, missing_scope: str | None = None) -> None:
        """missing_scope: what the token lacks; None: the token itself is invalid."""
        super().__init__(reason)
        status = "invalid_token" if missing_scope is None else "insufficient_scope"
        self.answer = _error_answer(status, missing_scope)


class ValidToken(NamedTuple):
    """What a token says of its bearer. expires_ms: milliseconds since the epoch."""

    user: str
    expires_ms: int


class ClaimRules(NamedTuple):
    """What the claims of a token have to be. The names are those of the claims that hold the user and the scope."""

    user_claim: str
    scope_claim: str
    clock_skew_ms: int
    needs_issue_time: bool = True
    """Whether a token has to say when it was issued (`iat`)."""
    required_scope: frozenset[str] = frozenset()


class TokenValidator(Protocol):
    """The judge of tokens. Any thread; no call waits."""

    def validate(self, token: str) -> ValidToken:
        """Return whose token it is. Raises TokenInvalid."""


class UnsecuredTokenValidator:
    """A TokenValidator for development: it believes what a token says (`alg: none`), as long as it is not expired.

    Everybody can make such a token for every user, so only a listener that names Kafka's class for them has it.
    """

    __slots__ = ("_clock", "_rules")

    def __init__(self, options: Mapping[str, str], clock: Clock, setting: str) -> None:
        """options: those of the login module. setting: its name. Raises ConfigError: an option is unknown or wrong."""
        unknown = sorted(
            name for name in options if name.startswith(_UNSECURED_PREFIX) and name not in _UNSECURED_OPTIONS
        )
        if unknown:
            raise ConfigError(
                f"{setting}: unknown option {unknown[0]}; there are {', '.join(_UNSECURED_OPTIONS)}", setting
            )
        given = {name: options.get(name, "").strip() for name in _UNSECURED_OPTIONS}
        user_claim, scope_claim, skew, scope = (given[name] for name in _UNSECURED_OPTIONS)
        if skew and not (skew.isascii() and skew.isdigit()):
            raise ConfigError(f"{setting}: {_UNSECURED_OPTIONS[2]} is a number of milliseconds, not {skew!r}", setting)
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


def valid_token(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> ValidToken:
    """Return the outcome of claims; the caller has checked the signature, if there is one. Raises TokenInvalid."""
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise TokenInvalid("no expiration time (exp)")
    if now_ms - rules.clock_skew_ms >= expires_ms:
        raise TokenInvalid(f"expired {now_ms - expires_ms} ms ago")
    issued_ms = _time_ms(claims, "iat")
    if issued_ms is None and rules.needs_issue_time:
        raise TokenInvalid("no time of issue (iat)")
    for name, time_ms in (("iat", issued_ms), ("nbf", _time_ms(claims, "nbf"))):
        if time_ms is not None and now_ms + rules.clock_skew_ms < time_ms:
            raise TokenInvalid(f"valid only in {time_ms - now_ms} ms ({name})")
    if issued_ms is not None and issued_ms >= expires_ms:
        raise TokenInvalid("issued (iat) after its expiration (exp)")
    missing = rules.required_scope - _scope(claims.get(rules.scope_claim), rules.scope_claim)
    if missing:
        names = " ".join(sorted(rules.required_scope))
        raise TokenInvalid(f"scope {' '.join(sorted(missing))!r} is missing", missing_scope=names)
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenInvalid(f"the claim {rules.user_claim!r} names no user")
    return ValidToken(user.strip(), expires_ms)


def decoded_part(part: str) -> dict[str, Any]:
    """Decode one part of a token. Raises TokenInvalid: it is no JSON object in base64."""
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise TokenInvalid("a part is no JSON in base64") from None
    if not isinstance(found, dict):
        raise TokenInvalid("a part is no JSON object")
    return found


def _error_answer(status: str, scope: str | None = None) -> str:
    """Return the JSON by which a client learns that its token is rejected. scope: what the token would need."""
    if scope is None:
        return f'{{"status":"{status}"}}'
    return f'{{"status":"{status}", "scope":{json.dumps(scope)}}}'


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a time in milliseconds; None if the claim is missing. Raises TokenInvalid: it is no time."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        raise TokenInvalid(f"the claim {name!r} is no time")
    return int(value * 1000)


def _scope(claim: object, name: str) -> frozenset[str]:
    """Return the names in a scope, a string or a list. Raises TokenInvalid: it is malformed."""
    found = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    if any(not isinstance(each, str) or not each.strip() for each in found) or len(set(found)) < len(found):
        raise TokenInvalid(f"the claim {name!r} is malformed")
    return frozenset(each.strip() for each in found)
