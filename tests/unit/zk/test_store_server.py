"""An embedded store behind a socket with a path, as the brokers of one machine share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.transport import unix_sockets
from barnabas.zk.server.store_server import StoreServer
from barnabas.zk.store.embedded_store import EmbeddedSession, EmbeddedStore
from barnabas.zk.store.errors import NoNodeError, StoreFullError, StoreUnavailableError
from barnabas.zk.store.store import Check, Create, Operation, Outcome
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig
from barnabas.zk.zookeeper.zookeeper_store import ZookeeperStore

FULL = Create("/full", b"")


class SmallStore(EmbeddedStore):
    """A store whose disk has no room for one znode."""

    def submit(self, session: EmbeddedSession, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        if any(FULL in (each, *getattr(each, "operations", ())) for each in operations):
            refused: Future[list[Outcome]] = Future()
            refused.set_exception(StoreFullError("/full", "has no room"))
            return refused
        return super().submit(session, operations)


def config_of(path: Path) -> ZookeeperConfig:
    return ZookeeperConfig(
        connect=f"unix:{path}", session_timeout_ms=60_000, connection_timeout_ms=5_000, max_in_flight=10
    )


@pytest.fixture
def embedded() -> Iterator[EmbeddedStore]:
    embedded = SmallStore(None, SystemClock())
    embedded.start()
    yield embedded
    embedded.close()


@pytest.fixture
def session(embedded: EmbeddedStore, tmp_path: Path) -> Iterator[ZookeeperStore]:
    server = StoreServer(embedded, unix_sockets.listen(str(tmp_path / "s")))
    session = ZookeeperStore(config_of(tmp_path / "s"))
    session.start()
    yield session
    session.close()
    server.close()


def test_a_socket_is_no_server_with_a_chroot() -> None:
    config = config_of(Path("/run/a/b"))
    assert (config.socket_path, config.servers, config.chroot) == ("/run/a/b", "unix:/run/a/b", "")


def test_what_a_broker_writes_others_read(session: ZookeeperStore, embedded: EmbeddedStore) -> None:
    session.create("/a", b"1")
    other = embedded.new_session()
    assert other.get("/a").data == b"1"
    with pytest.raises(NoNodeError):
        session.get("/b")


def test_a_full_disk_is_told_and_ends_no_session(session: ZookeeperStore) -> None:
    before = session.session_id
    with pytest.raises(StoreFullError):
        session.create(FULL.path, FULL.data)
    with pytest.raises(StoreFullError):
        session.multi([Check("/", 0), FULL])
    session.create("/a", b"1")
    assert session.session_id == before


def test_a_broker_without_its_store_says_where_it_should_be(tmp_path: Path) -> None:
    session = ZookeeperStore(
        ZookeeperConfig(
            connect=f"unix:{tmp_path}/s", session_timeout_ms=6_000, connection_timeout_ms=50, max_in_flight=1
        )
    )
    with pytest.raises(StoreUnavailableError, match=rf"Last: unix:{tmp_path}/s: .*No such file"):
        session.start()
