"""The server's side of a mechanism: on a listener, and in one login with its outcome and its errors.

Implemented by the mechanisms. SaslListener makes a mechanism of a listener's settings. SaslServerAuthenticator calls
the servers of logins, on the thread of the channel. Kafka: Java's SaslServer and SaslServerFactory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from barnabas.runtime.clock import Clock
    from barnabas.runtime.scheduler import Scheduler
    from barnabas.security.sasl.jaas import LoginModule
    from barnabas.security.sasl.sasl_config import SaslConfig
    from barnabas.security.sasl.scram_mechanism import ScramCredentials
    from barnabas.security.sasl.signed_tokens import SigningKeys


class Login(NamedTuple):
    """A login that has succeeded.

    user: the principal's name. is_token: whether the client logged in by a delegation token. expires_ms: when what the
    client logged in with expires, in milliseconds since the epoch; None: never.
    """

    user: str
    is_token: bool = False
    expires_ms: int | None = None


class SaslServer(Protocol):
    """The server of one login. It is asked once for every token of the client, until it has a login or rejects one."""

    login: Login | None
    """The outcome, once the exchange is complete."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's next token and return the answer. Raises LoginRejected."""


SaslServerFactory = Callable[[], SaslServer]
"""Makes the server of one login."""


class LoginRejected(Exception):
    """The error for a login that fails. Its text is for the log and holds no secret.

    client_text: the error text in the answer; None: only that the credentials are invalid, not whether the user exists.
    """

    def __init__(self, message: str, client_text: str | None = None) -> None:
        super().__init__(message)
        self.client_text = client_text


def refused(message: str) -> LoginRejected:
    """Return the error for a login whose answer has the reason as its text."""
    return LoginRejected(message, message)


# -- a mechanism on a listener


class AnswerVersions(Protocol):
    """The answer to ApiVersions before the login."""

    def __call__(self, request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:
        """Return the answer to a request; None: to one of an unknown version, which is answered in the layout of v0."""


class LoginParts(NamedTuple):
    """What the logins of all listeners share."""

    credentials: ScramCredentials
    answer_versions: AnswerVersions
    clock: Clock
    scheduler: Scheduler
    asks_providers: bool = True
    """Whether the keys of tokens are fetched from identity providers; False where settings alone are checked."""


class MechanismSettings(NamedTuple):
    """What a listener's settings say of one of its mechanisms, and what the logins of all listeners share.

    prefix: of the settings for this listener and this mechanism alone. module: the login context. handler: the Java
    class that is to check the logins. sasl: the settings of all mechanisms of the listener.
    """

    listener_name: str
    mechanism: str
    prefix: str
    module: LoginModule | None
    handler: str | None
    sasl: SaslConfig
    parts: LoginParts


class ServedMechanism(NamedTuple):
    """A mechanism on a listener. keys: those of tokens, which are kept up to date while the listener is served."""

    new_server: SaslServerFactory
    keys: SigningKeys | None = None
