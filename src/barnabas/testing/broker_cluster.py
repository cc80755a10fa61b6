"""Several real brokers for tests: `with cluster(3) as c: ... c.bootstrap_servers; c.kill(1)`.

Used by users' tests and by the project's own, on the caller's thread, which waits; no lock. Each broker is a
BrokerProcess; they share a ZnodeServer in the process of the test, which stands for ZooKeeper.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.faults.fault_plan import Drop
from barnabas.protocol.headers import decode_response_header, response_header_version
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.rpc.in_flight_requests import request_frame
from barnabas.testing.broker_command import Setting
from barnabas.testing.broker_process import (
    PLAINTEXT,
    START_TIMEOUT_SECONDS,
    BrokerFailed,
    BrokerProcess,
    data_dir_problems,
)
from barnabas.testing.broker_security import MECHANISM, BrokerSecurity, security_of
from barnabas.testing.znode_server import ZnodeServer
from barnabas.zk.store.errors import NoNodeError
from barnabas.zk.znodes.broker_zk_data import BrokerIdZNode, ControllerZNode

if TYPE_CHECKING:
    from barnabas.testing.faults import Fault


_POLL_SECONDS: Final = 0.02
_DEFAULTS: Final[dict[str, Setting]] = {
    "default_replication_factor": 3,
    "offsets_topic_replication_factor": 3,
    "transaction_state_log_replication_factor": 3,
    "transaction_state_log_min_isr": 2,
    "min_insync_replicas": 2,
    # A cluster that stops has no broker left to which the last one could give its leaderships.
    "controlled_shutdown_retry_backoff_ms": 100,
    "zookeeper_session_timeout_ms": 6_000,
    "broker_id_generation_enable": False,
}
_BOUNDED_BY_BROKERS: Final = (
    "default_replication_factor",
    "offsets_topic_replication_factor",
    "transaction_state_log_replication_factor",
)


class Cluster:
    """The brokers with the ids 0, 1, ... and their store. `brokers`: by id."""

    def __init__(
        self,
        data_dir: str,
        size: int,
        settings: dict[str, Setting],
        *,
        log_level: str = "info",
        broker_settings: Callable[[int], dict[str, Setting]] | None = None,
        sessions_linger: bool = False,
        faults: bool = False,
        security: str = PLAINTEXT,
        python: Sequence[str] = (sys.executable,),
    ) -> None:
        """settings: of every broker. broker_settings: further settings by broker id, `broker_rack` for example.

        sessions_linger: the session of a killed broker lasts for `zookeeper_session_timeout_ms`, as in ZooKeeper.
        faults: whether the brokers can be made to fail on purpose, and split from each other. security: `ssl`,
        `sasl_plaintext` or `sasl_ssl`, for clients and between brokers. python: the words that start the interpreter.
        Raises ValueError: there is no such security.
        """
        self.security = None if security == PLAINTEXT else security_of(os.path.join(data_dir, "cluster"), security)
        """The users, certificates and ready settings for clients, the same with every broker; None in plaintext."""
        self.store = ZnodeServer(sessions_linger=sessions_linger)
        """The store, in this process: `store.session()` reads what the brokers have written."""
        shared = {**_DEFAULTS, **dict.fromkeys(_BOUNDED_BY_BROKERS, min(size, 3))}
        if size < 3:
            shared |= {"min_insync_replicas": 1, "transaction_state_log_min_isr": 1}
        self._store_addresses = [self.store.new_address() for _ in range(size)]
        shared |= settings
        self.brokers = [
            BrokerProcess(
                os.path.join(data_dir, f"broker-{broker_id}"),
                {
                    "zookeeper_connect": self._store_addresses[broker_id],
                    **shared,
                    "broker_id": broker_id,
                    **({} if broker_settings is None else broker_settings(broker_id)),
                },
                log_level=log_level,
                python=python,
                faults=faults,
                security=self.security or PLAINTEXT,
            )
            for broker_id in range(size)
        ]
        self._splits = _NetworkSplits(self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, host:port, separated by commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    @property
    def controller_id(self) -> int | None:
        """The id of the controller; None until the brokers have elected one."""
        session = self.store.session()
        try:
            return ControllerZNode.decode(session.get(ControllerZNode.path).data)
        except NoNodeError:
            return None
        finally:
            session.close()

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> Cluster:
        """Start all brokers at once, and wait until each of them knows all. Raises BrokerFailed."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for started in [pool.submit(broker.start, timeout_seconds) for broker in self.brokers]:
                started.result()
        self.wait_until_known(timeout_seconds)
        return self

    def kill(self, broker_id: int) -> None:
        """End a broker at once by SIGKILL, as a crash would, and wait until its registration is gone.

        Raises BrokerFailed: the store has not noticed in time.
        """
        self.brokers[broker_id].kill()
        self._wait_until_unregistered(broker_id)

    def terminate(self, broker_id: int) -> int:
        """Stop a broker, which gives its leaderships to others. Return its exit status. Raises BrokerFailed."""
        return self.brokers[broker_id].terminate()

    def pause(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP). After `zookeeper_session_timeout_ms` the others take it for dead."""
        self.brokers[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        """Let a frozen broker go on (SIGCONT)."""
        self.brokers[broker_id].resume()

    def partition(self, *groups: Collection[int], without_store: Collection[int] = ()) -> None:
        """Split the network: `c.partition({0}, {1, 2})`. Brokers of different groups do not reach each other.

        A broker in no group reaches all. without_store: the brokers whose sessions with the store end at once, and
        that get no other one; the rest keep theirs. Clients reach every broker. A further call adds to the split.
        Raises BrokerFailed unless the cluster was made with `faults=True`, ValueError for a broker in two groups.
        """
        self._splits.split(groups)
        for broker_id in without_store:
            self.store.cut_off(self._store_addresses[broker_id])

    def cut_link(self, source: int, target: int) -> None:
        """Lose one direction: no request of `source` reaches `target` from now on. Raises BrokerFailed, ValueError."""
        self._splits.cut(source, target)

    def heal(self) -> None:
        """End all splits: every broker reaches the others and the store again."""
        self._splits.heal()
        for address in self._store_addresses:
            self.store.let_in(address)

    def restart(self, broker_id: int, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Stop a broker if it runs, start it, and wait until all brokers know it.

        timeout_seconds: for each of the three steps. Raises BrokerFailed.
        """
        if self.brokers[broker_id].is_running:
            self.brokers[broker_id].terminate(timeout_seconds)
        # Else the broker could come back before the store has read the end of its connection, and find its id taken.
        self._wait_until_unregistered(broker_id)
        self.brokers[broker_id].start(timeout_seconds)
        self.wait_until_known(timeout_seconds)

    def rolling_restart(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Restart the brokers one after another, as `restart` does. Raises BrokerFailed."""
        for broker_id in range(len(self.brokers)):
            self.restart(broker_id, timeout_seconds)

    def wait_until_known(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Wait until every running broker knows exactly the running brokers. Raises BrokerFailed: not in time."""
        running = {index: broker for index, broker in enumerate(self.brokers) if broker.is_running}
        deadline = time.monotonic() + timeout_seconds
        for broker_id, broker in running.items():
            while (known := _known_brokers(broker, START_TIMEOUT_SECONDS)) != running.keys():
                if time.monotonic() > deadline:
                    raise BrokerFailed(
                        f"broker {broker_id} knows the brokers {sorted(known)}, not {sorted(running)}, after "
                        f"{timeout_seconds} s; its log ends:\n{broker.log_text()[-4_000:]}"
                    )
                time.sleep(_POLL_SECONDS)

    def _wait_until_unregistered(self, broker_id: int) -> None:
        session = self.store.session()
        try:
            deadline = time.monotonic() + START_TIMEOUT_SECONDS
            while session.exists(BrokerIdZNode.path(broker_id)) is not None:
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"broker {broker_id} has ended, and is registered in the store all the same")
                time.sleep(_POLL_SECONDS)
        finally:
            session.close()

    def close(self) -> None:
        """Stop the brokers that run, then the store. Raises BrokerFailed if one does not stop cleanly."""
        try:
            self.heal()  # brokers without a store, or without each other, would wait for them
            for broker in self.brokers:
                if broker.is_running:
                    broker.resume()  # a frozen broker would not stop
                broker.close()
        finally:
            self.kill_all()

    def kill_all(self) -> None:
        """End everything at once."""
        for broker in self.brokers:
            broker.kill()
        self.store.close()


@contextmanager
def cluster(
    size: int = 3,
    *,
    data_dir: str | None = None,
    log_level: str = "info",
    racks: Sequence[str] | None = None,
    faults: bool = False,
    security: str = PLAINTEXT,
    **settings: Setting,
) -> Iterator[Cluster]:
    """Run brokers: `with cluster(3, num_partitions=3) as c`. They are stopped afterwards, and their data removed.

    `data_dir`: use and keep this directory, made if it is not there, instead of a temporary one. `racks`: of each
    broker. `faults`: whether the brokers can be made to fail on purpose (`c.brokers[1].faults`), and split
    (`c.partition`). `security`: `ssl`, `sasl_plaintext` or `sasl_ssl`, for clients (by the settings in `c.security`)
    and between brokers. Other keywords are settings of every broker; replication factors are 3 and
    `min_insync_replicas` 2 unless they say otherwise. Raises BrokerFailed, with the broker's log, if a broker does not
    start, ends on its own, or does not stop cleanly.
    """
    directory = tempfile.mkdtemp(prefix="barnabas-") if data_dir is None else data_dir
    with data_dir_problems(directory):
        os.makedirs(directory, exist_ok=True)
    running = Cluster(
        directory,
        size,
        settings,
        log_level=log_level,
        broker_settings=None if racks is None else lambda broker_id: {"broker_rack": racks[broker_id]},
        faults=faults,
        security=security,
    )
    try:
        running.start()
        yield running
        running.close()
    finally:
        # After an error in the caller's test too: a failed stop would hide that error.
        running.kill_all()
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


# -- network splits

_FETCHERS_SETTING: Final = "num_replica_fetchers"


class _NetworkSplits:
    """The links between brokers that are cut, by the faults of the brokers. brokers: by id, each with faults.

    A link goes from one broker to another: while it is cut, the second one closes the connection at each request of the
    first one (`Drop`), before it is handled. The first broker is known by the client ids that brokers put into
    their requests to each other, so that clients reach both as before.

    Requests that are under way when a link is cut are still answered. Connections can be opened while it is cut: a
    broker sees connections that end, not silence.
    """

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._brokers = brokers
        self._faults: list[Fault] = []

    def cut(self, source: int, target: int) -> None:
        """Stop all requests of one broker to another, from the moment this returns.

        Raises BrokerFailed: the brokers take no faults. Raises ValueError: the link of a broker to itself.
        """
        if source == target:
            raise ValueError(f"broker {source} reaches itself over no link that could be cut")
        fetchers = int(str(self._brokers[source].settings.get(_FETCHERS_SETTING, 1)))
        for client_id in client_ids_of(source, fetchers):
            self._faults.append(self._brokers[target].faults.add(Drop(), client_id=client_id))

    def split(self, groups: Sequence[Collection[int]]) -> None:
        """Cut both links of any two brokers in different groups. Raises BrokerFailed, and ValueError: in two groups."""
        members = [broker_id for group in groups for broker_id in group]
        if len(set(members)) < len(members):
            raise ValueError(f"a broker is in two of the groups {[sorted(group) for group in groups]}")
        for group in groups:
            for target in group:
                for source in members:
                    if source not in group:
                        self.cut(source, target)

    def heal(self) -> None:
        """Let all requests through again."""
        for fault in self._faults:
            fault.remove()
        self._faults.clear()


def client_ids_of(broker_id: int, fetchers: int) -> list[str]:
    """Return the client ids in a broker's requests to others: those of its own id, and those of its fetchers."""
    return [str(broker_id), *(f"broker-{broker_id}-fetcher-{number}" for number in range(fetchers))]


# -- what one broker knows

_METADATA_VERSION: Final = 12
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

_Response = TypeVar("_Response", bound=Message)


def _known_brokers(broker: BrokerProcess, timeout_seconds: float) -> set[int]:
    """Return the ids of the brokers that one broker tells clients of. Raises OSError: it does not answer.

    It is asked over the protocol of its listener. Our Admin would ask any broker of the cluster; here it has to be this
    one.
    """
    security = broker.security
    with socket.create_connection((broker.host, broker.port), timeout_seconds) as plain:
        if security is None or security.certificates is None:
            return _ask_for_brokers(plain, security)
        with security.tls_client().protected(plain, broker.host) as encrypted:
            return _ask_for_brokers(encrypted, security)


def _ask_for_brokers(connection: socket.socket, security: BrokerSecurity | None) -> set[int]:
    if security is not None and security.has_users:
        _exchange(connection, SaslHandshakeRequest(mechanism=MECHANISM), _HANDSHAKE_VERSION, SaslHandshakeResponse)
        token = f"\0{security.user}\0{security.password}".encode()
        answer = _exchange(
            connection, SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION, SaslAuthenticateResponse
        )
        if answer.error_code:
            raise PermissionError(f"the broker refuses its own user {security.user}: {answer.error_message}")
    metadata = _exchange(connection, MetadataRequest(topics=[]), _METADATA_VERSION, MetadataResponse)
    return {node.node_id for node in metadata.brokers}


def _exchange(connection: socket.socket, request: Message, version: int, response: type[_Response]) -> _Response:
    connection.sendall(b"".join(map(bytes, request_frame(request, version, 1, "test-kit"))))
    with connection.makefile("rb") as answers:
        (length,) = struct.unpack("!i", answers.read(4))
        answer = answers.read(length)
    _, offset = decode_response_header(answer, response_header_version(request.api_key, version))
    decoded, _ = response.decode(answer, version, offset)
    return decoded
