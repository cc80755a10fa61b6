"""Tokens of an identity provider for our clients: OAuth 2's grant by client credentials (RFC 6749, 4.4; KIP-768).

One TokenEndpoint a client, called on the threads that log in, which may wait. `_lock` guards the token and is held
while a first one is fetched: the other logins need it as well.

A token serves all logins until a share of its life is over (`refresh_window_factor`, and a little more by chance, so
that many clients do not ask at once). The first login after that starts a thread that fetches the next token, and logs
in with the old one, so no login waits for a provider that is slow or away as long as there is a token. A fetch is tried
again after errors that may pass, with pauses that double, for at most `retry_backoff_max_ms` in all.

Kafka: OAuthBearerLoginCallbackHandler, HttpAccessTokenRetriever, LoginAccessTokenValidator,
ExpiringCredentialRefreshingLogin.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.config.secret import Secret
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.security.sasl.token_claims import ClaimRules, TokenInvalid, decoded_part, valid_token
from barnabas.security.tls.tls_contexts import HttpsTrust, is_refused_certificate

logger = logging.getLogger(__name__)

_LONGEST_ANSWER_BYTES: Final = 1 << 20
_MAY_PASS: Final = (408, 429)
"""The statuses from 400 to 499 that another attempt may change."""
_NEVER_PASS: Final = (501, 505)
_CLOCK_SKEW_MS: Final = 30_000


class NoToken(Exception):
    """The error for a provider that gives no usable token. Its text has no secret."""


class _RequestFailed(Exception):
    """The error for a request without an answer, or with that of an error. may_pass: another attempt may succeed."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The request for a token: one HTTP POST with the client's id and secret. Immutable.

    scope: what the token is to allow; None: the provider decides.
    encodes_header: whether id and secret are URL-encoded in the header, as RFC 6749 says and Kafka by default does not.
    trust: what verifies the provider's certificate.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    encodes_header: bool = False
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    trust: HttpsTrust = field(default_factory=HttpsTrust)

    def send(self) -> bytes:
        """Return the body of the answer. Raises _RequestFailed."""
        # Headers and body are made here and not kept: both have the secret, or what it is good for.
        request = urllib.request.Request(  # noqa: S310 - the settings accept http: and https: only
            self.url, self._body(), {"Authorization": self._authorization(), "Accept": "application/json"}
        )
        try:
            with self._opener().open(request) as answer:
                body: bytes = answer.read(_LONGEST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                may_pass = error.code in _MAY_PASS or (error.code >= 500 and error.code not in _NEVER_PASS)
                raise _RequestFailed(f"HTTP status {error.code}{_oauth_error(error)}", may_pass=may_pass) from None
        except urllib.error.URLError as error:
            raise _RequestFailed(f"{error.reason}", may_pass=not is_refused_certificate(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise _RequestFailed(str(error) or type(error).__name__, may_pass=True) from None
        if len(body) > _LONGEST_ANSWER_BYTES:
            raise _RequestFailed(f"the answer is larger than {_LONGEST_ANSWER_BYTES} bytes", may_pass=False)
        return body

    def _body(self) -> bytes:
        form = {"grant_type": "client_credentials"}
        if self.scope:
            form["scope"] = self.scope
        return urllib.parse.urlencode(form).encode()

    def _authorization(self) -> str:
        name, secret = self.client_id, self.client_secret.reveal()
        if self.encodes_header:
            name, secret = urllib.parse.quote_plus(name), urllib.parse.quote_plus(secret)
        return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()

    def _opener(self) -> urllib.request.OpenerDirector:
        """Return what sends the request. It follows no redirection, which would carry the secret elsewhere."""
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            _Http(self),
            _Https(self),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            opener.add_handler(handler)
        return opener


@dataclass(frozen=True, slots=True)
class TokenRules:
    """When a token is fetched and again, and what it has to hold. The claims are those with the user and the scope.

    refresh_min_period_seconds, refresh_buffer_seconds: they do not count for a token that lives shorter than both.
    """

    user_claim: str = "sub"
    scope_claim: str = "scope"
    refresh_window_factor: float = 0.8
    refresh_window_jitter: float = 0.05
    refresh_min_period_seconds: int = 60
    refresh_buffer_seconds: int = 300
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


class _HeldToken(NamedTuple):
    """A token. refresh_ms, expires_ms: wall time."""

    token: Secret
    refresh_ms: int
    expires_ms: int


class TokenEndpoint:
    """The source of a client's tokens: calling it returns one that is valid now."""

    def __init__(
        self,
        request: TokenRequest,
        rules: TokenRules,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """pause: waits for some seconds, between two attempts. chance: returns a number from 0 to 1."""
        self._request = request
        self._rules = rules
        self._clock = clock or SystemClock()
        self._pause = pause
        self._chance = chance
        self._lock = threading.Lock()
        self._held: _HeldToken | None = None
        self._refreshing: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"TokenEndpoint({self._request.url})"

    def __call__(self) -> str:
        """Return a valid token; without one, wait for the provider. Raises NoToken."""
        with self._lock:
            now_ms = self._clock.milliseconds()
            held = self._held
            if held is None or now_ms >= held.expires_ms:
                held = self._held = self._fetch()
            elif now_ms >= held.refresh_ms and self._refreshing is None:
                self._refreshing = threading.Thread(target=self._refresh, name="token-refresh", daemon=True)
                self._refreshing.start()
            return held.token.reveal()

    def _refresh(self) -> None:
        """Replace the token, on a thread of its own. If the provider gives none, a later login tries again."""
        try:
            held = self._fetch()
            with self._lock:
                self._held = held
        except NoToken as error:
            logger.warning("The old token is used on: %s", error)
        finally:
            with self._lock:
                self._refreshing = None

    def _fetch(self) -> _HeldToken:
        """Ask the provider, several times if need be. Raises NoToken."""
        rules = self._rules
        ends_ms = self._clock.nanoseconds() // 1_000_000 + rules.retry_backoff_max_ms
        backoff_ms = rules.retry_backoff_ms
        while True:
            try:
                return self._checked(self._request.send())
            except _RequestFailed as error:
                left_ms = ends_ms - self._clock.nanoseconds() // 1_000_000
                if not error.may_pass or left_ms <= 0:
                    raise NoToken(f"{self._request.url} gives no token: {error}") from None
                wait_ms = min(backoff_ms, left_ms)
                logger.info("%s gives no token, again in %d ms: %s", self._request.url, wait_ms, error)
            self._pause(wait_ms / 1000)
            backoff_ms *= 2

    def _checked(self, answer: bytes) -> _HeldToken:
        """Take the token out of an answer. Raises NoToken: the answer has none that a broker could accept."""
        try:
            document = json.loads(answer)
            token = document["access_token"]
        except (ValueError, KeyError, TypeError, RecursionError):
            token = None
        if not isinstance(token, str) or not token.strip():
            raise NoToken(f'{self._request.url}: the answer is no JSON with "access_token"')
        token = token.strip()
        now_ms = self._clock.milliseconds()
        claims = ClaimRules(self._rules.user_claim, self._rules.scope_claim, _CLOCK_SKEW_MS, needs_issue_time=False)
        try:
            parts = token.split(".")
            if len(parts) != 3:
                raise TokenInvalid(f"it has {len(parts)} parts, and a signed token (JWT) has 3")
            expires_ms = valid_token(decoded_part(parts[1]), claims, now_ms).expires_ms
        except TokenInvalid as error:
            raise NoToken(f"{self._request.url}: the token cannot be used: {error}") from None
        return _HeldToken(Secret(token), self._refresh_time_ms(now_ms, expires_ms), expires_ms)

    def _refresh_time_ms(self, now_ms: int, expires_ms: int) -> int:
        """Return when to replace a token. Kafka: ExpiringCredentialRefreshingLogin.refreshMs."""
        rules = self._rules
        life_ms = expires_ms - now_ms
        share = rules.refresh_window_factor + rules.refresh_window_jitter * self._chance()
        refresh_ms = now_ms + int(life_ms * share)
        least_ms, buffer_ms = rules.refresh_min_period_seconds * 1000, rules.refresh_buffer_seconds * 1000
        if least_ms + buffer_ms <= life_ms:
            refresh_ms = max(min(refresh_ms, expires_ms - buffer_ms), now_ms + least_ms)
        return refresh_ms


# -- the request over HTTP


class _Http(urllib.request.HTTPHandler):
    """The opener of `http:`, with a time for the connection and another one for the answer."""

    def __init__(self, request: TokenRequest) -> None:
        super().__init__()
        self._request = request

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection(http.client.HTTPConnection, self._request), req)


class _Https(urllib.request.HTTPSHandler):
    """The same for `https:`."""

    def __init__(self, request: TokenRequest) -> None:
        super().__init__()
        self._request = request

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        kind = _connection(http.client.HTTPSConnection, self._request)
        return self.do_open(kind, req, context=self._request.trust.context)


def _connection(kind: type[http.client.HTTPConnection], request: TokenRequest) -> Any:
    """Return a class of connections that have the two time limits of the request."""

    class Limited(kind):  # type: ignore[misc,valid-type] # either of the two classes
        def __init__(self, host: str, **options: Any) -> None:
            super().__init__(host, **(options | {"timeout": request.connect_timeout_ms / 1000}))

        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(request.read_timeout_ms / 1000)

    return Limited


def _oauth_error(error: urllib.error.HTTPError) -> str:
    """Return the error code of RFC 6749 (5.2) in the body, in brackets; "" when the body has none of them."""
    body = error.read(_LONGEST_ANSWER_BYTES).decode("utf-8", "replace")
    for word in ("invalid_client", "invalid_scope", "unauthorized_client", "invalid_request", "unsupported_grant_type"):
        if f'"{word}"' in body:
            return f" ({word})"
    return ""
