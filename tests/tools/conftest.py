"""Fixtures of the tool tests: `tools` (each release), `ours`, `theirs`, and `same_steps`, which compares the two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.maven import CounterpartMissing, fetch_jars
from tests.support.requirements import need
from tests.support.server_fixtures import Server, SharedServers, shared_servers, topic
from tests.tools.kafka_tools import POMS, KafkaTools, SameSteps

__all__ = ["shared_servers", "topic"]


@pytest.fixture(scope="session", params=POMS)
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """The tools of Apache Kafka 3.9, then those of 4."""
    need_apache_kafka()
    problem = ""
    try:
        fetch_jars(POMS[request.param])
    except CounterpartMissing as missing:
        problem = str(missing)
    need(not problem, problem)
    release_tools = KafkaTools(request.param, tmp_path_factory.mktemp("tools"))
    yield release_tools
    release_tools.close()


@pytest.fixture
def ours(shared_servers: SharedServers) -> Server:
    """Our broker, shared by the session's tests."""
    return shared_servers.running("inline")


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
