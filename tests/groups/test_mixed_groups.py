"""Seven client libraries in one group: all are given their share, as members come, leave and die; nothing is lost.

The classic protocol, with the assignors that all of them know. Whoever comes first leads: it shares out the
partitions.
"""

from __future__ import annotations

import uuid

import pytest

from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_for_balance, wait_until
from tests.groups.group_watch import (
    acknowledged_offsets,
    check_every_start_and_step,
    committed_offsets,
    count_repeated,
    end_offsets,
    places_of,
    state_of,
    wait_until_worked_on,
)
from tests.groups.member_libraries import CONFLUENT_KAFKA, FRANZ_GO, LIBRARIES, Library, need_libraries
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

PARTITIONS = 12


@pytest.fixture
def name() -> str:
    """Of a group and its topic."""
    return f"mixed-{uuid.uuid4().hex[:8]}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=pytest.mark.slow)])
def test_come_leave_die_and_resume(server: Server, members: Members, name: str, assignor: str) -> None:
    """Then the whole group leaves, and others go on exactly where it had committed."""
    need_libraries(LIBRARIES)
    places = places_of(name, PARTITIONS)
    feed = Feed(server, name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), assignor)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    with feed.flowing():
        group = {library.name: members.start(library, plan) for library in LIBRARIES}
        wait_for_balance(group.values(), places)
        group.pop("kafka-python").close()
        wait_for_balance(group.values(), places)
        group.pop("java").kill()
        wait_for_balance(group.values(), places)
        group["again"] = members.start(CONFLUENT_KAFKA, plan)
        wait_for_balance(group.values(), places)
    finish(server, members, name)

    repeated = count_repeated(members.all)
    feed.produce(PARTITIONS * 50)
    feed.close()
    second = [members.start(library, plan) for library in (FRANZ_GO, CONFLUENT_KAFKA)]
    wait_for_balance(second, places)
    finish(server, members, name)
    assert count_repeated(members.all) == repeated


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
@pytest.mark.parametrize("leader", LIBRARIES, ids=lambda library: library.name)
def test_every_library_leads(server: Server, members: Members, name: str, leader: Library, assignor: str) -> None:
    """Whichever comes first: the others take what it assigns them, and it notices when they come and go."""
    need_libraries(LIBRARIES)
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), assignor)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    feed = Feed(server, name, PARTITIONS)
    with feed.flowing():
        group = [members.start(leader, plan)]
        wait_for_balance(group, places)
        for library in LIBRARIES:
            if library is not leader:
                group.append(members.start(library, plan))
                wait_for_balance(group, places)
        while len(group) > 1:
            group.pop(1).close()
            wait_for_balance(group, places)
    finish(server, members, name)


def finish(server: Server, members: Members, name: str) -> None:
    """Wait until all records are worked on and committed, let all leave; then the rules."""
    running: list[GroupMember] = members.running()
    ends = end_offsets(server, places_of(name, PARTITIONS))
    wait_until_worked_on(members, ends)
    wait_until(lambda: acknowledged_offsets(members.all) == ends, "all commits acknowledged", running)
    for member in running:
        member.start_closing()
    for member in running:
        member.wait_for_end()
    with RawClient(server) as client:
        assert committed_offsets(client, name) == ends
        assert state_of(client, name) == "Empty"
    check_every_start_and_step(members.all)
