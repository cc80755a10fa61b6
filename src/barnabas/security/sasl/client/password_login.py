"""The login by name and password: PLAIN, SCRAM, and delegation tokens, whose password is their HMAC.

Made of a client's settings, or of those by which a broker logs in to other brokers; immutable. No error quotes a value.
Kafka: PlainLoginModule, ScramLoginModule.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.client_authenticator import LoginFailed, SaslLogin
from barnabas.security.sasl.client.scram_client import TOKEN_EXTENSIONS, ScramClient, ScramLogin
from barnabas.security.sasl.jaas import InvalidJaas, parse_login_module
from barnabas.security.sasl.login_modules import LOGIN_MODULES, PLAIN
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS


class PasswordUser(NamedTuple):
    """A user with a password. is_token: the name is the id of a delegation token, and the password its HMAC."""

    name: str
    password: Secret
    is_token: bool = False


class PlainClient:
    """One login by PLAIN (RFC 4616), a SaslClient.

    User name and password go in one message, so only TLS keeps them secret. Kafka's clients use the JDK's.
    """

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        self.complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the one message of the mechanism. Raises LoginFailed: the server sends a challenge."""
        if challenge:
            raise LoginFailed("PLAIN has no challenge, and the server sent one")
        self.complete = True
        return f"\0{self._username}\0{self._password.reveal()}".encode()


def password_login(mechanism: str, user: PasswordUser) -> SaslLogin:
    """Return the login of a user by PLAIN or SCRAM."""
    if mechanism == PLAIN:
        return SaslLogin(mechanism, lambda: PlainClient(user.name, user.password))
    extensions = TOKEN_EXTENSIONS if user.is_token else None
    # One for all connections: it keeps the salted password, whose computation takes milliseconds.
    credentials = ScramLogin(SCRAM_MECHANISMS[mechanism], user.name, user.password, extensions)
    return SaslLogin(mechanism, lambda: ScramClient(credentials))


def user_of_login_context(mechanism: str, jaas: Secret) -> PasswordUser:
    """Return the user whom a login context in Java's notation names.

    Raises InvalidJaas: it is malformed, is for another mechanism, or lacks the user or the password.
    """
    module = parse_login_module(jaas.reveal())
    expected = LOGIN_MODULES[mechanism]
    if module.short_name != expected:
        raise InvalidJaas(f"{mechanism} takes {expected}, not {module.short_name}")
    if not module.options.get("username") or not module.options.get("password"):
        raise InvalidJaas(f"{module.short_name} needs the options username and password")
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return PasswordUser(module.options["username"], Secret(module.options["password"]), is_token)
