"""Connections of the load generator over TLS and with a login: what `wire_requests.Connection` is in plaintext.

SaslHandshake v1 and SaslAuthenticate v1 by hand. The client's side of SCRAM is that of our clients, which keeps the
salted password: a login then costs the client a few HMACs, as it costs the broker.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from typing import NamedTuple

from barnabas.config.secret import Secret
from barnabas.security.sasl.client.client_authenticator import PasswordUser, SaslClient
from barnabas.security.sasl.mechanisms import MECHANISMS
from benchmarks.wire_requests import CLIENT_ID, BadAnswer, Buffer, Connection

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


class Login(NamedTuple):
    """A mechanism, and the maker of its client's side for each login."""

    mechanism: str
    new_client: Callable[[], SaslClient]

    @classmethod
    def of_user(cls, mechanism: str, name: str, password: str) -> Login:
        """A login by password."""
        return cls(*MECHANISMS[mechanism].login(PasswordUser(name, Secret(password))))


def tls_context(trust: str) -> ssl.SSLContext:
    """A client that trusts the authority in the PEM file `trust`."""
    return ssl.create_default_context(cafile=trust)


def secure(
    connection: Connection,
    context: ssl.SSLContext | None,
    login: Login | None = None,
    session: ssl.SSLSession | None = None,
) -> None:
    """Do the handshake of TLS on a new connection, and then log in; None: neither. session: one to resume.

    Raises BadAnswer: the broker rejects the login.
    """
    if context is not None:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost", session=session)
    if login is not None:
        log_in(connection, login)


def log_in(connection: Connection, login: Login) -> None:
    """Log in. Raises BadAnswer: the broker rejects the login."""
    name = login.mechanism.encode()
    answer = connection.call(_frame(SASL_HANDSHAKE, struct.pack(">h", len(name)) + name))
    (error,) = struct.unpack_from(">h", answer, 4)
    if error:
        raise BadAnswer(f"SASL handshake: error {error}")
    client = login.new_client()
    challenge = b""
    while not client.complete:
        token = client.respond(challenge)
        if token is None:
            break
        challenge = _challenge_of(connection.call(_frame(SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)))
    if not client.complete:
        raise BadAnswer("SASL authenticate: the login does not end")


def _frame(api_key: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, 1, 1, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def _challenge_of(answer: Buffer) -> bytes:
    """The token of a SaslAuthenticate v1 answer. Raises BadAnswer: it has an error."""
    error, text_length = struct.unpack_from(">hh", answer, 4)
    position = 8 + max(text_length, 0)
    if error:
        raise BadAnswer(f"SASL authenticate: error {error}: {bytes(answer[8:position])!r}")
    (size,) = struct.unpack_from(">i", answer, position)
    return bytes(answer[position + 4 : position + 4 + size])
