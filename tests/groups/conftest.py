"""Fixtures of the group exams: a broker as groups need it, and the members of one test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.groups.group_member import Members, members_in
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_kafka_4 import ApacheKafka4, need_apache_kafka_4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import MODES, Server
from tests.support.server_process import free_port

PROPERTIES = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Members of the consumer protocol have no times of their own: they get the broker's."""


def make_group_server(
    mode: str, directory: Path, protocol: str = "classic", properties: Mapping[str, str] = PROPERTIES
) -> Server:
    """A server that is not started yet, and comes back at the same port; Apache Kafka of a release that knows it."""
    if mode == "apache-kafka":
        if protocol == "classic":
            return ApacheKafka(directory, properties)
        need_apache_kafka_4()
        return ApacheKafka4(directory, properties)
    ours = {"inline.requests.enable": str(mode == "inline").lower(), "num.network.threads": "3"}
    return BarnabasProcess(directory, dict(properties) | ours, port=free_port())


@pytest.fixture(params=MODES, scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server for the tests of a module; they keep apart by the names of topics and groups."""
    shared = make_group_server(request.param, tmp_path_factory.mktemp(f"server-{request.param}"))
    shared.start()
    yield shared
    shared.close()


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    """The members of a test; none is left behind."""
    with members_in(tmp_path) as mine:
        yield mine
