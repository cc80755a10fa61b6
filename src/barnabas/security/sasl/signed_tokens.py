"""Signed tokens (JWT, RFC 7519): the signature by an identity provider's key, the audience, the issuer, the times.

Any thread; the keys are replaced while the broker runs. Needs the package PyJWT (extra `oauth`). Kafka:
ValidatorAccessTokenValidator, which leaves the signature to jose4j.
"""

from __future__ import annotations

from typing import Final

import jwt
from jwt.types import Options

from barnabas.runtime.clock import Clock
from barnabas.security.sasl.oauth_config import OAuthConfig
from barnabas.security.sasl.signing_keys import ALGORITHMS, SigningKeys
from barnabas.security.sasl.token_claims import ClaimRules, TokenInvalid, ValidToken, valid_token

LONGEST_HEADER: Final = 8 * 1024
"""Characters of a token's first part, which is read before the signature is checked. Such a part has about 100."""

# The times are compared by the broker's clock, with the claims that have no rule in the library.
_CHECKS: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


class SignedTokenValidator:
    """A TokenValidator for the tokens of one identity provider."""

    __slots__ = ("_audience", "_clock", "_issuer", "_keys", "_rules")

    def __init__(self, keys: SigningKeys, config: OAuthConfig, clock: Clock) -> None:
        self._keys = keys
        self._audience = list(config.expected_audience) or None
        self._issuer = config.expected_issuer
        self._clock = clock
        self._rules = ClaimRules(config.user_claim, config.scope_claim, config.clock_skew_seconds * 1000)

    def validate(self, token: str) -> ValidToken:
        """Return whose token it is. Raises TokenInvalid. A token that has an audience needs an expected one."""
        if token.find(".") > LONGEST_HEADER:
            raise TokenInvalid(f"its header has more than {LONGEST_HEADER} characters")
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in ALGORITHMS:
                raise TokenInvalid(f"its alg, {_shown(algorithm)}, is none of {', '.join(ALGORITHMS)}")
            key = self._keys.find(key_id if isinstance(key_id, str) else None, algorithm)
            if key is None:
                raise TokenInvalid(f"no key {_shown(key_id)} for {algorithm} is known")
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                options=_CHECKS,
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}" if isinstance(error, jwt.PyJWTError) else "it cannot be read"
            raise TokenInvalid(reason) from None  # the cause's frames hold the token
        return valid_token(claims, self._rules, self._clock.milliseconds())


def _shown(text: object) -> str:
    """Return a text of the client's for the log."""
    return ascii(str(text)[:64])
