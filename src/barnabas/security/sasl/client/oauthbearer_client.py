"""OAUTHBEARER (RFC 7628), the client's side: a token that an identity provider has issued.

Called as the SaslClient of a connection; no lock. Kafka: OAuthBearerSaslClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.security.sasl.client.client_authenticator import LoginFailed, SaslLogin
from barnabas.security.sasl.client.token_endpoint import NoToken

logger = logging.getLogger(__name__)

_KVSEP = "\x01"


def login(mechanism: str, new_token: Callable[[], str]) -> SaslLogin:
    """Return the login by the tokens of a function (`mechanisms`)."""
    return SaslLogin(mechanism, lambda: OAuthBearerClient(new_token))


class OAuthBearerClient:
    """One login by OAUTHBEARER."""

    def __init__(self, new_token: Callable[[], str]) -> None:
        """new_token: returns a token; called once, on the client's thread, when the login begins."""
        self._new_token = new_token
        self._is_begun = False
        self._is_rejected = False
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the token, and nothing after an empty challenge; to an error, the acknowledgement of RFC 7628.

        The server then ends the login, with its error. Raises LoginFailed: it does not, or there is no token.
        """
        if not self._is_begun:
            self._is_begun = True
            return f"n,,{_KVSEP}auth=Bearer {self._token()}{_KVSEP}{_KVSEP}".encode()
        if self._is_rejected:
            raise LoginFailed("the server goes on after it has rejected the token")
        if challenge:
            self._is_rejected = True
            return _KVSEP.encode()
        self.complete = True
        return None

    def _token(self) -> str:
        try:
            token: object = self._new_token()
        except NoToken as error:
            raise LoginFailed(str(error)) from None
        except Exception as error:
            # The user's own function: its error ends this login, and not the client's thread.
            logger.exception("The function of sasl_oauthbearer_token has failed")
            raise LoginFailed(f"sasl_oauthbearer_token gives no token: {type(error).__name__}") from error
        if not isinstance(token, str) or not token:
            raise LoginFailed(f"sasl_oauthbearer_token gives no token, but a {type(token).__name__}")
        return token
