"""A server of an embedded store for several brokers, which speaks ZooKeeper's protocol at one address.

Made by `barnabas serve --processes`, behind a socket that only the user of the brokers can open, and by the test kit on
the loopback address. `zookeeper.connect` of each broker names the address, and the brokers cannot tell the server from
ZooKeeper. It serves the requests that brokers send, and a session ends with its connection, so that a killed broker is
known to be dead at once (decisions/0057, 0098); with `sessions_linger` it ends when its timeout is over, as in
ZooKeeper.

Threads: `store-server` accepts; each connection has one that reads, which owns the session, and one that writes. The
store's threads put answers' futures and events into the writer's queue. `_lock` guards the table of connections.
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

from barnabas.zk.server.znode_messages import (
    CLOSE_SESSION,
    PING,
    ConnectRequest,
    UnknownRequest,
    answer,
    event_frame,
    read_operation,
)
from barnabas.zk.store.embedded_store import EmbeddedSession, EmbeddedStore
from barnabas.zk.store.errors import StoreFullError, StoreUnavailableError
from barnabas.zk.store.store import Operation, Outcome, WatchEvent

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5
_LARGEST_FRAME: Final = 8 << 20
_HEADER: Final = struct.Struct("!ii")


class _Reply(NamedTuple):
    xid: int
    operation: Operation | None
    outcome: Future[list[Outcome]] | None


class StoreServer:
    """The server at one address, from the time it is made until `close`. listener: a listening socket, which it closes.

    The store is its maker's, who closes it afterwards. Methods are called on the maker's thread.
    """

    def __init__(self, store: EmbeddedStore, listener: socket.socket, *, sessions_linger: bool = False) -> None:
        self._store = store
        self._sessions_linger = sessions_linger
        self._listener = listener
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._is_cut_off = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="store-server", daemon=True)
        self._thread.start()

    def drop_connections(self) -> None:
        """End the connections, and their sessions with them: the brokers come back with new ones."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def cut_off(self) -> None:
        """End the connections, and close new ones until `let_in`."""
        with self._lock:
            self._is_cut_off = True
        self.drop_connections()

    def let_in(self) -> None:
        """Serve new connections again."""
        with self._lock:
            self._is_cut_off = False

    def close(self) -> None:
        """End all connections and wait for the threads. A second call does nothing."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
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
            except OSError as error:
                if self._closed.is_set():
                    return
                # Such as too many open files: the next attempt may succeed.
                logger.warning("A broker's connection to the store could not be accepted: %s", error)
                self._closed.wait(_RETRY_SECONDS)
                continue
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
        self._reader = threading.Thread(target=self._read, name="store-server-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="store-server-writer", daemon=True)

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
            logger.debug("A broker's connection to the store has ended: %r", error)
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
            logger.debug("A broker's connection to the store has ended: %r", error)
            self.close()


def _frame_of(item: _Reply | WatchEvent | bytes) -> bytes:
    """Return the frame to send. Raises StoreUnavailableError: the store is closed, or failed."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, WatchEvent):
        return event_frame(item)
    try:
        outcome = None if item.outcome is None else item.outcome.result()[0]
    except StoreFullError as error:
        # An answer, and not the end of the session: the brokers keep their registrations, and may try again.
        outcome = error
    return answer(item.xid, item.operation, outcome)
