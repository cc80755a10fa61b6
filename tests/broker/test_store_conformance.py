"""Every store behaves as ZooKeeper does where Kafka relies on it: the embedded one, and ZooKeeper through kazoo.

kazoo reaches the server of the test kit in `make test`, and Apache ZooKeeper in `make test-all`.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.testing.znode_server import ZnodeServer
from barnabas.zk.store import errors
from barnabas.zk.store.embedded_store import EmbeddedStore
from barnabas.zk.store.store import (
    Check,
    Create,
    Created,
    Delete,
    GetData,
    Multi,
    NodeData,
    SetData,
    Store,
    WatchEvent,
    WatchEventType,
)
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore
from tests.support.apache_kafka import ZooKeeper, need_apache_kafka

WAIT_SECONDS = 60


class StoreServer(ABC):
    """A store of one kind, and the sessions with it."""

    @abstractmethod
    def new_session(self) -> Store:
        """A session with the store."""

    @abstractmethod
    def close(self) -> None:
        """Stop the store, after its sessions."""


class Embedded(StoreServer):
    """The store of a single node."""

    def __init__(self) -> None:
        self._store = EmbeddedStore(None, SystemClock())
        self._store.start()

    def new_session(self) -> Store:
        return self._store.new_session()

    def close(self) -> None:
        self._store.close()


class OverKazoo(StoreServer):
    """A server of ZooKeeper's protocol, under a chroot."""

    def __init__(self, server: ZnodeServer | ZooKeeper, address: str) -> None:
        self._server = server
        self._sessions: list[ZookeeperStore] = []
        self._config = ZookeeperConfig(
            connect=f"{address}/clusters/one",
            session_timeout_ms=30_000,
            connection_timeout_ms=30_000,
            max_in_flight=10,
        )

    def new_session(self) -> Store:
        session = ZookeeperStore(self._config)
        session.start()
        self._sessions.append(session)
        return session

    def close(self) -> None:
        for session in self._sessions:
            session.close()
        self._server.close()


@pytest.fixture(params=["embedded", "kit", pytest.param("zookeeper", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServer]:
    made: StoreServer
    if request.param == "embedded":
        made = Embedded()
    elif request.param == "kit":
        kit = ZnodeServer()
        made = OverKazoo(kit, kit.address)
    else:
        need_apache_kafka()
        zookeeper = ZooKeeper(tmp_path)
        zookeeper.start()
        made = OverKazoo(zookeeper, f"{zookeeper.host}:{zookeeper.port}")
    yield made
    made.close()


@pytest.fixture
def session(server: StoreServer) -> Store:
    return server.new_session()


class Events:
    """Collects watch events, and waits for them instead of sleeping."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[WatchEvent, str]] = queue.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self._queue.put((event, threading.current_thread().name))

    def take(self, count: int) -> list[WatchEvent]:
        taken = [self._queue.get(timeout=WAIT_SECONDS) for _ in range(count)]
        assert {thread for _, thread in taken} <= {"store-watch"}
        return [event for event, _ in taken]

    def none_came(self, session: Store) -> bool:
        """Whether nothing was queued before a watch fired for this purpose is delivered."""
        marker = Events()
        path = session.create("/marker-", sequential=True).path
        session.get(path, marker)
        session.delete(path)
        marker.take(1)
        return self._queue.empty()


def test_create_get_set_delete_and_versions(session: Store) -> None:
    created = session.create("/a", b"one")
    assert (created.path, created.stat.version, created.stat.data_length) == ("/a", 0, 3)
    assert created.stat.ctime_ms > 0
    stat = session.set("/a", b"two!", 0)
    assert (stat.version, stat.czxid, stat.data_length) == (1, created.stat.czxid, 4)
    assert stat.mzxid > stat.czxid
    assert session.get("/a") == NodeData(b"two!", stat)
    with pytest.raises(errors.BadVersionError):
        session.set("/a", b"x", 0)
    with pytest.raises(errors.BadVersionError):
        session.delete("/a", 0)
    session.set("/a", b"three")
    session.delete("/a", 2)
    assert session.exists("/a") is None


def test_errors_of_the_tree(session: Store) -> None:
    for call in (
        lambda: session.create("/no/parent"),
        lambda: session.get("/no"),
        lambda: session.set("/no", b""),
        lambda: session.delete("/no"),
        lambda: session.children("/no"),
    ):
        with pytest.raises(errors.NoNodeError):
            call()
    session.create("/a")
    session.create("/a/b")
    with pytest.raises(errors.NodeExistsError):
        session.create("/a")
    with pytest.raises(errors.NotEmptyError):
        session.delete("/a")
    session.create("/e", ephemeral=True)
    with pytest.raises(errors.NoChildrenForEphemeralsError):
        session.create("/e/child")
    for path in ("a", "/a/", "//a", "/a//b", "/a/../b", "/a/.", ""):
        with pytest.raises(errors.BadArgumentsError):
            session.create(path)
    with pytest.raises(errors.BadArgumentsError):
        session.delete("/")


def test_children_are_sorted_names_and_counted(session: Store) -> None:
    session.create("/a")
    for name in ("c", "b", "a0", "a"):
        session.create(f"/a/{name}")
    session.create("/a/b/deep")
    session.create("/ab")
    session.delete("/a/c")
    children = session.children("/a")
    assert children.names == ["a", "a0", "b"]
    assert (children.stat.num_children, children.stat.cversion, children.stat.version) == (3, 5, 0)
    assert session.children("/").names == ["a", "ab"]


def test_sequential_nodes_never_reuse_a_number(session: Store) -> None:
    session.create("/q")
    assert session.create("/q/n_", sequential=True).path == "/q/n_0000000000"
    session.create("/q/other")
    assert session.create("/q/n_", sequential=True).path == "/q/n_0000000002"
    session.delete("/q/n_0000000002")
    assert session.create("/q/m", sequential=True).path == "/q/m0000000003"
    assert session.create("/q/", sequential=True).path == "/q/0000000004"


def test_transaction_ids_only_grow(session: Store) -> None:
    first = session.create("/a", ephemeral=True).stat.czxid
    session.delete("/a")
    assert session.create("/a", ephemeral=True).stat.czxid > first + 1


def test_a_batch_is_applied_in_order_and_failures_stand_alone(session: Store) -> None:
    created, missing, changed, read = session.batch(
        [Create("/a", b"1"), GetData("/b"), SetData("/a", b"2"), GetData("/a")]
    )
    assert isinstance(created, Created)
    assert isinstance(missing, errors.NoNodeError)
    assert read == NodeData(b"2", changed)  # type: ignore[arg-type]


def test_multi_is_all_or_nothing(session: Store) -> None:
    session.create("/epoch", b"1")
    seen = Events()
    session.get("/epoch", seen)
    session.exists("/controller", seen)
    with pytest.raises(errors.BadVersionError) as raised:
        session.multi([SetData("/epoch", b"2", 0), Create("/controller"), Check("/epoch", 7)])
    assert raised.value.operation_index == 2
    assert session.get("/epoch").data == b"1"
    assert session.exists("/controller") is None
    assert seen.none_came(session)

    results = session.multi(
        [Create("/controller"), SetData("/epoch", b"2", 0), Delete("/controller"), Check("/epoch", 1)]
    )
    assert isinstance(results[0], Created)
    assert session.get("/epoch").data == b"2"
    # both watches outlived the Multi that failed
    assert seen.take(2) == [
        WatchEvent(WatchEventType.CREATED, "/controller"),
        WatchEvent(WatchEventType.DATA_CHANGED, "/epoch"),
    ]


def test_a_failed_multi_leaves_the_rest_of_its_batch(session: Store) -> None:
    outcomes = session.batch([Create("/a"), Multi((Create("/b"), Create("/a"))), Create("/c")])
    assert [isinstance(outcome, errors.StoreError) for outcome in outcomes] == [False, True, False]
    assert session.children("/").names == ["a", "c"]


def test_watches_fire_once_and_in_order(session: Store) -> None:
    seen = Events()
    session.create("/a")
    assert session.exists("/b", seen) is None
    session.get("/a", seen)
    session.get("/a", seen)  # the same watch twice is one watch
    session.children("/", seen)
    session.set("/a", b"x")
    session.set("/a", b"y")
    session.create("/b")
    session.create("/c")
    assert seen.take(3) == [
        WatchEvent(WatchEventType.DATA_CHANGED, "/a"),
        WatchEvent(WatchEventType.CREATED, "/b"),
        WatchEvent(WatchEventType.CHILDREN_CHANGED, "/"),
    ]
    assert seen.none_came(session)


def test_deletion_fires_data_and_child_watches_once(session: Store) -> None:
    session.create("/a")
    both, data = Events(), Events()
    session.get("/a", both)
    session.children("/a", both)
    session.exists("/a", data)
    session.delete("/a")
    assert both.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]
    assert data.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]
    assert both.none_came(session)


def test_no_watch_on_a_failed_read(session: Store) -> None:
    seen = Events()
    with pytest.raises(errors.NoNodeError):
        session.get("/a", seen)
    session.create("/a")
    assert seen.none_came(session)


def test_a_watch_may_use_the_store(session: Store) -> None:
    found: queue.Queue[bytes] = queue.Queue()
    session.create("/a", b"1")
    session.get("/a", lambda event: found.put(session.get(event.path).data))
    session.set("/a", b"2")
    assert found.get(timeout=WAIT_SECONDS) == b"2"


def test_a_failing_watch_does_not_stop_the_others(session: Store) -> None:
    def fails(event: WatchEvent) -> None:
        raise RuntimeError("on purpose")

    seen = Events()
    session.create("/a")
    session.get("/a", fails)
    session.get("/a", seen)
    session.delete("/a")
    assert seen.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]


def test_ephemerals_end_with_their_session(server: StoreServer, session: Store) -> None:
    other = server.new_session()
    stat = other.create("/broker", ephemeral=True).stat
    assert stat.ephemeral_owner == other.session_id != session.session_id
    seen, own = Events(), Events()
    session.exists("/broker", seen)
    other.exists("/broker", own)
    other.close()
    assert seen.take(1) == [WatchEvent(WatchEventType.DELETED, "/broker")]
    assert own.none_came(session)  # a closed session's watches never fire
    with pytest.raises(errors.StoreUnavailableError):
        other.create("/late")
