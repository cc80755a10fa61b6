"""Three stages of consume, process and produce, each a group, with members that join, leave and die at random.

Every record must arrive behind the third stage. At least once: a record may come twice only where a member died or was
refused before its commit was acknowledged.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator

import pytest

from barnabas.records.record_batch import batches
from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_for_balance, wait_until
from tests.groups.group_watch import (
    check_every_start_and_step,
    count_repeated,
    end_offsets,
    missing_places,
    places_of,
)
from tests.groups.member_libraries import LIBRARIES, Library, need_libraries
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import Server

PARTITIONS = 6
STAGES = 3
MOST_MEMBERS = 4
DONE_SECONDS = 300
IN_HAND_RECORDS = 600
"""More than a member has in hand when it is killed: what it produced then, nobody has told of."""


class Stage:
    """A group between two topics."""

    def __init__(self, members: Members, server: Server, name: str, number: int) -> None:
        self.topic, self.sink = f"{name}-{number}", f"{name}-{number + 1}"
        self.places = places_of(self.topic, PARTITIONS)
        self.all: list[GroupMember] = []
        self.killed = 0
        self._members = members
        self._plan = Plan(server.bootstrap_servers, self.topic, (self.topic,), "range", sink=self.sink)

    @property
    def running(self) -> list[GroupMember]:
        """The members that were not told to end."""
        return [member for member in self.all if member.is_running]

    def join(self, library: Library) -> None:
        """Start one more member."""
        self.all.append(self._members.start(library, self._plan))

    def disturb(self, chance: random.Random) -> None:
        """A member comes, leaves or dies."""
        running = self.running
        what = chance.choice(("join", "leave", "kill") if len(running) > 1 else ("join",))
        if what == "join" and len(running) < MOST_MEMBERS:
            self.join(chance.choice(LIBRARIES))
        elif what == "kill":
            chance.choice(running).kill()
            self.killed += 1
        elif len(running) > 1:
            chance.choice(running).start_closing()

    def wait_until_done(self, server: Server) -> None:
        """Wait until all that is in its topic was worked on."""
        ends = end_offsets(server, self.places)
        wait_until(
            lambda: not missing_places(self.all, ends), f"{ends} worked on", self._members.running(), DONE_SECONDS
        )


@pytest.fixture
def name() -> str:
    """What the names of topics and groups begin with."""
    return f"chain-{uuid.uuid4().hex[:8]}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("records", "disturbances", "seed"),
    [
        pytest.param(3_000, 4, 1, id="sample"),
        pytest.param(100_000, 60, 2, id="full", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost_on_the_way(
    server: Server, members: Members, name: str, records: int, disturbances: int, seed: int
) -> None:
    """Every value that went in comes out."""
    need_libraries(LIBRARIES)
    chance = random.Random(seed)
    feed = Feed(server, f"{name}-0", PARTITIONS)
    with RawClient(server) as client:
        for number in range(STAGES + 1):
            client.create_topic(f"{name}-{number}", PARTITIONS)
    stages = [Stage(members, server, name, number) for number in range(STAGES)]
    shuffled = chance.sample(LIBRARIES, len(LIBRARIES))
    for index, library in enumerate(shuffled):
        stages[index % STAGES].join(library)
    for stage in stages:
        wait_for_balance(stage.all, stage.places)

    for _ in range(disturbances):
        feed.produce(records // disturbances, batch_records=100)
        chance.choice(stages).disturb(chance)
        time.sleep(chance.random())
    feed.produce(records - feed.produced)
    feed.close()
    for stage in stages:
        stage.wait_until_done(server)

    assert set(_values(server, f"{name}-{STAGES}")) == set(range(records))
    for stage in stages:
        check_every_start_and_step(stage.all)
        _check_every_copy_has_its_reason(server, stage)


def _check_every_copy_has_its_reason(server: Server, stage: Stage) -> None:
    came = sum(end_offsets(server, stage.places).values())
    went = sum(end_offsets(server, places_of(stage.sink, PARTITIONS)).values())
    assert went - came <= count_repeated(stage.all) + stage.killed * IN_HAND_RECORDS
    if not stage.killed and not any(member.refusals for member in stage.all):
        assert went == came


def _values(server: Server, topic: str) -> Iterator[int]:
    """Every value of a topic."""
    with RawClient(server) as client:
        for place in places_of(topic, PARTITIONS):
            end = client.end_offset(*place)
            reached = 0
            while reached < end:
                fetched = client.fetch(topic, reached, partition=place[1])
                for batch in batches(record_bytes(fetched)):
                    for record in batch.records():
                        if record.offset >= reached:  # a batch comes whole
                            reached = record.offset + 1
                            yield int(record.value or b"")
