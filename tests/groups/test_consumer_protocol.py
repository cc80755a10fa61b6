"""Groups of the consumer protocol (KIP-848): the libraries that speak it in one group, whose coordinator assigns.

BARNABAS_TESTS_AGAINST=apache-kafka runs these against Apache Kafka 4.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

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
from tests.groups.member_libraries import BARNABAS, CONFLUENT_KAFKA, CONSUMER_SPEAKERS, JAVA, Library, need_libraries
from tests.groups.members.talk import Place
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import MODES, Server

PARTITIONS = 12
STATIC_SPEAKERS = (CONFLUENT_KAFKA, JAVA, BARNABAS)
"""franz-go 1.22 leaves so that Apache Kafka 4.3 does not hear it either, and is refused until its old session ends."""


@pytest.fixture(params=MODES, scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server for the tests of this module."""
    shared = make_group_server(request.param, tmp_path_factory.mktemp(f"server-{request.param}"), "consumer")
    shared.start()
    yield shared
    shared.close()


@pytest.fixture
def name() -> str:
    """Of a group and its topic."""
    return f"consumer-{uuid.uuid4().hex[:8]}"


@pytest.mark.timeout(300)
def test_come_leave_die_and_resume(server: Server, members: Members, name: str) -> None:
    """What is not moved is never taken away; nothing is lost; others go on where the group had committed."""
    need_libraries(CONSUMER_SPEAKERS)
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), protocol="consumer")
    feed = Feed(server, name, PARTITIONS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    group: list[GroupMember] = []
    with feed.flowing():
        for library in CONSUMER_SPEAKERS:
            group.append(members.start(library, plan))
            wait_for_balance(group, places)
        group.pop(0).close()
        wait_for_balance(group, places)
        group.pop(0).kill()
        wait_for_balance(group, places)
        group.append(members.start(CONFLUENT_KAFKA, plan))
        wait_for_balance(group, places)
    _finish(server, members, name, places)

    feed.produce(PARTITIONS * 50)
    feed.close()
    second = [members.start(library, plan) for library in CONSUMER_SPEAKERS]
    wait_for_balance(second, places)
    _finish(server, members, name, places)


def _finish(server: Server, members: Members, name: str, places: list[Place]) -> None:
    ends = end_offsets(server, places)
    wait_until_worked_on(members, ends)
    wait_until(lambda: acknowledged_offsets(members.all) == ends, "all commits acknowledged", members.running())
    for member in members.running():
        member.close()
    with RawClient(server) as client:
        assert committed_offsets(client, name) == ends
    check_every_start_and_step(members.all)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "library",
    [pytest.param(each, id=each.name, marks=[] if each is JAVA else [pytest.mark.slow]) for each in STATIC_SPEAKERS],
)
def test_a_static_member_comes_back(server: Server, members: Members, name: str, library: Library) -> None:
    """Its partitions wait for it: nobody is given them while it is away for less than its session."""
    need_libraries([library, CONFLUENT_KAFKA])
    places = places_of(name, PARTITIONS)
    plan = Plan(server.bootstrap_servers, name, (name,), protocol="consumer")
    feed = Feed(server, name, PARTITIONS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    subject = members.start(library, plan, instance_id="subject")
    wait_for_balance([subject], places)
    witness = members.start(CONFLUENT_KAFKA, plan, instance_id="witness")
    wait_for_balance([subject, witness], places)

    held, known = subject.snapshot(), len(witness.events)
    subject.close()
    feed.produce(PARTITIONS * 20)
    feed.close()
    subject = members.start(library, plan, instance_id="subject")
    subject.wait_to_hold(held)
    wait_until_worked_on(members, end_offsets(server, places))
    assert witness.events_after(known) == []
    check_every_start_and_step(members.all)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_members_of_both_protocols(server: Server, members: Members, name: str) -> None:
    """A group moves to the new protocol and back, a member at a time; nothing is lost on the way."""
    need_libraries(CONSUMER_SPEAKERS)
    places = places_of(name, PARTITIONS)
    classic = Plan(server.bootstrap_servers, name, (name,), "range")
    plans = {"classic": classic, "consumer": classic._replace(protocol="consumer")}
    feed = Feed(server, name, PARTITIONS)
    with RawClient(server) as client:
        client.create_topic(name, PARTITIONS)
    with feed.flowing():
        group = [members.start(library, classic) for library in CONSUMER_SPEAKERS]
        wait_for_balance(group, places)
        for protocol in ("consumer", "classic"):
            for library in CONSUMER_SPEAKERS:
                group.pop(0).close()
                group.append(members.start(library, plans[protocol]))
                wait_for_balance(group, places)
    _finish(server, members, name, places)
