"""A server for the brokers of a test's cluster: an embedded store that speaks ZooKeeper's protocol.

Made by the test kit (`barnabas.testing.cluster`) in the process of the test, so that several brokers have one store
without a JVM; `zookeeper.connect` of each broker names its address, and the brokers cannot tell it from ZooKeeper. It
is no ZooKeeper: it listens on the loopback address only, keeps everything in memory, serves the requests that brokers
send, and a session ends with its connection, so that a killed broker is known to be dead at once (decisions/0057);
with `sessions_linger` it ends when its timeout is over, as in ZooKeeper.

Threads: `znode-server` accepts, one for each address; each connection has one that reads, which owns the session, and
one that writes. The store's threads put answers' futures and events into the writer's queue. The `_lock` of an address
guards its table of connections.
"""

from __future__ import annotations

import logging
import queue
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.runtime.clock import SystemClock
from barnabas.testing.znode_messages import (
    CLOSE_SESSION,
    PING,
    ConnectRequest,
    UnknownRequest,
    answer,
    event_frame,
    read_operation,
)
from barnabas.zk.store.embedded_store import EmbeddedSession, EmbeddedStore
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import Operation, Outcome, WatchEvent

logger = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
_LARGEST_FRAME: Final = 8 << 20
_HEADER: Final = struct.Struct("!ii")


class _Reply(NamedTuple):
    xid: int
    operation: Operation | None
    outcome: Future[list[Outcome]] | None


class ZnodeServer:
    """The server, which runs from the time it is made until `close`. port: of the first address; 0 takes a free one.

    All methods are called on the test's thread.
    """

    def __init__(self, port: int = 0, *, sessions_linger: bool = False) -> None:
        self._store = EmbeddedStore(None, SystemClock())
        self._store.start()
        self._sessions_linger = sessions_linger
        first = _Entrance(self._store, port, sessions_linger=sessions_linger)
        self.address = first.address
        """The value for `zookeeper.connect`."""
        self._entrances = {first.address: first}

    def new_address(self) -> str:
        """Return a further value for `zookeeper.connect`, for brokers that `cut_off` shall be able to tell apart."""
        entrance = _Entrance(self._store, 0, sessions_linger=self._sessions_linger)
        self._entrances[entrance.address] = entrance
        return entrance.address

    def session(self) -> EmbeddedSession:
        """Return a session of the test's own, to read and change what the brokers have written."""
        return self._store.new_session()

    def drop_connections(self) -> None:
        """End the connections of all brokers, and their sessions with them: they come back with new ones."""
        for entrance in self._entrances.values():
            entrance.drop_connections()

    def cut_off(self, address: str) -> None:
        """End the connections to one address, and their sessions with them, and close new ones until `let_in`."""
        self._entrances[address].cut_off()

    def let_in(self, address: str) -> None:
        """Serve new connections to this address again."""
        self._entrances[address].let_in()

    def close(self) -> None:
        """End all connections and the store, and wait for the threads. A second call does nothing."""
        for entrance in self._entrances.values():
            entrance.close()
        self._store.close()


class _Entrance:
    """One address of the server, and the connections to it."""

    def __init__(self, store: EmbeddedStore, port: int, *, sessions_linger: bool) -> None:
        self._store = store
        self._sessions_linger = sessions_linger
        self._listener = socket.create_server((_LOOPBACK, port))
        self.address = f"{_LOOPBACK}:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._is_cut_off = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._accept, name="znode-server", daemon=True)
        self._thread.start()

    def drop_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def cut_off(self) -> None:
        with self._lock:
            self._is_cut_off = True
        self.drop_connections()

    def let_in(self) -> None:
        with self._lock:
            self._is_cut_off = False

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        # A thread that accepts is not woken by the end of its socket on every system.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()
        for connection in connections:
            connection.join()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return  # closed
            connection = _Connection(accepted, self._store, self._forget, sessions_linger=self._sessions_linger)
            with self._lock:
                is_cut_off = self._is_cut_off
                if not is_cut_off:
                    self._connections.add(connection)
            if is_cut_off:
                accepted.close()
            else:
                connection.start()

    def _forget(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.discard(connection)


class _Connection:
    """One connection and its session."""

    def __init__(
        self,
        accepted: socket.socket,
        store: EmbeddedStore,
        on_end: Callable[[_Connection], None],
        *,
        sessions_linger: bool,
    ) -> None:
        self._socket = accepted
        self._store = store
        self._on_end = on_end
        self._sessions_linger = sessions_linger
        self._is_closed = threading.Event()
        self._outgoing: queue.SimpleQueue[_Reply | WatchEvent | bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="znode-server-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="znode-server-writer", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def close(self) -> None:
        self._is_closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        self._reader.join()

    # -- the reader

    def _read(self) -> None:
        self._writer.start()
        try:
            with self._socket:
                self._serve()
                # The last answer leaves before the socket is closed.
                self._outgoing.put(None)
                self._writer.join()
        except (OSError, struct.error, UnknownRequest, StoreUnavailableError) as error:
            logger.debug("A connection to the store of the test kit has ended: %r", error)
        finally:
            self._outgoing.put(None)
            self._writer.join()
            self._on_end(self)

    def _serve(self) -> None:
        request = ConnectRequest.read(self._frame())
        if request.session_id:
            # A session has ended with its connection: the client asks for a new one.
            self._outgoing.put(request.answer(0))
            return
        # A broker that is silent (SIGSTOP) loses its session, and its connection.
        self._socket.settimeout(request.timeout_ms / 1_000)
        session = self._store.new_session()
        try:
            self._outgoing.put(request.answer(session.session_id))
            while self._serve_request(session, self._frame()):
                pass
        except ConnectionResetError:
            if self._sessions_linger:
                self._is_closed.wait(request.timeout_ms / 1_000)
            raise
        finally:
            session.close()

    def _serve_request(self, session: EmbeddedSession, frame: bytes) -> bool:
        """Serve a request. Return whether more may follow. Raises UnknownRequest, struct.error: no broker sends it."""
        xid, kind = _HEADER.unpack_from(frame)
        if kind in (PING, CLOSE_SESSION):
            if kind == CLOSE_SESSION:
                session.close()
            self._outgoing.put(_Reply(xid, None, None))
            return bool(kind == PING)
        operation = read_operation(kind, frame, _HEADER.size, self._outgoing.put)
        self._outgoing.put(_Reply(xid, operation, session.submit([operation])))
        return True

    def _frame(self) -> bytes:
        (length,) = struct.unpack("!i", self._exactly(4))
        if not 0 <= length <= _LARGEST_FRAME:
            raise UnknownRequest(f"a frame of {length} bytes")
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            received = self._socket.recv(length - len(data))
            if not received:
                raise ConnectionResetError("closed by the broker")
            data += received
        return data

    # -- the writer

    def _write(self) -> None:
        try:
            while (item := self._outgoing.get()) is not None:
                frame = _frame_of(item)
                self._socket.sendall(struct.pack("!i", len(frame)) + frame)
        except (OSError, StoreUnavailableError) as error:
            logger.debug("A connection to the store of the test kit has ended: %r", error)
            self.close()


def _frame_of(item: _Reply | WatchEvent | bytes) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, WatchEvent):
        return event_frame(item)
    return answer(item.xid, item.operation, None if item.outcome is None else item.outcome.result()[0])
