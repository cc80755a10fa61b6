"""Several real brokers for tests: `with cluster(3) as c: ... c.bootstrap_servers; c.kill(1)`.

Used by users' tests and by the project's own, on the caller's thread. Each broker is a BrokerProcess; they share a
ZnodeServer in the process of the test, which stands for ZooKeeper.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from barnabas.testing.broker_command import Setting
from barnabas.testing.broker_probe import known_brokers
from barnabas.testing.broker_process import (
    PLAINTEXT,
    START_TIMEOUT_SECONDS,
    BrokerFailed,
    BrokerProcess,
    data_dir_problems,
)
from barnabas.testing.broker_security import security_of
from barnabas.testing.network_splits import NetworkSplits
from barnabas.testing.znode_server import ZnodeServer
from barnabas.zk.broker_zk_data import BrokerIdZNode, ControllerZNode
from barnabas.zk.errors import NoNodeError

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
        self._splits = NetworkSplits(self.brokers)

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
        """Lose one direction: no request of `source` reaches `target` any more. Raises BrokerFailed, ValueError."""
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
            while (known := known_brokers(broker, START_TIMEOUT_SECONDS)) != running.keys():
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
