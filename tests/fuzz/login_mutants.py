"""Connections that do not log in as they should: mutated SASL exchanges and TLS streams, and handshakes that stop.

Used by login_campaign.py. Everything comes from a seed, so that a failure can be repeated.
"""

from __future__ import annotations

import base64
import binascii
import os
import random
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.fuzz.tls_flights import TlsFlights
from tests.support.certificates import strict_context
from tests.support.mutator import Mutator
from tests.support.sasl_exchange import ScramDialogue, plain_token

SECONDS = 60
_KINDS = ("sasl", "sasl", "sasl", "token", "scram", "scram", "replay", "hello", "flight", "stream", "inside", "record")
_SCRAM = "SCRAM-SHA-256"
_VERSIONS: Final = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
UNSECURED_TOKEN = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJtdXRhbnQiLCJleHAiOjk5OTk5OTk5OTksImlhdCI6MTcwMDAwMDAwMH0."
"""A token that the broker accepts: `{"alg":"none"}`, `{"sub":"mutant","exp":9999999999,"iat":1700000000}`."""


class Ports(NamedTuple):
    """Where the broker listens, by security protocol. required: SSL, for clients with a certificate."""

    ssl: int
    required: int
    sasl: int
    sasl_ssl: int


class User(NamedTuple):
    """A user that exists, by PLAIN and by SCRAM."""

    name: str
    password: str


def framed(request: Message, version: int) -> bytes:
    """A request with its size."""
    header = encode_request_header(request.api_key, version, 7, "mutant")
    return _sized(b"".join([header, *(bytes(piece) for piece in request.encode(version))]))


def _sized(frame: bytes) -> bytes:
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

    def __init__(self, ports: Ports, user: User, certificates: Path, seed: int) -> None:
        """certificates: a directory with trust.pem, and with client.pem, a key and its certificate."""
        self._ports = ports
        self._user = user
        self._random = random.Random(seed)
        self._mutator = Mutator(self._random)
        self._contexts = [self._context_of(version, certificates) for version in _VERSIONS]
        self._overheard: list[bytes] = []
        self.sent = dict.fromkeys(_KINDS, 0)

    @staticmethod
    def _context_of(version: ssl.TLSVersion, certificates: Path) -> ssl.SSLContext:
        context = strict_context((certificates / "trust.pem").read_text())
        context.load_cert_chain(certificates / "client.pem")
        context.minimum_version = context.maximum_version = version
        return context

    def run(self, count: int) -> None:
        """Send so many mutants.

        AssertionError: the broker keeps a connection open that its client has ended, or accepts a wrong login.
        """
        for _ in range(count):
            kind = self._random.choice(_KINDS)
            getattr(self, f"_{kind}")()
            self.sent[kind] += 1

    # -- kinds without TLS

    def _sasl(self) -> None:
        """A mutated exchange."""
        with self._connect(self._ports.sasl) as connection:
            self._end(connection, self._mutator.mutate(self._exchange(), 0))

    def _token(self) -> None:
        """A login by OAUTHBEARER whose message is mutated."""
        message = self._mutator.mutate(b"n,,\x01auth=Bearer " + UNSECURED_TOKEN + b"\x01\x01", 0)
        login = framed(SaslHandshakeRequest("OAUTHBEARER"), 1) + framed(SaslAuthenticateRequest(message), 2)
        with self._connect(self._ports.sasl) as connection:
            self._end(connection, login + framed(MetadataRequest(topics=None), 1))

    def _scram(self) -> None:
        """A login by SCRAM whose last message is mutated: no other proof may be accepted."""
        dialogue = ScramDialogue(_SCRAM, self._user.name, self._user.password)
        with self._connect(self._ports.sasl) as connection:
            right = dialogue.final_message(self._begin_scram(connection, dialogue.first_message()))
            mutant = self._mutator.mutate(right, 0)
            answer = self._end(connection, _sized(mutant))
        assert b"v=" not in answer or _same_proof(mutant, right), mutant

    def _replay(self) -> None:
        """The messages of a login by SCRAM that was overheard before."""
        if not self._overheard:
            dialogue = ScramDialogue(_SCRAM, self._user.name, self._user.password)
            with self._connect(self._ports.sasl) as connection:
                first = dialogue.first_message()
                self._overheard = [first, dialogue.final_message(self._begin_scram(connection, first))]
                assert b"v=" in self._end(connection, _sized(self._overheard[1])), "the login that is overheard fails"
        with self._connect(self._ports.sasl) as connection:
            self._begin_scram(connection, self._overheard[0])
            assert b"v=" not in self._end(connection, _sized(self._overheard[1])), "an old login is accepted"

    # -- kinds with TLS

    def _hello(self) -> None:
        """A mutated first message of TLS."""
        with self._connect(self._any_tls_port()) as connection:
            self._end(connection, self._mutator.mutate(client_hello(), 0))

    def _flight(self) -> None:
        """A handshake whose last flight is mutated: the client's certificate, its signature, the Finished."""
        with self._connect(self._ports.required) as connection:
            tls = TlsFlights(connection, self._random.choice(self._contexts))
            connection.sendall(tls.next_flight())
            self._end(connection, self._mutator.mutate(tls.next_flight(), 0))

    def _stream(self) -> None:
        """Records that are changed, left out, sent twice, out of order, or cut."""
        with self._connect(self._ports.required) as connection:
            tls = TlsFlights(connection, self._random.choice(self._contexts))
            connection.sendall(tls.next_flight())
            connection.sendall(tls.next_flight())
            tls.complete()
            requests = (framed(ApiVersionsRequest("mutant", "1"), 3), framed(MetadataRequest(topics=None), 1))
            records = [tls.records_of(request) for request in requests * 2]
            match self._random.randrange(4):
                case 0:
                    records = [self._mutator.mutate(b"".join(records), 0)]
                case 1:
                    del records[self._random.randrange(len(records))]
                case 2:
                    records.append(self._random.choice(records))
                case _:
                    self._random.shuffle(records)
            self._end(connection, b"".join(records))

    def _inside(self) -> None:
        """A mutated exchange inside TLS."""
        context = self._random.choice(self._contexts)
        with self._connect(self._ports.sasl_ssl) as connection, self._secured(connection, context) as tls:
            self._end(tls, self._mutator.mutate(self._exchange(), 0))

    def _record(self) -> None:
        """Bytes that are no record, after the handshake of TLS."""
        context = self._random.choice(self._contexts)
        with self._connect(self._ports.ssl) as connection, self._secured(connection, context) as tls:
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
            framed(SaslAuthenticateRequest(b"n,,\x01auth=Bearer " + UNSECURED_TOKEN + b"\x01\x01"), 2),
            framed(MetadataRequest(topics=None), 1),
        )
        if self._random.random() < 0.5:
            return b"".join(requests[index] for index in (0, 1, 3, 7))  # a login as it should be
        return b"".join(self._random.choices(requests, k=self._random.randint(1, 5)))

    @staticmethod
    def _begin_scram(connection: socket.socket, first: bytes) -> bytes:
        """Choose SCRAM, and send its first message; the broker's."""
        connection.sendall(framed(SaslHandshakeRequest(_SCRAM), 0))
        _receive_frame(connection)
        connection.sendall(_sized(first))
        return _receive_frame(connection)

    def _any_tls_port(self) -> int:
        return self._random.choice((self._ports.ssl, self._ports.required, self._ports.sasl_ssl))

    @staticmethod
    def _connect(port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), SECONDS)

    @staticmethod
    def _secured(connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        return context.wrap_socket(connection, server_hostname="localhost")

    def _end(self, connection: socket.socket, data: bytes) -> bytes:
        """Send bytes in two pieces, and nothing more; wait until the broker closes; what it has sent."""
        cut = self._random.randint(0, len(data))
        try:
            connection.sendall(data[:cut])
            connection.sendall(data[cut:])
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return b""  # the broker has closed already
        return _received_until_end(connection)


def _same_proof(mutant: bytes, right: bytes) -> bool:
    """Whether two final messages differ at most in unused bits of base64."""
    without_proof, _, proof = mutant.rpartition(b",p=")
    right_without_proof, _, right_proof = right.rpartition(b",p=")
    try:
        return without_proof == right_without_proof and base64.b64decode(proof, validate=True) == base64.b64decode(
            right_proof
        )
    except binascii.Error:
        return False


def _receive_frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)


def _received_until_end(connection: socket.socket) -> bytes:
    pieces = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except TimeoutError:
        raise AssertionError("the broker keeps a connection whose client has ended") from None
    except OSError:
        pass  # reset: the broker has closed with unread bytes
    return b"".join(pieces)
