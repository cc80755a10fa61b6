"""The broker is killed (-9) and comes back: groups come back by themselves, and no acknowledged commit is forgotten."""

from __future__ import annotations

import random
import time
import uuid

import pytest

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
from tests.groups.member_libraries import FRANZ_GO, JAVA, KAFKA_PYTHON, LIBRARIES, Library, need_libraries
from tests.groups.members.talk import Place
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

PARTITIONS = 12
DEAD_SECONDS = 1
ZOOKEEPER_SESSION_SECONDS = 20
"""Apache Kafka does not start again before its ZooKeeper has given it up."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("libraries", "kills"),
    [
        pytest.param((KAFKA_PYTHON, FRANZ_GO, JAVA), 1, id="sample"),
        pytest.param(LIBRARIES, 6, id="full", marks=pytest.mark.slow),
    ],
)
def test_groups_come_back(own_server: Server, members: Members, libraries: tuple[Library, ...], kills: int) -> None:
    """The same members share the same partitions again, and all that was produced is worked on and committed."""
    need_libraries(libraries)
    name = f"killed-{uuid.uuid4().hex[:8]}"
    places = places_of(name, PARTITIONS)
    chance = random.Random(3)
    with RawClient(own_server) as client:
        client.create_topic(name, PARTITIONS)
    plan = Plan(own_server.bootstrap_servers, name, (name,))
    group = [members.start(library, plan) for library in libraries]
    wait_for_balance(group, places)
    feed = Feed(own_server, name, PARTITIONS)
    with feed.flowing():
        for _ in range(kills):
            _wait_for_commits(group, places)
            time.sleep(chance.random())
            own_server.kill()
            acknowledged = acknowledged_offsets(group)
            time.sleep(ZOOKEEPER_SESSION_SECONDS if isinstance(own_server, ApacheKafka) else DEAD_SECONDS)
            own_server.start()
            _check_nothing_forgotten(own_server, name, acknowledged)
            wait_for_balance(group, places)
    ends = end_offsets(own_server, places)
    wait_until_worked_on(members, ends)
    wait_until(lambda: acknowledged_offsets(group) == ends, "all commits acknowledged", group)
    with RawClient(own_server) as client:
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
