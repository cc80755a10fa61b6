"""The server's side of OAUTHBEARER (RFC 7628): the client sends a token that an identity provider has issued.

One object a login, on the thread of its channel; the validator is shared. Kafka: OAuthBearerSaslServer.

A rejected token is answered with an error in JSON. The client acknowledges the error, and the login fails: with the
next message, whatever it is. Kafka would take another token then.
"""

from __future__ import annotations

from barnabas.security.sasl.oauthbearer_messages import ClientMessage, MessageMalformed
from barnabas.security.sasl.sasl_server import Login, LoginRejected, told
from barnabas.security.sasl.token_claims import TokenInvalid, TokenValidator


class OAuthBearerServer:
    """The server of one login by OAUTHBEARER."""

    __slots__ = ("_error", "_validator", "login")

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._error: TokenInvalid | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Take the message with the token, or the acknowledgement of an error. Raises LoginRejected."""
        if self._error is not None:
            raise LoginRejected(f"the token is rejected: {self._error}", self._error.answer)
        try:
            message = ClientMessage.parse(token)
        except MessageMalformed as error:
            raise LoginRejected(str(error)) from None  # the cause's frames hold the token
        try:
            valid = self._validator.validate(message.token)
        except TokenInvalid as error:
            self._error = error.with_traceback(None)
            return error.answer.encode()
        if message.authorization_id not in ("", valid.user):
            raise told(
                f"Authentication failed: Client requested an authorization id ({message.authorization_id}) that is "
                f"different from the token's principal name ({valid.user})"
            )
        self.login = Login(valid.user, expires_ms=valid.expires_ms)
        return b""
