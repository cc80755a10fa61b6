"""The broker is killed (-9) and comes back: groups come back by themselves, and no acknowledged commit is forgotten."""

from __future__ import annotations

import random
import time
import uuid
from pathlib import Path

import pytest

from tests.groups.conftest import make_group_server
from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_for_balance, wait_until
from tests.groups.group_watch import (
    acknowledged_offsets,
    check_every_start_and_step,
    committed_offsets,
    end_offsets,
    places_of,
    wait_until_worked_on,
)
from tests.groups.member_libraries import (
    CONSUMER_SPEAKERS,
    FRANZ_GO,
    JAVA,
    KAFKA_PYTHON,
    LIBRARIES,
    Library,
    need_libraries,
)
from tests.groups.members.talk import Place
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import MODES, Server

PARTITIONS = 12
DEAD_SECONDS = 1
ZOOKEEPER_SESSION_SECONDS = 20
"""Apache Kafka does not start again before its ZooKeeper has given it up."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("protocol", "libraries", "kills"),
    [
        pytest.param("classic", (KAFKA_PYTHON, FRANZ_GO, JAVA), 1, id="classic-sample"),
        pytest.param("classic", LIBRARIES, 6, id="classic-full", marks=pytest.mark.slow),
        pytest.param("consumer", CONSUMER_SPEAKERS, 6, id="consumer-full", marks=pytest.mark.slow),
    ],
)
def test_groups_come_back(
    tmp_path: Path, members: Members, mode: str, protocol: str, libraries: tuple[Library, ...], kills: int
) -> None:
    """The same members share the same partitions again, and all that was produced is worked on and committed."""
    need_libraries(libraries)
    server = make_group_server(mode, tmp_path / "server", protocol)
    with server.running():
        _kill_and_watch(server, members, protocol, libraries, kills)


def _kill_and_watch(
    server: Server, members: Members, protocol: str, libraries: tuple[Library, ...], kills: int
) -> None:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    places = places_of(name, PARTITIONS)
    chance = random.Random(3)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), protocol=protocol)
    group = [members.start(library, plan) for library in libraries]
    wait_for_balance(group, places)
    feed = Feed(server, name, PARTITIONS)
    with feed.flowing():
        for number in range(kills):
            _wait_for_commits(group, places)
            time.sleep(chance.random())
            if number % 3 == 2:
                server.stop()  # as it should be; members hear of it in another way
            else:
                server.kill()
            acknowledged = acknowledged_offsets(group)
            time.sleep(ZOOKEEPER_SESSION_SECONDS if isinstance(server, ApacheKafka) else DEAD_SECONDS)
            server.start()
            _check_nothing_forgotten(server, name, acknowledged)
            wait_for_balance(group, places)
    ends = end_offsets(server, places)
    wait_until_worked_on(members, ends)
    wait_until(lambda: acknowledged_offsets(group) == ends, "all commits acknowledged", group)
    with RawClient(server) as client:
        assert committed_offsets(client, name) == ends
    check_every_start_and_step(group)


def _wait_for_commits(group: list[GroupMember], places: list[Place]) -> None:
    """Wait until an offset of every partition was committed after now."""
    before = acknowledged_offsets(group)

    def have_moved() -> bool:
        now = acknowledged_offsets(group)
        return all(now.get(place, 0) > before.get(place, 0) for place in places)

    wait_until(have_moved, "every partition is committed again", group)


def _check_nothing_forgotten(server: Server, group: str, acknowledged: dict[Place, int]) -> None:
    """Every offset is at least what had been acknowledged when the broker was killed."""
    with RawClient(server) as client:
        committed = committed_offsets(client, group)
    for place, offset in acknowledged.items():
        assert committed.get(place, -1) >= offset, f"{place}: {committed.get(place)} though {offset} was acknowledged"
