"""Fixtures of the broker tests."""

import uuid
from collections.abc import Iterator

import pytest

from barnabas.testing import BrokerProcess, Cluster, broker, cluster
from barnabas.zk.store.store import Store
from tests.support.command_line import Run, run_against
from tests.support.raw_client import RawClient
from tests.support.raw_group_member import await_coordinator
from tests.support.server_fixtures import (
    MODES,
    Server,
    make_server,
    many_descriptors,
    own_server,
    server,
    shared_servers,
    topic,
)

__all__ = ["many_descriptors", "own_server", "server", "shared_servers", "topic"]


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    """A connection to the shared server."""
    with RawClient(server) as connected:
        yield connected


@pytest.fixture
def group(client: RawClient) -> str:
    """A group id nobody else uses, whose coordinator is there."""
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    await_coordinator(client, group_id)
    return group_id


@pytest.fixture(scope="module", params=MODES)
def ruled_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that only a module's tests use: they depose its controller, or are taken for a broker by it."""
    server = make_server(request.param, tmp_path_factory.mktemp("ruled"))
    with server.running():
        yield server


# -- the command


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    """A broker of the test kit, for a module's tests."""
    with broker(auto_create_topics_enable=False) as process:
        yield process


@pytest.fixture
def run(running: BrokerProcess) -> Run:
    """The command, against this broker."""
    return run_against(running.bootstrap_servers)


# -- clusters


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three brokers, all of which run again after each test."""
    # A frozen broker stays registered however slow the machine is. A dead one is gone at once all the same.
    with cluster(3, auto_create_topics_enable=False, zookeeper_session_timeout_ms=300_000) as running:
        yield running


@pytest.fixture
def store(three: Cluster) -> Iterator[Store]:
    session = three.store.session()
    yield session
    session.close()
