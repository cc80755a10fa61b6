"""Cooperative rebalances (KIP-429) never stop what is not moved.

A rebalance is made to last: one member is stopped (SIGSTOP) while another joins, so that the group waits for the
stopped one until its session ends. Meanwhile the others must go on with what they hold.
"""

from __future__ import annotations

import time
import uuid

import pytest

from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_for_balance, wait_until
from tests.groups.group_watch import (
    check_every_start_and_step,
    end_offsets,
    places_of,
    state_of,
    wait_until_worked_on,
)
from tests.groups.member_libraries import CONFLUENT_KAFKA, JAVA, LIBRARIES, Library, need_libraries
from tests.groups.members.talk import Place
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

PARTITIONS = 12
COOPERATIVE = [library for library in LIBRARIES if library.is_cooperative]


@pytest.fixture
def name() -> str:
    """Of a group and its topic."""
    return f"cooperative-{uuid.uuid4().hex[:8]}"


@pytest.mark.timeout(300)
def test_nobody_loses_what_he_keeps(server: Server, members: Members, name: str) -> None:
    """A mixed group grows and shrinks; partitions that stay where they are are never taken away, not even for a
    moment, and work on them goes on from record to record."""
    need_libraries(COOPERATIVE)
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), "cooperative-sticky")
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    feed = Feed(server, name, PARTITIONS)
    group: list[GroupMember] = []
    with feed.flowing():
        for library in COOPERATIVE:
            _while_balancing([*group, members.start(library, plan)], places)
            group = members.running()
        while len(group) > 1:
            group.pop(0).close()
            _while_balancing(group, places)
    wait_until_worked_on(members, end_offsets(server, places))
    check_every_start_and_step(members.all)


def _while_balancing(group: list[GroupMember], places: list[Place]) -> None:
    """Wait until the group is balanced again: what a member held before and after was not taken away in between."""
    before = {member.name: (member.snapshot(), len(member.events)) for member in group}
    wait_for_balance(group, places)
    for member in group:
        held, known = before[member.name]
        kept = held & member.snapshot()
        for event in member.events_after(known):
            assert not kept & event.places, f"{member} was to keep {kept & event.places}: {event}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "library",
    [pytest.param(each, id=each.name, marks=[] if each is JAVA else [pytest.mark.slow]) for each in COOPERATIVE],
)
def test_work_goes_on_during_a_rebalance(server: Server, members: Members, name: str, library: Library) -> None:
    """Records that come while the group waits for a silent member are worked on before it stops waiting."""
    need_libraries([library, CONFLUENT_KAFKA])
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), "cooperative-sticky", session_ms=15_000, commit="asked")
    feed = Feed(server, name, PARTITIONS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
        subject = members.start(library, plan)
        wait_for_balance([subject], places)
        silent = members.start(CONFLUENT_KAFKA, plan)
        wait_for_balance([subject, silent], places)

        kept = subject.snapshot()
        silent.stop_running()
        third = members.start(CONFLUENT_KAFKA, plan)
        deadline = time.monotonic() + 15
        while state_of(client, name) != "PreparingRebalance":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        feed.produce(PARTITIONS * 2, batch_records=2)
        ends = end_offsets(server, kept)
        wait_until(
            lambda: all(subject.worked_on(place, end - 1) for place, end in ends.items()),
            "the records of what it holds are worked on",
            [subject],
        )
        assert state_of(client, name) == "PreparingRebalance"

        silent.go_on()
        silent.close()
        wait_for_balance([subject, third], places)
        feed.close()
