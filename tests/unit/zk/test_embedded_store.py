"""The embedded store survives a crash. That it behaves as ZooKeeper: tests/broker/test_store_conformance.py."""

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
from barnabas.zk.store import errors
from barnabas.zk.store.embedded_store import EmbeddedSession, EmbeddedStore
from barnabas.zk.store.store import (
    NodeData,
    SessionState,
    WatchEvent,
    WatchEventType,
)
from barnabas.zk.store.znode_table import DATABASE_NAME
from tests.support.mock_clock import MockClock

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
        session.create("/b", b"x" * 1_000_000)  # more than the free pages
    assert list(session.children("/").names) == ["a"]
    table._connection.execute("PRAGMA max_page_count = 100000")
    session.create("/b", b"x" * 1_000_000)  # more than the free pages
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
