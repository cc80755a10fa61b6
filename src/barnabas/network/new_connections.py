"""The accepted connections that wait until their Processor configures them: at most 20.

The Acceptor adds connections, and may wait for room; the Processor takes them out, and so does the thread that removes
the Processor. One of the two gets each connection, because a deque pops an item once. No lock but that of the semaphore
that counts the room. Kafka: SocketServer.Processor (newConnections).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from barnabas.transport.transport_layer import StreamSocket

CONNECTION_QUEUE_SIZE: Final = 20
"""How many new connections may wait for a Processor, and how many it configures in one turn."""


class NewConnection(NamedTuple):
    """An accepted socket that no Processor has registered yet."""

    stream_socket: StreamSocket
    address: str
    """The IP address at the other end."""


class NewConnections:
    """A bounded queue. The Processor tests in every turn whether `waiting` is empty."""

    __slots__ = ("_room", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[NewConnection] = deque()
        self._room = threading.Semaphore(CONNECTION_QUEUE_SIZE)

    def put(self, connection: NewConnection, timeout_seconds: float) -> bool:
        """Add a connection; return False if there was no room in time."""
        has_room = self._room.acquire(timeout=timeout_seconds) if timeout_seconds > 0 else self._room.acquire(False)
        if has_room:
            self.waiting.append(connection)
        return has_room

    def take(self) -> NewConnection | None:
        """Take the first connection; None if none waits."""
        # No test before the pop: another thread may take the last connection in between.
        try:
            connection = self.waiting.popleft()
        except IndexError:
            return None
        self._room.release()
        return connection

    def take_all(self) -> list[NewConnection]:
        """Take all connections that wait."""
        taken = []
        while (connection := self.take()) is not None:
            taken.append(connection)
        return taken
