"""The checks of a token's claims that do not depend on how it is signed, and their outcome.

Called on the thread of a channel that logs in by OAUTHBEARER. Pure; no lock. Errors quote claims, never the token.
Kafka: ValidatorAccessTokenValidator, ClaimValidationUtils, OAuthBearerValidationUtils.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.security.sasl.oauthbearer_messages import error_answer


class TokenInvalid(Exception):
    """The error for a token that gives no login. Its text is for the log; `answer` is the JSON for the client."""

    def __init__(self, reason: str, *, missing_scope: str | None = None) -> None:
        """missing_scope: what the token lacks; None: the token itself is invalid."""
        super().__init__(reason)
        status = "invalid_token" if missing_scope is None else "insufficient_scope"
        self.answer = error_answer(status, missing_scope)


class ValidToken(NamedTuple):
    """What a token says of its bearer. expires_ms: milliseconds since the epoch."""

    user: str
    expires_ms: int


class TokenValidator(Protocol):
    """The judge of tokens. Any thread; no call waits."""

    def validate(self, token: str) -> ValidToken:
        """Return whose token it is. Raises TokenInvalid."""


class ClaimRules(NamedTuple):
    """What the claims of a token have to be. The names are those of the claims that hold the user and the scope."""

    user_claim: str
    scope_claim: str
    clock_skew_ms: int
    needs_issue_time: bool = True
    """Whether a token has to say when it was issued (`iat`)."""
    required_scope: frozenset[str] = frozenset()


def valid_token(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> ValidToken:
    """Return the outcome of claims whose signature is verified. Raises TokenInvalid."""
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
