"""The fixture `server`: the broker that behaviour and client tests talk to, in each dispatch mode.

The tests say what Kafka does, so they must hold for Apache Kafka too: BARNABAS_TESTS_AGAINST=apache-kafka runs them
against 3.9, =apache-kafka-4 against 4 (for the consumer protocol). That is how the tests themselves are proven; what
holds only for ours asks for `ours`.
"""

from __future__ import annotations

import os
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_4 import ApacheKafka4
from tests.support.barnabas_process import BarnabasProcess

AGAINST_VARIABLE = "BARNABAS_TESTS_AGAINST"
AGAINST = os.environ.get(AGAINST_VARIABLE, "")
AGAINST_KAFKA = AGAINST in ("apache-kafka", "apache-kafka-4")

MODES = (AGAINST,) if AGAINST_KAFKA else ("inline", "queue")
"""Brief requests run at once on the network thread, or every request goes through the queue."""

SERVER_PROPERTIES = {
    "num.partitions": "2",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}

Server = BarnabasProcess | ApacheKafka


def make_server(mode: str, directory: Path, **properties: str) -> Server:
    """A server that is not started yet; property names with `_` for `.`."""
    overrides = SERVER_PROPERTIES | {name.replace("_", "."): value for name, value in properties.items()}
    if mode == "apache-kafka":
        return ApacheKafka(directory, overrides)
    if mode == "apache-kafka-4":
        return ApacheKafka4(directory, overrides | {"group.consumer.assignment.interval.ms": "0"})
    # three network threads, as Kafka has them: what is shared between them must be right in every test
    ours = {"inline.requests.enable": str(mode == "inline").lower(), "num.network.threads": "3"}
    return BarnabasProcess(directory, overrides | ours)


def make_server_with_two_dirs(mode: str, directory: Path) -> Server:
    """A server that is not started yet, with the log directories a and b; its metadata lies in neither."""
    dirs = (directory / "a", directory / "b")
    if mode == "apache-kafka":
        return ApacheKafka(directory / "server", SERVER_PROPERTIES | {"log.dirs": f"{dirs[0]},{dirs[1]}"})
    metadata = directory / "metadata"
    metadata.mkdir()
    ours = {"metadata.log.dir": str(metadata), "inline.requests.enable": str(mode == "inline").lower()}
    server = BarnabasProcess(directory / "server", SERVER_PROPERTIES | ours)
    server.log_dirs = dirs
    return server


class SharedServers:
    """The servers of a test session, one a mode, started when first asked for."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._running: dict[str, Server] = {}

    def running(self, mode: str) -> Server:
        """The server of this mode; a test that harmed it must not harm the next, so a dead one is reported."""
        if mode not in self._running:
            shared = make_server(mode, self._directories.mktemp(f"server-{mode}"))
            shared.start()
            self._running[mode] = shared
        self._running[mode].fail_if_ended()
        return self._running[mode]

    def stop(self) -> None:
        """Stop them all."""
        for shared in self._running.values():
            shared.stop()


@pytest.fixture(scope="session")
def shared_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """The session's servers."""
    servers = SharedServers(tmp_path_factory)
    yield servers
    servers.stop()


@pytest.fixture(params=MODES)
def server(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Server:
    """A running server shared by the tests of a session; they keep apart by topic names."""
    return shared_servers.running(request.param)


@pytest.fixture
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, not started yet, ended after it however it was left. Mode by indirect parameter."""
    mode: str = getattr(request, "param", MODES[0])
    own = make_server(mode, tmp_path / "server")
    yield own
    own.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses."""
    return f"{request.function.__name__[:100]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Raise the limit of this process, which a broker inherits."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4096, before[0]), max(4096, before[1])))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
