"""OAUTHBEARER (RFC 7628), the client's side: a token that an identity provider has issued.

Called as the SaslClient of a connection; no lock. Kafka: OAuthBearerSaslClient.
"""

from __future__ import annotations

import json

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.sasl_client import LoginFailed

OAUTHBEARER = "OAUTHBEARER"
_KVSEP = "\x01"


class OAuthBearerClient:
    """One login by OAUTHBEARER."""

    def __init__(self, token: Secret) -> None:
        self._token = token
        self._is_begun = False
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the token, and nothing after an empty challenge. Raises LoginFailed: the server rejects the token."""
        if not self._is_begun:
            self._is_begun = True
            return f"n,,{_KVSEP}auth=Bearer {self._token.reveal()}{_KVSEP}{_KVSEP}".encode()
        if challenge:
            raise LoginFailed(f"The server rejects the token: {_status(challenge)}")
        self.complete = True
        return None


def _status(challenge: bytes) -> str:
    """Return the status of the server's error, which is JSON (RFC 7628, 3.2.2)."""
    try:
        status = json.loads(challenge)["status"]
    except (ValueError, KeyError, TypeError):
        return "no status given"
    return str(status)[:200]
