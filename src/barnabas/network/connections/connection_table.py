"""The connections that one Processor serves, by connection id, from the accepted socket to the closed connection.

Owned by one Processor; its thread alone changes the table, other threads may look at it (`all`, `len`). No lock.
The queue of accepted connections before it, NewConnections, is shared with the Acceptor.

Kafka: SocketServer.Processor (newConnections, configureNewConnections, processDisconnected).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from barnabas.api.request import ConnectionContext
from barnabas.network.connections.channel_builders import ServedListener
from barnabas.network.connections.connection import Connection
from barnabas.network.connections.connection_quotas import ConnectionQuotas
from barnabas.transport.channel.kafka_channel import KafkaChannel
from barnabas.transport.channel.transport_layer import StreamSocket
from barnabas.transport.selector import Selector

CONNECTION_QUEUE_SIZE: Final = 20
"""How many new connections may wait for a Processor, and how many it configures in one turn."""
MAX_CONNECTION_INDEX = 0x7FFFFFFF
"""The largest index at the end of a connection id, a positive int in Kafka; the next index is 0."""


class NewConnection(NamedTuple):
    """An accepted socket that no Processor has registered yet."""

    stream_socket: StreamSocket
    address: str
    """The IP address at the other end."""


class NewConnections:
    """The accepted connections that wait until their Processor configures them: a bounded queue.

    The Acceptor adds connections, and may wait for room; the Processor takes them out, and so does the thread that
    removes the Processor. One of the two gets each connection, because a deque pops an item once. No lock but that of
    the semaphore that counts the room. The Processor tests in every turn whether `waiting` is empty.
    """

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


class ConnectionId(NamedTuple):
    """The name of an accepted connection, by which log lines and the Selector know it (Kafka: ConnectionId).

    Both ends, and a number that distinguishes connections which reuse a port.
    """

    local_host: str
    local_port: int
    remote_host: str
    remote_port: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.local_host}:{self.local_port}-{self.remote_host}:{self.remote_port}-{self.sequence}"


class ConnectionTable:
    """The open connections. `ConnectionQuotas` counts each of them from its acceptance until `forget` removes it."""

    __slots__ = ("_by_id", "_listener", "_make_connection", "_next_index", "_quotas", "_selector")

    def __init__(
        self,
        listener: ServedListener,
        selector: Selector,
        quotas: ConnectionQuotas,
        make_connection: Callable[[KafkaChannel, ConnectionContext], Connection],
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._quotas = quotas
        self._make_connection = make_connection
        self._by_id: dict[str, Connection] = {}
        self._next_index = 0

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._by_id)

    def all(self) -> list[Connection]:
        """Return the open connections, in a list that does not change when one of them closes."""
        return list(self._by_id.values())

    def open(self, new: NewConnection) -> Connection:
        """Register an accepted socket with the Selector and make its Connection.

        Raises OSError when the socket is gone already; the caller then closes the socket (`refuse`).
        """
        local = new.stream_socket.getsockname()
        remote = new.stream_socket.getpeername()
        connection_id = str(ConnectionId(local[0], local[1], new.address, remote[1], self._next_index))
        self._next_index = (self._next_index + 1) & MAX_CONNECTION_INDEX
        channel = self._selector.register(connection_id, new.stream_socket)
        listener = self._listener
        context = ConnectionContext(
            connection_id,
            new.address,
            listener.name,
            listener.security_protocol,
            channel.principal,
            from_privileged_listener=listener.privileged,
            plane=listener.plane,
        )
        connection = channel.attachment = self._make_connection(channel, context)
        self._by_id[connection_id] = connection
        return connection

    def refuse(self, new: Iterable[NewConnection]) -> None:
        """Close accepted connections that are not put into the table."""
        for connection in new:
            connection.stream_socket.close()
            self._quotas.decrement(self._listener.name, connection.address)

    def close(self, connection: Connection) -> None:
        """Close a connection and forget it. A second call is harmless."""
        connection_id = connection.context.connection_id
        self._selector.close(connection_id)
        self.forget(connection_id)

    def forget(self, connection_id: str) -> None:
        """Remove a connection whose channel is closed. An unknown id is no error."""
        connection = self._by_id.pop(connection_id, None)
        if connection is None:
            return
        connection.forget_answers()
        connection.channel.attachment = None  # channel and connection refer to each other: no cycle shall be left
        self._quotas.decrement(self._listener.name, connection.context.client_address)
