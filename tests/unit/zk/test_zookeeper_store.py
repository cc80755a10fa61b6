"""The store of a cluster when the broker stops: no call waits for a ZooKeeper that may never come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kazoo.protocol.states import KazooState, KeeperState

from barnabas.testing.znode_server import ZnodeServer
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import GetChildren
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_metrics import ZookeeperMetrics
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore

SECONDS = 30


@pytest.fixture
def store() -> Iterator[ZookeeperStore]:
    server = ZnodeServer()
    session = ZookeeperStore(
        ZookeeperConfig(
            connect=server.new_address(), session_timeout_ms=60_000, connection_timeout_ms=10_000, max_in_flight=10
        )
    )
    session.start()
    yield session
    session.close()
    server.close()


def test_the_session_is_counted_by_kafkas_names() -> None:
    """Connections, losses and expiries; the latency of each answer."""
    now_ns = iter(range(0, 10**12, 10**6))
    metrics = ZookeeperMetrics(lambda: next(now_ns))
    server = ZnodeServer()
    config = ZookeeperConfig(
        connect=server.new_address(), session_timeout_ms=60_000, connection_timeout_ms=10_000, max_in_flight=10
    )
    session = ZookeeperStore(config, metrics)
    session.start()
    try:
        session.submit([GetChildren("/"), GetChildren("/")]).result(SECONDS)
        metrics.came_into(KeeperState.CONNECTING, has_login=True)
        metrics.came_into(KeeperState.EXPIRED_SESSION, has_login=True)
        metrics.came_into(KeeperState.CONNECTED, has_login=True)
        values = {sample.name.name: sample.value for sample in metrics.samples()}
        states = [sample.name.tags for sample in metrics.samples() if sample.name.name == "SessionState"]
    finally:
        session.close()
        server.close()
    assert values["ZooKeeperSyncConnectsPerSec"] == 2
    assert values["ZooKeeperDisconnectsPerSec"] == values["ZooKeeperExpiresPerSec"] == 1
    assert values["ZooKeeperSaslAuthenticationsPerSec"] == 1
    assert values["ZooKeeperRequestLatencyMs"] == 2
    assert states == [(("value", "CONNECTED"),)]


@pytest.mark.parametrize("stops_first", [True, False])
def test_request_that_kazoo_keeps_for_the_next_connection(
    store: ZookeeperStore, monkeypatch: pytest.MonkeyPatch, stops_first: bool
) -> None:
    """kazoo fails the requests that were sent; one that it has queued and not sent stays queued when it reconnects."""
    queued = threading.Event()
    monkeypatch.setattr(store._client, "_call", lambda *_: queued.set())
    failures: list[BaseException | None] = []
    caller = threading.Thread(target=lambda: failures.append(store.submit([GetChildren("/")]).exception(0)))
    caller.start()
    assert queued.wait(SECONDS)
    if stops_first:
        assert store.stop_waiting()
        store._on_connection_state(KazooState.SUSPENDED)
    else:
        store._on_connection_state(KazooState.SUSPENDED)
        assert not store.stop_waiting()
    caller.join(SECONDS)
    assert [type(failure) for failure in failures] == [StoreUnavailableError]
