"""The embedded store behaves as ZooKeeper does where Kafka relies on it, and survives a crash."""

from __future__ import annotations

import multiprocessing
import queue
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.zk import errors
from barnabas.zk.embedded_store import EmbeddedSession, EmbeddedStore
from barnabas.zk.store import (
    Check,
    Create,
    Created,
    Delete,
    GetData,
    Multi,
    NodeData,
    SessionState,
    SetData,
    WatchEvent,
    WatchEventType,
)
from barnabas.zk.znode_table import DATABASE_NAME
from tests.support.mock_clock import START_MILLISECONDS, MockClock

WAIT_SECONDS = 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(str(tmp_path), MockClock())
    made.start()
    yield made
    made.close()


@pytest.fixture
def session(store: EmbeddedStore) -> EmbeddedSession:
    return store.new_session()


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

    def none_came(self, session: EmbeddedSession) -> bool:
        """Whether nothing was queued before a watch fired for this purpose is delivered."""
        marker = Events()
        path = session.create("/marker-", sequential=True).path
        session.get(path, marker)
        session.delete(path)
        marker.take(1)
        return self._queue.empty()


def test_create_get_set_delete_and_versions(session: EmbeddedSession) -> None:
    created = session.create("/a", b"one")
    assert (created.path, created.stat.version, created.stat.data_length) == ("/a", 0, 3)
    assert created.stat.ctime_ms == START_MILLISECONDS
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


def test_errors_of_the_tree(session: EmbeddedSession) -> None:
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


def test_children_are_sorted_names_and_counted(session: EmbeddedSession) -> None:
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


def test_sequential_nodes_never_reuse_a_number(session: EmbeddedSession) -> None:
    session.create("/q")
    assert session.create("/q/n_", sequential=True).path == "/q/n_0000000000"
    session.create("/q/other")
    assert session.create("/q/n_", sequential=True).path == "/q/n_0000000002"
    session.delete("/q/n_0000000002")
    assert session.create("/q/m", sequential=True).path == "/q/m0000000003"
    assert session.create("/q/", sequential=True).path == "/q/0000000004"


def test_transaction_ids_only_grow(session: EmbeddedSession) -> None:
    first = session.create("/a", ephemeral=True).stat.czxid
    session.delete("/a")
    assert session.create("/a", ephemeral=True).stat.czxid > first + 1


def test_a_batch_is_applied_in_order_and_failures_stand_alone(session: EmbeddedSession) -> None:
    created, missing, changed, read = session.batch(
        [Create("/a", b"1"), GetData("/b"), SetData("/a", b"2"), GetData("/a")]
    )
    assert isinstance(created, Created)
    assert isinstance(missing, errors.NoNodeError)
    assert read == NodeData(b"2", changed)  # type: ignore[arg-type]


def test_multi_is_all_or_nothing(session: EmbeddedSession) -> None:
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


def test_a_failed_multi_leaves_the_rest_of_its_batch(session: EmbeddedSession) -> None:
    outcomes = session.batch([Create("/a"), Multi((Create("/b"), Create("/a"))), Create("/c")])
    assert [isinstance(outcome, errors.StoreError) for outcome in outcomes] == [False, True, False]
    assert session.children("/").names == ["a", "c"]


def test_watches_fire_once_and_in_order(session: EmbeddedSession) -> None:
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


def test_deletion_fires_data_and_child_watches_once(session: EmbeddedSession) -> None:
    session.create("/a")
    both, data = Events(), Events()
    session.get("/a", both)
    session.children("/a", both)
    session.exists("/a", data)
    session.delete("/a")
    assert both.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]
    assert data.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]
    assert both.none_came(session)


def test_no_watch_on_a_failed_read(session: EmbeddedSession) -> None:
    seen = Events()
    with pytest.raises(errors.NoNodeError):
        session.get("/a", seen)
    session.create("/a")
    assert seen.none_came(session)


def test_a_watch_may_use_the_store(session: EmbeddedSession) -> None:
    found: queue.Queue[bytes] = queue.Queue()
    session.create("/a", b"1")
    session.get("/a", lambda event: found.put(session.get(event.path).data))
    session.set("/a", b"2")
    assert found.get(timeout=WAIT_SECONDS) == b"2"


def test_a_failing_watch_does_not_stop_the_others(session: EmbeddedSession) -> None:
    def fails(event: WatchEvent) -> None:
        raise RuntimeError("on purpose")

    seen = Events()
    session.create("/a")
    session.get("/a", fails)
    session.get("/a", seen)
    session.delete("/a")
    assert seen.take(1) == [WatchEvent(WatchEventType.DELETED, "/a")]


def test_ephemerals_end_with_their_session(store: EmbeddedStore, session: EmbeddedSession) -> None:
    other = store.new_session()
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


def test_an_expired_session_is_replaced(store: EmbeddedStore, session: EmbeddedSession) -> None:
    states: queue.Queue[SessionState] = queue.Queue()
    session.add_session_listener(states.put)
    before = session.session_id
    session.create("/mine", ephemeral=True)
    session.create("/kept")
    session.expire()
    assert [states.get(timeout=WAIT_SECONDS) for _ in range(2)] == [SessionState.EXPIRED, SessionState.RECONNECTED]
    assert session.session_id != before
    assert session.children("/").names == ["kept"]


def test_reopening_keeps_persistent_znodes_only(tmp_path: Path) -> None:
    first = EmbeddedStore(str(tmp_path), MockClock())
    first.start()
    session = first.new_session()
    session.create("/kept", b"data")
    stat = session.set("/kept", b"more")
    epoch = session.create("/broker", ephemeral=True).stat.czxid
    first.close()
    first.close()

    second = EmbeddedStore(str(tmp_path), MockClock())
    second.start()
    session = second.new_session()
    assert session.get("/kept") == NodeData(b"more", stat)
    assert session.exists("/broker") is None
    assert session.create("/broker", ephemeral=True).stat.czxid > epoch  # the broker epoch must grow
    second.close()


def test_a_copy_taken_while_it_runs_opens(tmp_path: Path) -> None:
    """What a kill -9 leaves: the files as they are, with an unfinished write-ahead log."""
    running = EmbeddedStore(str(tmp_path / "live"), MockClock())
    (tmp_path / "live").mkdir()
    running.start()
    session = running.new_session()
    for number in range(20):
        session.create(f"/kept-{number}", b"x" * 1000)
    session.create("/broker", ephemeral=True)
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    running.close()

    log = tmp_path / "copy" / f"{DATABASE_NAME}-wal"
    torn = log.read_bytes()[:-700]  # the last transaction (the ephemeral) is torn
    log.write_bytes(torn)
    recovered = EmbeddedStore(str(tmp_path / "copy"), MockClock())
    recovered.start()
    assert len(recovered.new_session().children("/").names) == 20
    recovered.close()


def _hold_store(directory: str, connection: Connection) -> None:
    store = EmbeddedStore(directory, SystemClock())
    store.start()
    connection.send("open")
    connection.recv()
    store.close()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold_store, args=(str(tmp_path), theirs))
    process.start()
    try:
        assert ours.recv() == "open"
        with pytest.raises(errors.StoreLockedError, match="in use by another process"):
            EmbeddedStore(str(tmp_path), SystemClock()).start()
    finally:
        ours.send("done")
        process.join()
    reopened = EmbeddedStore(str(tmp_path), SystemClock())
    reopened.start()
    reopened.close()


def test_unusable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"this is no database" * 100)
    with pytest.raises(errors.StoreUnavailableError, match=DATABASE_NAME):
        EmbeddedStore(str(tmp_path), MockClock()).start()
    with pytest.raises(errors.StoreUnavailableError, match="can't be opened"):
        EmbeddedStore(str(tmp_path / "missing"), MockClock()).start()


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / DATABASE_NAME)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(errors.StoreUnavailableError, match="has format 9"):
        EmbeddedStore(str(tmp_path), MockClock()).start()


def test_a_failing_disk_is_reported_once_and_stops_writes(tmp_path: Path) -> None:
    failures: queue.Queue[BaseException] = queue.Queue()
    store = EmbeddedStore(str(tmp_path), MockClock(), failures.put)
    store.start()
    session = store.new_session()
    session.create("/a")
    table = store._table
    assert table is not None
    table._connection.execute("ALTER TABLE znode RENAME TO gone")
    with pytest.raises(errors.StoreUnavailableError, match="no such table"):
        session.create("/b", b"x" * 100_000)
    assert isinstance(failures.get(timeout=WAIT_SECONDS), sqlite3.Error)
    with pytest.raises(errors.StoreUnavailableError):
        session.get("/a")
    store.close()
    assert failures.empty()


def test_a_full_disk_refuses_a_change_and_no_more(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    store = EmbeddedStore(str(tmp_path), MockClock(), failures.append)
    store.start()
    session = store.new_session()
    session.create("/a")
    events: queue.Queue[WatchEvent] = queue.Queue()
    session.children("/", events.put)
    table = store._table
    assert table is not None
    table._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(errors.StoreFullError, match="full"):
        session.create("/b", b"x" * 100_000)
    assert list(session.children("/").names) == ["a"]
    table._connection.execute("PRAGMA max_page_count = 100000")
    session.create("/b", b"x" * 100_000)
    assert sorted(session.children("/").names) == ["a", "b"]
    assert events.get(timeout=WAIT_SECONDS) == WatchEvent(WatchEventType.CHILDREN_CHANGED, "/")
    assert events.empty()
    store.close()
    assert not failures


def test_calls_after_close_fail(tmp_path: Path) -> None:
    store = EmbeddedStore(None, MockClock())
    store.start()
    session = store.new_session()
    session.create("/a")
    store.close()
    with pytest.raises(errors.StoreUnavailableError):
        session.get("/a")
    session.close()


def test_many_threads_share_a_session(session: EmbeddedSession) -> None:
    session.create("/n", b"0")

    def increment() -> None:
        for _ in range(20):
            while True:
                node = session.get("/n")
                try:
                    session.set("/n", str(int(node.data) + 1).encode(), node.stat.version)
                    break
                except errors.BadVersionError:
                    continue

    threads = [threading.Thread(target=increment) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.get("/n").data == b"80"
