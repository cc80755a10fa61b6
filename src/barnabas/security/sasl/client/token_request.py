"""The request for a token: one HTTP POST to the identity provider, with the client's id and secret.

Called by TokenEndpoint on threads that may wait; immutable, so no lock. Kafka: HttpAccessTokenRetriever.
"""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.config.secret import Secret
from barnabas.security.tls.https_trust import HttpsTrust, is_refused_certificate

MOST_BYTES: Final = 1 << 20
_MAY_PASS: Final = (408, 429)
"""The statuses from 400 to 499 that another attempt may change."""
_NEVER_PASS: Final = (501, 505)


class RequestFailed(Exception):
    """The error for a request without an answer, or with that of an error. may_pass: another attempt may succeed."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The request of one client. scope: what the token is to allow; None: the provider decides.

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
        """Return the body of the answer. Raises RequestFailed."""
        # Headers and body are made here and not kept: both have the secret, or what it is good for.
        request = urllib.request.Request(  # noqa: S310 - the settings accept http: and https: only
            self.url, self._body(), {"Authorization": self._authorization(), "Accept": "application/json"}
        )
        try:
            with self._opener().open(request) as answer:
                body: bytes = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                may_pass = error.code in _MAY_PASS or (error.code >= 500 and error.code not in _NEVER_PASS)
                raise RequestFailed(f"HTTP status {error.code}{_oauth_error(error)}", may_pass=may_pass) from None
        except urllib.error.URLError as error:
            raise RequestFailed(f"{error.reason}", may_pass=not is_refused_certificate(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise RequestFailed(str(error) or type(error).__name__, may_pass=True) from None
        if len(body) > MOST_BYTES:
            raise RequestFailed(f"the answer is larger than {MOST_BYTES} bytes", may_pass=False)
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
    body = error.read(MOST_BYTES).decode("utf-8", "replace")
    for word in ("invalid_client", "invalid_scope", "unauthorized_client", "invalid_request", "unsupported_grant_type"):
        if f'"{word}"' in body:
            return f" ({word})"
    return ""
