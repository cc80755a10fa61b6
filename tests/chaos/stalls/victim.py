"""The victim: another client, which produces one record every 20 ms and notes how long each answer takes.

It is a process of its own, so that the senders of the campaign take no interpreter lock from it. The campaign owns the
other end of the pipe. The child reads an order to begin, produces until the order to stop, and answers with its waits.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from tests.chaos.stalls.batches import large_record, produce

TICK_SECONDS: Final = 0.02
PROMPT_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 2.0
"""How long the last record may wait for its answer."""
TOPIC: Final = "victim"


class Place(NamedTuple):
    """A listener, and what a client needs there. trust: a PEM file, over TLS. user: logs in by PLAIN."""

    host: str
    port: int
    trust: str | None = None
    user: str | None = None
    password: str = ""

    def connect(self, timeout_seconds: float) -> socket.socket:
        """Return a connection that is ready for requests. Raises OSError."""
        connection = self.connect_bare(timeout_seconds)
        try:
            if self.trust is not None:
                context = ssl.create_default_context(cafile=self.trust)
                connection = context.wrap_socket(connection, server_hostname="localhost")
            if self.user is not None:
                self._log_in(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_bare(self, timeout_seconds: float) -> socket.socket:
        """Return a TCP connection, without handshake or login. Raises OSError."""
        connection = socket.create_connection((self.host, self.port), timeout_seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _log_in(self, connection: socket.socket) -> None:
        mechanism = b"PLAIN"
        token = f"\0{self.user}\0{self.password}".encode()
        for api_key, field in ((17, struct.pack(">h", 5) + mechanism), (36, struct.pack(">i", len(token)) + token)):
            frame = struct.pack(">hhih", api_key, 1, 1, -1) + field
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            answer = receive_frame(connection)
            if answer[4:6] != b"\0\0":
                raise ConnectionError(f"the login of {self.user} was rejected: {answer!r}")


def receive_frame(connection: socket.socket) -> bytes:
    """Return the next frame without its size prefix. Raises OSError, ConnectionError at the end of the stream."""
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(size - len(received), 1 << 20))
        if not part:
            raise ConnectionError("the broker closed the connection")
        received += part
    return bytes(received)


class Wait(NamedTuple):
    """A record that was due at a time of the monotonic clock, and the seconds until it was acknowledged.

    is_answered: False when there was no answer by the end of the measurement.
    """

    due_at: float
    seconds: float
    is_answered: bool = True


class Victim:
    """The campaign's side. Not for use by two threads at once."""

    def __init__(self, place: Place) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_live, args=(place, far_end), daemon=True)
        self._process.start()
        far_end.close()

    def begin(self) -> None:
        """Let it produce from now on."""
        self._pipe.send("begin")

    def end(self) -> list[Wait]:
        """Let it stop; its waits since `begin`."""
        self._pipe.send("end")
        waits: list[Wait] = self._pipe.recv()
        return waits

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(PROMPT_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _live(place: Place, pipe: Connection) -> None:
    """Produce whenever the campaign orders it, until the campaign closes the pipe."""
    producer = _Producer(place, pipe)
    with suppress(EOFError, OSError):
        while pipe.recv() == "begin":
            waits = producer.produce_until_told()
            pipe.recv()
            pipe.send(waits)


class _Producer:
    """One connection that is made anew when it is lost."""

    def __init__(self, place: Place, pipe: Connection) -> None:
        self._place = place
        self._pipe = pipe
        self._frame = produce({0: large_record(1)}, TOPIC)
        self._connection: socket.socket | None = None

    def produce_until_told(self) -> list[Wait]:
        """Produce a record at every tick; one that is late because of the record before it counts from its tick."""
        waits = []
        due_at = time.monotonic()
        while not self._pipe.poll():
            is_answered = self._produce()
            now = time.monotonic()
            waits.append(Wait(due_at, now - due_at, is_answered))
            due_at += TICK_SECONDS
            if due_at > now:
                self._pipe.poll(due_at - now)
        return waits

    def _produce(self) -> bool:
        """Produce a record, if need be on a new connection; whether it was acknowledged before the order to stop."""
        while True:
            try:
                connection = self._connection or self._place.connect(PROMPT_SECONDS)
                self._connection = connection
                connection.sendall(self._frame)
                if self._is_answer_in_time(connection):
                    receive_frame(connection)
                    return True
            except OSError:
                time.sleep(TICK_SECONDS)
            self._drop()
            # Looked at behind the attempt: an order that comes while a record falls due says nothing about the broker.
            if self._pipe.poll():
                return False

    def _is_answer_in_time(self, connection: socket.socket) -> bool:
        """Wait for an answer; after the order to stop for a moment only, in which one that is on its way comes."""
        ready, _, _ = select.select([connection.fileno(), self._pipe.fileno()], [], [])
        if connection.fileno() not in ready:
            ready, _, _ = select.select([connection.fileno()], [], [], GRACE_SECONDS)
        return connection.fileno() in ready

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
