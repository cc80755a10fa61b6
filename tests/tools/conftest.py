"""Fixtures of the tool tests: `tools` (each release), `ours`, `theirs`, and `same_steps`, which compares the two.

`same_group_steps` compares with Kafka of the tools' own release: 4 knows groups that 3.9 does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.apache_kafka_4 import ApacheKafka4
from tests.support.maven import counterparts_needed, fetch_jars
from tests.support.server_fixtures import (
    MODES,
    SERVER_PROPERTIES,
    Server,
    SharedServers,
    make_server,
    shared_servers,
    topic,
)
from tests.tools.kafka_tools import POMS, KafkaTools, SameSteps

__all__ = ["shared_servers", "topic"]

ASSIGN_AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
"""Kafka 4.3 waits a second between two assignments of a group; 3.9 does not know the setting."""


@pytest.fixture(scope="session", params=POMS)
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """The tools of Apache Kafka 3.9, then those of 4."""
    need_apache_kafka()
    with counterparts_needed():
        fetch_jars(POMS[request.param])
    release_tools = KafkaTools(request.param, tmp_path_factory.mktemp("tools"))
    yield release_tools
    release_tools.close()


@pytest.fixture
def ours(shared_servers: SharedServers) -> Server:
    """Our broker, shared by the session's tests."""
    return shared_servers.running(MODES[0])


@pytest.fixture
def theirs(shared_servers: SharedServers) -> ApacheKafka:
    """Apache Kafka 3.9 in ZooKeeper mode, shared by the session's tests."""
    need_apache_kafka()
    kafka = shared_servers.running("apache-kafka")
    assert isinstance(kafka, ApacheKafka)
    return kafka


@pytest.fixture
def same_steps(tools: KafkaTools, ours: Server, theirs: ApacheKafka) -> SameSteps:
    """Runs a step on both."""
    return SameSteps(tools, ours, theirs)


@pytest.fixture(scope="session")
def same_release(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Apache Kafka of the tools' release, for the tests of groups alone."""
    server_class = ApacheKafka4 if tools.release == "4" else ApacheKafka
    kafka = server_class(tmp_path_factory.mktemp(f"apache-kafka-{tools.release}"), SERVER_PROPERTIES | ASSIGN_AT_ONCE)
    with kafka.running():
        yield kafka


@pytest.fixture(scope="session")
def ours_for_release(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our broker beside it, with the same groups and no others."""
    server = make_server(MODES[0], tmp_path_factory.mktemp(f"ours-{tools.release}"))
    with server.running():
        yield server


@pytest.fixture
def same_group_steps(tools: KafkaTools, ours_for_release: Server, same_release: ApacheKafka) -> SameSteps:
    """Runs a step about groups on both."""
    return SameSteps(tools, ours_for_release, same_release)
