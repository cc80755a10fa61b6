"""An identity provider for tests: keys, tokens signed by them, and a web server that publishes the public ones."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "kafka"
ISSUER = "https://identity.example.com"


def unsecured_token(**claims: Any) -> str:
    """A token with `alg: none`."""
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


class SigningKey:
    """A private key with an id. It names its algorithm in the key set, unless `is_named` is False."""

    def __init__(self, key_id: str, algorithm: str = "RS256", *, is_named: bool = True) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        if algorithm.startswith("ES"):
            self._private: Any = ec.generate_private_key(ec.SECP256R1())
            public = jwt.algorithms.ECAlgorithm.to_jwk(self._private.public_key(), as_dict=True)
        else:
            self._private = rsa.generate_private_key(65537, 2048)
            public = jwt.algorithms.RSAAlgorithm.to_jwk(self._private.public_key(), as_dict=True)
        self.public = {**public, "kid": key_id, "use": "sig", **({"alg": algorithm} if is_named else {})}

    def token(self, now_s: float, **claims: Any) -> str:
        """A token of alice that is valid for an hour; a claim that is None is left out."""
        all_claims = {"sub": "alice", "aud": AUDIENCE, "iss": ISSUER, "iat": int(now_s), "exp": int(now_s) + 3600}
        all_claims |= claims
        given = {name: value for name, value in all_claims.items() if value is not None}
        return jwt.encode(given, self._private, self.algorithm, headers={"kid": self.key_id})


def key_set(*keys: SigningKey) -> bytes:
    """The document that publishes keys."""
    return json.dumps({"keys": [key.public for key in keys]}).encode()


class TokenPost(NamedTuple):
    """A request for a token, as it came: its Authorization header, and its form."""

    authorization: str
    form: dict[str, str]


class TokenAnswer(NamedTuple):
    """An answer to a request for a token. location: of a redirection."""

    status: int
    body: bytes = b""
    location: str | None = None

    @classmethod
    def with_token(cls, token: str) -> TokenAnswer:
        """The answer of a provider that issues a token."""
        return cls(200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).encode())


class IdentityProvider:
    """A web server with a key set, whose `document` a test replaces; None: the server fails.

    At `token_url` it issues tokens: `answer_token` makes each answer, and `token_posts` has what came. context: of TLS.
    """

    def __init__(self, document: bytes, context: ssl.SSLContext | None = None) -> None:
        self.document: bytes | None = document
        self.answer_token: Callable[[], TokenAnswer] = lambda: TokenAnswer(503)
        self.token_posts: list[TokenPost] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                document = provider.document
                self.send_response(200 if document is not None else 503)
                self.send_header("Content-Length", str(len(document or b"")))
                self.end_headers()
                self.wfile.write(document or b"")

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                provider.token_posts.append(TokenPost(self.headers["Authorization"], dict(parse_qsl(form))))
                answer = provider.answer_token()
                self.send_response(answer.status)
                if answer.location is not None:
                    self.send_header("Location", answer.location)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *arguments: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="identity-provider")
        scheme = "http"
        if context is not None:
            scheme = "https"
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        place = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{place}/jwks"
        self.token_url = f"{place}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
