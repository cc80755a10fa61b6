"""The public keys of an identity provider (JWKS, RFC 7517), from a URL or a file, fetched again while the broker runs.

`load` is called when the listener is opened; later fetches run on the scheduler's threads, never on a network thread.
Logins read the keys, an immutable mapping that a fetch replaces; `_lock` guards what is scheduled. Needs the package
PyJWT (extra `oauth`). Kafka: RefreshingHttpsJwks, JwksFileVerificationKeyResolver.

The keys are fetched every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon when a token names a key that is not
known: the provider may have a new one. Anybody can send such tokens, so they cause at most one fetch every ten seconds.
A failed fetch is repeated after `...retry.backoff.ms`, then twice that, up to `...retry.backoff.max.ms`; until one
succeeds the old keys are used.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import jwt

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import ScheduledTask, Scheduler
from barnabas.security.sasl.key_source import fetch_document
from barnabas.security.sasl.oauth_config import JWKS_URL, OAuthConfig

logger = logging.getLogger(__name__)

UNKNOWN_KEYS_EVERY_NS: Final = 10_000 * NANOSECONDS_PER_MILLISECOND
"""How often tokens with unknown keys may cause a fetch."""
_TASK: Final = "sasl-oauthbearer-keys"

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures by a private key. A key set is public, so an HMAC by one of its keys proves nothing; nor does `none`."""


class KeyUse(NamedTuple):
    """A key, and the algorithm that it is used by. key_id: None for a key without an id."""

    key_id: str | None
    algorithm: str


Keys = Mapping[KeyUse, jwt.PyJWK]


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
            self._keys = _parse(self._fetch(self._url))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{JWKS_URL}={self._url}: the keys cannot be fetched: {error}", JWKS_URL) from error

    def start(self) -> None:
        """Fetch the keys again from time to time."""
        self._schedule(self._config.refresh_ms)

    def close(self) -> None:
        """Fetch no more."""
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
                self._task = self._scheduler.schedule(_TASK, self._refresh, delay_ms=delay_ms)

    def _refresh(self) -> None:
        config = self._config
        try:
            keys = _parse(self._fetch(self._url))
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


def _parse(document: bytes) -> Keys:
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
        algorithms = ALGORITHMS[:6] if each.get("kty") == "RSA" and not each.get("alg") else (None,)
        try:
            made = [jwt.PyJWK(each, algorithm) for algorithm in algorithms]
        except (jwt.PyJWTError, ValueError, TypeError):
            logger.warning("A key of the key set is not understood: kid %r, kty %r", key_id, each.get("kty"))
            continue
        keys.update({KeyUse(key_id, key.algorithm_name): key for key in made if key.algorithm_name in ALGORITHMS})
    if not keys:
        raise ValueError("the document has no public key for signatures")
    return keys
