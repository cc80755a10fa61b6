"""The metadata store that the brokers of `barnabas serve --processes` share: in the data directory, behind a socket.

Made and closed by `cli.serve` on the main thread. The store has a thread, and its server one and two for each broker;
no lock here. The socket lies in a directory of its own that only its user may enter, and may itself be opened by that
user alone: no password is needed, and no other user and no other machine reaches the store (decisions/0098).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable

from barnabas.config.config_error import ConfigError
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.files import OperatingSystemFiles
from barnabas.transport import unix_sockets
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.server.store_server import StoreServer
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.znode_table import MOVED_FILE


class SharedStore:
    """The store and its server. directory: of the database, made if it is missing.

    on_failure: called on the store's thread when the database cannot be used any more.
    """

    def __init__(self, directory: str, on_failure: Callable[[BaseException], None]) -> None:
        self._directory = directory
        self._store = EmbeddedStore(directory, SystemClock(), on_failure)
        self._server: StoreServer | None = None
        self._socket_directory: str | None = None

    def open(self) -> None:
        """Open the store.

        Raises OSError, StoreUnavailableError: it cannot be used. Raises ConfigError: its metadata are in ZooKeeper now.
        """
        os.makedirs(self._directory, exist_ok=True)
        mark = os.path.join(self._directory, MOVED_FILE)
        if os.path.exists(mark):
            from barnabas.broker.metadata_migration import refuse_moved

            refuse_moved(OperatingSystemFiles(), mark)
        self._store.start()

    def brokers_with_partitions(self) -> set[int]:
        """Return the ids of the brokers that have replicas, those included that a reassignment adds."""
        session = self._store.new_session()
        try:
            topics = KafkaZkClient(session, SystemClock()).topics
            found = topics.assignments(topics.all_topics())
            return {
                broker_id
                for topic in found
                for assignment in topic.assignment.values()
                for broker_id in assignment.replicas
            }
        finally:
            session.close()

    def controller_id(self) -> int | None:
        """Return the id of the controller; None before one is elected, or if the store has failed."""
        session = self._store.new_session()
        try:
            return KafkaZkClient(session, SystemClock()).controller_id()
        except StoreUnavailableError:
            return None
        finally:
            session.close()

    def serve(self) -> str:
        """Serve the store. Return the value for `zookeeper.connect`. Raises ConfigError: its socket cannot be made."""
        self._socket_directory = tempfile.mkdtemp(prefix="barnabas-")
        path = os.path.join(self._socket_directory, "store")
        try:
            listener = unix_sockets.listen(path)
        except OSError as error:
            raise ConfigError(f"the socket {path} cannot be made (TMPDIR names its place): {error}") from error
        self._server = StoreServer(self._store, listener)
        return f"unix:{path}"

    def close(self) -> None:
        """End the server and the store, and remove the socket."""
        if self._server is not None:
            self._server.close()
        self._store.close()
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)
