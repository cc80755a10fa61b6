"""Members with a name of their own (KIP-345): a restart moves no partition, a second one ends the first.

Every library that knows static members, once as the leader of its group and once as a follower; the witness beside it
must notice nothing.
"""

from __future__ import annotations

import uuid

import pytest

from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_for_balance, wait_until
from tests.groups.group_watch import check_every_start_and_step, end_offsets, places_of, wait_until_worked_on
from tests.groups.member_libraries import (
    CONFLUENT_KAFKA,
    JAVA,
    LIBRARIES,
    Library,
    need_libraries,
)
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server

PARTITIONS = 8
SESSION_MS = 20_000
"""Longer than any restart takes."""
STATIC = [library for library in LIBRARIES if library.is_static]
FEW = {(JAVA.name, "leader"), (CONFLUENT_KAFKA.name, "follower")}
CASES = [
    pytest.param(
        library,
        role == "leader",
        id=f"{library.name}-{role}",
        marks=[] if (library.name, role) in FEW else [pytest.mark.slow],
    )
    for library in STATIC
    for role in ("leader", "follower")
]


@pytest.fixture
def name() -> str:
    """Of a group and its topic."""
    return f"static-{uuid.uuid4().hex[:8]}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("library", "leads"), CASES)
def test_a_restart_moves_nothing(server: Server, members: Members, name: str, library: Library, leads: bool) -> None:
    """Closed, or killed, and started again: it has the same partitions and goes on where it was."""
    witness_library = JAVA if library is not JAVA else CONFLUENT_KAFKA
    need_libraries([library, witness_library])
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), "range", session_ms=SESSION_MS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    feed = Feed(server, name, PARTITIONS)

    def start_subject() -> GroupMember:
        return members.start(library, plan, instance_id="subject")

    def start_witness() -> GroupMember:
        return members.start(witness_library, plan, instance_id="witness")

    first = start_subject() if leads else start_witness()
    wait_for_balance([first], places)
    subject, witness = (first, start_witness()) if leads else (start_subject(), first)
    wait_for_balance([subject, witness], places)

    held, known = subject.snapshot(), len(witness.events)
    for end in ("close", "kill"):
        if end == "close":
            subject.close()
        else:
            subject.kill()
        feed.produce(PARTITIONS * 20)
        subject = start_subject()
        subject.wait_to_hold(held)
        wait_until_worked_on(members, end_offsets(server, places))
        assert witness.events_after(known) == []
    feed.close()
    check_every_start_and_step(members.all)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "library", [pytest.param(each, id=each.name, marks=[] if each is JAVA else [pytest.mark.slow]) for each in STATIC]
)
def test_a_second_of_the_same_name_ends_the_first(
    server: Server, members: Members, name: str, library: Library
) -> None:
    """The first is fenced at its next heartbeat or commit, whatever its library then does; the second has its place."""
    need_libraries([library])
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), "range", session_ms=SESSION_MS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    first = members.start(library, plan, instance_id="twin")
    wait_for_balance([first], places)
    first.stop_running()  # so that it cannot take its name back
    second = members.start(library, plan, instance_id="twin")
    wait_for_balance([second], places)
    first.go_on()
    feed = Feed(server, name, PARTITIONS)
    with feed.flowing():
        wait_until(lambda: bool(first.failure or first.refusals), "the first is told", [second])
