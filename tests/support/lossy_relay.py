"""A relay between clients and a broker that now and then cuts a connection instead of passing an answer on.

What was asked for has happened then, and the client does not know: it asks again. For tests of idempotent clients; the
broker must advertise the relay's port. Threads of its own, ended by `close`.
"""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress

from tests.support.server_process import free_port


class LossyRelay:
    """Listens on `port`; cuts with the probability `loss` whenever the broker sends something, while `is_lossy`."""

    def __init__(self, loss: float, seed: int) -> None:
        self.port = free_port()
        self.is_lossy = False
        self.cuts = 0
        self._loss = loss
        self._random = random.Random(seed)
        self._target = 0
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def relay_to(self, port: int) -> None:
        """Where connections from now on lead."""
        self._target = port

    def cut(self) -> None:
        """Cut all connections that there are."""
        for each in tuple(self._sockets):
            _end(each)

    def close(self) -> None:
        self._closed = True
        for each in (self._listener, *self._sockets):
            _end(each)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _end(client)
                continue
            self._sockets |= {client, broker}
            threading.Thread(target=self._pass_on, args=(client, broker, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(broker, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_answer and self.is_lossy and self._random.random() < self._loss:
                    self.cuts += 1
                    break
                target.sendall(data)
        _end(source)
        _end(target)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
