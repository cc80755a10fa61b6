"""The store of a test's cluster: an embedded store in memory, behind addresses that speak ZooKeeper's protocol.

Made by the test kit (`barnabas.testing.cluster`) in the process of the test, so that several brokers have one store
without a JVM. It listens on the loopback address only. Called on the test's thread; no lock. `zk.server.store_server`
has the server's threads.
"""

from __future__ import annotations

import socket
from typing import Final

from barnabas.runtime.clock import SystemClock
from barnabas.zk.server.store_server import StoreServer
from barnabas.zk.store.embedded_store import EmbeddedSession, EmbeddedStore

_LOOPBACK: Final = "127.0.0.1"


class ZnodeServer:
    """The server, which runs from the time it is made until `close`. port: of the first address; 0 takes a free one."""

    def __init__(self, port: int = 0, *, sessions_linger: bool = False) -> None:
        self._store = EmbeddedStore(None, SystemClock())
        self._store.start()
        self._sessions_linger = sessions_linger
        self._servers: dict[str, StoreServer] = {}
        self.address = self._listen(port)
        """The value for `zookeeper.connect`."""

    def new_address(self) -> str:
        """Return a further value for `zookeeper.connect`, for brokers that `cut_off` shall be able to tell apart."""
        return self._listen(0)

    def session(self) -> EmbeddedSession:
        """Return a session of the test's own, to read and change what the brokers have written."""
        return self._store.new_session()

    def drop_connections(self) -> None:
        """End the connections of all brokers, and their sessions with them: they come back with new ones."""
        for server in self._servers.values():
            server.drop_connections()

    def cut_off(self, address: str) -> None:
        """End the connections to one address, and their sessions with them, and close new ones until `let_in`."""
        self._servers[address].cut_off()

    def let_in(self, address: str) -> None:
        """Serve new connections to this address again."""
        self._servers[address].let_in()

    def close(self) -> None:
        """End all connections and the store, and wait for the threads. A second call does nothing."""
        for server in self._servers.values():
            server.close()
        self._store.close()

    def _listen(self, port: int) -> str:
        listener = socket.create_server((_LOOPBACK, port))
        address = f"{_LOOPBACK}:{listener.getsockname()[1]}"
        self._servers[address] = StoreServer(self._store, listener, sessions_linger=self._sessions_linger)
        return address
