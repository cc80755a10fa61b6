"""OAUTHBEARER (RFC 7628), the client's side: a token that an identity provider has issued.

Called as the SaslClient of a connection; no lock. Kafka: OAuthBearerSaslClient.
"""

from __future__ import annotations

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.sasl_client import LoginFailed

OAUTHBEARER = "OAUTHBEARER"
_KVSEP = "\x01"


class OAuthBearerClient:
    """One login by OAUTHBEARER."""

    def __init__(self, token: Secret) -> None:
        self._token = token
        self._is_begun = False
        self._is_rejected = False
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the token, and nothing after an empty challenge; to an error, the acknowledgement of RFC 7628.

        The server then ends the login, with its error. Raises LoginFailed: it does not.
        """
        if not self._is_begun:
            self._is_begun = True
            return f"n,,{_KVSEP}auth=Bearer {self._token.reveal()}{_KVSEP}{_KVSEP}".encode()
        if self._is_rejected:
            raise LoginFailed("the server goes on after it has rejected the token")
        if challenge:
            self._is_rejected = True
            return _KVSEP.encode()
        self.complete = True
        return None
