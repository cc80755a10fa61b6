"""A relay between clients and a broker: what every relay shares, whatever it does to the bytes that it passes on.

The broker must advertise the relay's port. Threads of its own, ended by `close`.
"""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from tests.support.server_process import free_port


class Relay(ABC):
    """Listens on `port`, and connects each client to the broker at the port given last."""

    def __init__(self) -> None:
        self.port = free_port()
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
            end_connection(each)

    def close(self) -> None:
        self._closed = True
        end_connection(self._listener)
        self.cut()

    @abstractmethod
    def directions(self, client: socket.socket, broker: socket.socket) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return what passes requests on and what passes answers on, until one side ends. Each gets a thread."""

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                end_connection(client)
                continue
            self._sockets |= {client, broker}
            for direction in self.directions(client, broker):
                threading.Thread(target=self._pass_on, args=(direction, client, broker), daemon=True).start()

    def _pass_on(self, direction: Callable[[], None], client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            direction()
        end_connection(client)
        end_connection(broker)


def end_connection(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
