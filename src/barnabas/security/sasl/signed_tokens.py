"""Signed tokens (JWT, RFC 7519): their validator, and the keys of an identity provider (JWKS, RFC 7517) for it.

One SigningKeys and one validator a listener. `load` is called when the listener is opened, on a thread that may wait;
later fetches run on the scheduler's threads, never on a network thread. Logins validate on any thread: they read the
keys, an immutable mapping that a fetch replaces. `_lock` guards what is scheduled. Needs PyJWT (extra `oauth`).

The keys are fetched every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon when a token names a key that is not
known: the provider may have a new one. Anybody can send such tokens, so they cause at most one fetch every ten seconds.
A failed fetch is repeated after `...retry.backoff.ms`, then twice that, up to `...retry.backoff.max.ms`; until one
succeeds the old keys are used.

Kafka: ValidatorAccessTokenValidator, RefreshingHttpsJwks, JwksFileVerificationKeyResolver; the rest is jose4j's.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import jwt
from jwt.types import Options

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import ScheduledTask, Scheduler
from barnabas.security.sasl.sasl_config import JWKS_URL, OAuthConfig
from barnabas.security.sasl.token_claims import ClaimRules, TokenInvalid, ValidToken, valid_token
from barnabas.security.tls.tls_contexts import HttpsTrust

logger = logging.getLogger(__name__)

LONGEST_DOCUMENT_BYTES: Final = 1 << 20
_SILENCE_SECONDS: Final = 10
_LONGEST_DOWNLOAD_SECONDS: Final = 30
_PIECE_BYTES: Final = 1 << 16

UNKNOWN_KEYS_EVERY_NS: Final = 10_000 * NANOSECONDS_PER_MILLISECOND
"""How often tokens with unknown keys may cause a fetch."""
_FETCH_TASK: Final = "sasl-oauthbearer-keys"

_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures by a private key. A key set is public, so an HMAC by one of its keys proves nothing; nor does `none`."""

LONGEST_TOKEN_HEADER: Final = 8 * 1024
"""Characters of a token's first part, which is read before the signature is checked. Such a part has about 100."""

# The times are compared by the broker's clock, with the claims that have no rule in the library.
_CHECKS: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


class KeyUse(NamedTuple):
    """A key, and the algorithm that it is used by. key_id: None for a key without an id."""

    key_id: str | None
    algorithm: str


Keys = Mapping[KeyUse, jwt.PyJWK]


# -- the document behind a URL


def is_remote(url: str) -> bool:
    """Return whether the document of a URL comes over the network, which may take `_LONGEST_DOWNLOAD_SECONDS`."""
    return urllib.parse.urlsplit(url).scheme in ("http", "https")


def fetch_document(url: str) -> bytes:
    """Return the document of a URL (`https:`, `http:` or `file:`), of at most 1 MiB.

    Raises OSError: the document cannot be read. Raises ValueError: it is too large, or the URL is not understood.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        document = Path(urllib.request.url2pathname(parts.path)).read_bytes()
    elif is_remote(url):
        document = _download(url)
    else:
        raise ValueError("a URL begins with https:, http: or file:")
    if len(document) > LONGEST_DOCUMENT_BYTES:
        raise ValueError(f"the document is larger than {LONGEST_DOCUMENT_BYTES} bytes")
    return document


def _download(url: str) -> bytes:
    """Return at most one byte more than is allowed. Raises OSError."""
    opener = urllib.request.OpenerDirector()
    # No handler of file: and ftp:, to which a server could redirect.
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=HttpsTrust().context),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    ends_at = time.monotonic() + _LONGEST_DOWNLOAD_SECONDS
    document = bytearray()
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - fetch_document checks
    try:
        opened = opener.open(request, None, _SILENCE_SECONDS)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        # Its own text is "<urlopen error [Errno 111] Connection refused>".
        reason = error.reason.strerror if isinstance(error.reason, OSError) else None
        host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
        raise OSError(f"no connection to {host}: {reason or error.reason}") from error
    with opened as answer:
        while piece := answer.read1(min(_PIECE_BYTES, LONGEST_DOCUMENT_BYTES + 1 - len(document))):
            document += piece
            if time.monotonic() > ends_at:
                raise TimeoutError(f"the document takes longer than {_LONGEST_DOWNLOAD_SECONDS} seconds")
    return bytes(document)


# -- keys


class SigningKeys:
    """The keys of one provider. fetch: returns the document of a URL, or raises OSError or ValueError."""

    def __init__(
        self,
        config: OAuthConfig,
        scheduler: Scheduler,
        clock: Clock,
        fetch: Callable[[str], bytes] = fetch_document,
    ) -> None:
        self._config = config
        self._url = config.jwks_url or ""
        self._scheduler = scheduler
        self._now = clock.nanoseconds
        self._fetch = fetch
        self._keys: Keys = {}
        self._lock = threading.Lock()
        self._next_unknown_ns = 0
        self._backoff_ms = 0
        self._task: ScheduledTask | None = None
        self._is_closed = False

    def load(self) -> None:
        """Fetch the keys, blocking. Raises ConfigError: there are none."""
        try:
            self._keys = _parse_keys(self._fetch(self._url))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{JWKS_URL}={self._url}: the keys cannot be fetched: {error}", JWKS_URL) from error

    def start(self) -> None:
        """Fetch the keys again from time to time."""
        self._schedule(self._config.refresh_ms)

    def close(self) -> None:
        """Stop fetching keys; those that are known stay valid."""
        with self._lock:
            self._is_closed = True
            if self._task is not None:
                self._task.cancel()

    def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return a key of an algorithm; None if there is none, or if the token names no key and there are several."""
        keys = self._keys
        ids = {each.key_id for each in keys}
        if key_id is None and len(ids) == 1:
            (key_id,) = ids
        if key_id is not None and key_id not in ids:
            self._fetch_soon()
        return keys.get(KeyUse(key_id, algorithm))

    def _fetch_soon(self) -> None:
        now_ns = self._now()
        with self._lock:
            if now_ns < self._next_unknown_ns:
                return
            self._next_unknown_ns = now_ns + UNKNOWN_KEYS_EVERY_NS
        self._schedule(0)

    def _schedule(self, delay_ms: int) -> None:
        """Let the next fetch be after a delay, and no other one."""
        with self._lock:
            if self._task is not None:
                self._task.cancel()
            if not self._is_closed:
                self._task = self._scheduler.schedule(_FETCH_TASK, self._refresh, delay_ms=delay_ms)

    def _refresh(self) -> None:
        config = self._config
        try:
            keys = _parse_keys(self._fetch(self._url))
        except (OSError, ValueError) as error:
            longest_ms = config.retry_backoff_max_ms
            self._backoff_ms = min(self._backoff_ms * 2 or config.retry_backoff_ms, longest_ms)
            logger.warning(
                "The keys of %s cannot be fetched, the old ones are used; again in %d ms: %s",
                self._url,
                self._backoff_ms,
                error,
            )
            self._schedule(self._backoff_ms)
            return
        if keys.keys() != self._keys.keys():
            logger.info("The keys of %s are now %s", self._url, sorted({str(each.key_id) for each in keys}))
        self._keys = keys
        self._backoff_ms = 0
        self._schedule(config.refresh_ms)


def _parse_keys(document: bytes) -> Keys:
    """Return the usable keys of a document: public ones, for signatures. Raises ValueError: there are none."""
    try:
        listed = json.loads(document)["keys"]
    except (KeyError, TypeError, RecursionError):
        raise ValueError('the document is no key set: it has no "keys"') from None
    keys: dict[KeyUse, jwt.PyJWK] = {}
    for each in listed if isinstance(listed, list) else []:
        if not isinstance(each, dict) or each.get("kty") == "oct" or each.get("use", "sig") != "sig":
            continue
        key_id = each["kid"] if isinstance(each.get("kid"), str) else None
        # A key of RSA that names no algorithm is good for all of RSA's; the curve of another key decides.
        algorithms = _ALGORITHMS[:6] if each.get("kty") == "RSA" and not each.get("alg") else (None,)
        try:
            made = [jwt.PyJWK(each, algorithm) for algorithm in algorithms]
        except (jwt.PyJWTError, ValueError, TypeError):
            logger.warning("A key of the key set is not understood: kid %r, kty %r", key_id, each.get("kty"))
            continue
        keys.update({KeyUse(key_id, key.algorithm_name): key for key in made if key.algorithm_name in _ALGORITHMS})
    if not keys:
        raise ValueError("the document has no public key for signatures")
    return keys


# -- tokens


class SignedTokenValidator:
    """A TokenValidator for the tokens of one identity provider: signature, audience, issuer, times."""

    __slots__ = ("_audience", "_clock", "_issuer", "_keys", "_rules")

    def __init__(self, keys: SigningKeys, config: OAuthConfig, clock: Clock) -> None:
        self._keys = keys
        self._audience = list(config.expected_audience) or None
        self._issuer = config.expected_issuer
        self._clock = clock
        self._rules = ClaimRules(config.user_claim, config.scope_claim, config.clock_skew_seconds * 1000)

    def validate(self, token: str) -> ValidToken:
        """Return whose token it is. Raises TokenInvalid. A token that has an audience needs an expected one."""
        if token.find(".") > LONGEST_TOKEN_HEADER:
            raise TokenInvalid(f"its header has more than {LONGEST_TOKEN_HEADER} characters")
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in _ALGORITHMS:
                raise TokenInvalid(f"its alg, {_shown(algorithm)}, is none of {', '.join(_ALGORITHMS)}")
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
