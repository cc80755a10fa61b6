"""Connections that do not log in as they should: mutated SASL exchanges and TLS streams, and handshakes that stop.

Used by test_logins.py. Everything comes from a seed, so that a failure can be repeated.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.mutator import Mutator
from tests.support.sasl_exchange import ScramDialogue, plain_token

SECONDS = 60
_KINDS = ("sasl", "sasl", "sasl", "sasl", "scram", "scram", "hello", "hello", "inside", "record")
_SCRAM = "SCRAM-SHA-256"


class Ports(NamedTuple):
    """Where the broker listens, by security protocol."""

    ssl: int
    sasl: int
    sasl_ssl: int


class User(NamedTuple):
    """A user that exists, by PLAIN and by SCRAM."""

    name: str
    password: str


def framed(request: Message, version: int) -> bytes:
    """A request with its size."""
    header = encode_request_header(request.api_key, version, 7, "mutant")
    frame = b"".join([header, *(bytes(piece) for piece in request.encode(version))])
    return len(frame).to_bytes(4, "big") + frame


def client_hello(name: str = "localhost") -> bytes:
    """The first bytes of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake ends before it has begun")


class LoginMutants:
    """One sender of mutants. `run` counts them by kind in `sent`."""

    def __init__(self, ports: Ports, user: User, trust_pem: str, seed: int) -> None:
        self._ports = ports
        self._user = user
        self._random = random.Random(seed)
        self._mutator = Mutator(self._random)
        self._context = ssl.create_default_context(cafile=trust_pem)
        self._context.check_hostname = False
        self.sent = dict.fromkeys(_KINDS, 0)

    def run(self, count: int) -> None:
        """Send so many mutants. AssertionError: the broker keeps a connection open that its client has ended."""
        for _ in range(count):
            kind = self._random.choice(_KINDS)
            getattr(self, f"_{kind}")()
            self.sent[kind] += 1

    # -- the kinds

    def _sasl(self) -> None:
        """A mutated exchange."""
        with self._connect(self._ports.sasl) as connection:
            self._end(connection, self._mutator.mutate(self._exchange(), 0))

    def _scram(self) -> None:
        """A login by SCRAM whose last message is mutated."""
        dialogue = ScramDialogue(_SCRAM, self._user.name, self._user.password)
        with self._connect(self._ports.sasl) as connection:
            connection.sendall(framed(SaslHandshakeRequest(_SCRAM), 0))
            _receive_frame(connection)
            first = dialogue.first_message()
            connection.sendall(len(first).to_bytes(4, "big") + first)
            final = self._mutator.mutate(dialogue.final_message(_receive_frame(connection)), 0)
            self._end(connection, len(final).to_bytes(4, "big") + final)

    def _hello(self) -> None:
        """A mutated first message of TLS."""
        port = self._random.choice((self._ports.ssl, self._ports.sasl_ssl))
        with self._connect(port) as connection:
            self._end(connection, self._mutator.mutate(client_hello(), 0))

    def _inside(self) -> None:
        """A mutated exchange inside TLS."""
        with self._connect(self._ports.sasl_ssl) as connection, self._context.wrap_socket(connection) as tls:
            self._end(tls, self._mutator.mutate(self._exchange(), 0))

    def _record(self) -> None:
        """Bytes that are no record, after the handshake of TLS."""
        with self._connect(self._ports.ssl) as connection, self._context.wrap_socket(connection) as tls:
            mutant = self._mutator.mutate(b"\x17\x03\x03\x00\x40" + self._random.randbytes(64), 0)
            os.write(tls.fileno(), mutant or b"\x00")
            self._end(tls, b"")

    # -- parts

    def _exchange(self) -> bytes:
        requests: Sequence[bytes] = (
            framed(ApiVersionsRequest("mutant", "1"), 3),
            framed(SaslHandshakeRequest("PLAIN"), self._random.randrange(2)),
            framed(SaslHandshakeRequest(_SCRAM), 1),
            framed(
                SaslAuthenticateRequest(plain_token(self._user.name, self._user.password)), self._random.randrange(3)
            ),
            framed(SaslAuthenticateRequest(ScramDialogue(_SCRAM, self._user.name, "x").first_message()), 2),
            framed(SaslHandshakeRequest("OAUTHBEARER"), 1),
            framed(SaslAuthenticateRequest(b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.e30.\x01\x01"), 2),
            framed(MetadataRequest(topics=None), 1),
        )
        if self._random.random() < 0.5:
            return b"".join(requests[index] for index in (0, 1, 3, 7))  # a login as it should be
        return b"".join(self._random.choices(requests, k=self._random.randint(1, 5)))

    def _connect(self, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), SECONDS)

    def _end(self, connection: socket.socket, data: bytes) -> None:
        """Send bytes in two pieces, and nothing more; wait until the broker closes."""
        cut = self._random.randint(0, len(data))
        try:
            connection.sendall(data[:cut])
            connection.sendall(data[cut:])
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the broker has closed already
        _await_end(connection)


def _receive_frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)


def _await_end(connection: socket.socket) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        raise AssertionError("the broker keeps a connection whose client has ended") from None
    except OSError:
        pass  # reset: the broker has closed with unread bytes
