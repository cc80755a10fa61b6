"""A TLS client whose bytes the caller sends: the flights of a handshake, and the records behind it, one by one.

Used by login_mutants.py, which changes some of them on the way.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

_RECEIVE_BYTES: Final = 1 << 16


class TlsFlights:
    """One side of a TLS connection; every call receives what it needs, and none sends."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def next_flight(self) -> bytes:
        """The next bytes of the handshake. Raises OSError: the peer ends it."""
        while True:
            self._try_handshake()
            flight = self._outgoing.read()
            if flight:
                return flight
            self._receive()

    def complete(self) -> None:
        """Wait for the end of the handshake: TLS 1.2 has a last flight of the server. Raises OSError."""
        while not self._try_handshake():
            self._receive()

    def records_of(self, data: bytes) -> bytes:
        """These bytes as the records that carry them."""
        self._tls.write(data)
        return self._outgoing.read()

    def _try_handshake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _receive(self) -> None:
        data = self._connection.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the broker ends the handshake")
        self._incoming.write(data)
