"""The server's side of PLAIN (RFC 4616): the client sends user and password in one token.

One object a login, on the thread of its channel; the users are immutable and shared. Kafka: PlainSaslServer,
PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import partial
from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.security.sasl.jaas import LoginModule
from barnabas.security.sasl.sasl_server import Login, MechanismSettings, ServedMechanism, refused

_USER_PREFIX: Final = "user_"


class InvalidPlainUsers(ValueError):
    """The error for users that cannot be read. Its text quotes no value."""


class PlainUsers:
    """The users of a listener and their passwords, which no text of this object shows."""

    __slots__ = ("_passwords",)

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {user: password.encode() for user, password in passwords.items()}

    @classmethod
    def of_module(cls, module: LoginModule) -> PlainUsers:
        """Return the users of a login module: its options `user_<name>=<password>`."""
        options = module.options.items()
        return cls({name.removeprefix(_USER_PREFIX): value for name, value in options if name.startswith(_USER_PREFIX)})

    @classmethod
    def of_setting(cls, text: str) -> PlainUsers:
        """Return the users of `sasl.plain.users`: `<name>:<password>`, separated by commas.

        Raises InvalidPlainUsers: an entry has no name or no password, or a user stands there twice.
        """
        passwords: dict[str, str] = {}
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        for number, entry in enumerate(entries, 1):
            user, _, password = entry.partition(":")
            # No text of the entry is quoted: without its colon, all of it may be a password.
            if not user or not password:
                raise InvalidPlainUsers(
                    f"entry {number} of {len(entries)} is not <name>:<password>. A password that has a comma needs a "
                    'login context: ...PlainLoginModule required user_<name>="<password>";'
                )
            if user in passwords:
                raise InvalidPlainUsers(f"entry {number} of {len(entries)} names a user a second time")
            passwords[user] = password
        return cls(passwords)

    def __len__(self) -> int:
        return len(self._passwords)

    def is_valid(self, user: str, password: str) -> bool:
        """Return whether this is the user's password. The time does not tell how much of the password is right."""
        expected = self._passwords.get(user)
        given = password.encode()
        # An unknown user costs a comparison, too.
        return hmac.compare_digest(given, given if expected is None else expected) and expected is not None

    def __repr__(self) -> str:
        return f"PlainUsers({len(self._passwords)} users, hidden)"


def serve(settings: MechanismSettings) -> ServedMechanism:
    """Return PLAIN on a listener (`mechanisms`). Raises ConfigError: it has no users, or two settings have some."""
    return ServedMechanism(partial(PlainServer, _users_of(settings)))


def _users_of(settings: MechanismSettings) -> PlainUsers:
    """Return the users of `sasl.plain.users`, or of the login context. Raises ConfigError: as `serve`."""
    name, listener_name, jaas = "sasl.plain.users", settings.listener_name, f"{settings.prefix}sasl.jaas.config"
    of_module = None if settings.module is None else PlainUsers.of_module(settings.module)
    if settings.sasl.plain_users is None:
        if of_module is None:
            raise ConfigError(
                f"Listener {listener_name} enables PLAIN and has no users: set listener.name.{listener_name.lower()}."
                f"{name}=<name>:<password>,..., or {jaas} to org.apache.kafka.common.security.plain.PlainLoginModule "
                'required user_<name>="<password>";',
                jaas,
            )
        return of_module
    # A login context without users may stand beside: it says as whom this broker logs in to others.
    if of_module:
        raise ConfigError(f"Listener {listener_name} has users in {name} and in {jaas}: keep one of the two", name)
    try:
        return PlainUsers.of_setting(settings.sasl.plain_users.reveal())
    except InvalidPlainUsers as error:
        raise ConfigError(f"{name} of listener {listener_name}: {error}", name) from None


class PlainServer:
    """The server of one login by PLAIN."""

    __slots__ = ("_users", "login")

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Take the token: authorization id, user and password, separated by NUL. Raises LoginRejected."""
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise refused("Authentication failed: username not specified")
        if not password:
            raise refused("Authentication failed: password not specified")
        if not self._users.is_valid(user, password):
            raise refused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise refused("Authentication failed: Client requested an authorization id that is different from username")
        self.login = Login(user)
        return b""
