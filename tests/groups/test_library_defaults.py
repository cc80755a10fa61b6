"""Every library as it comes: its own assignors, its own commits; a broker with Kafka's defaults.

Each reads a topic in a group of its own and leaves; the next member of that group has nothing to read again.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.groups.conftest import make_group_server
from tests.groups.feed import Feed
from tests.groups.group_member import GroupMember, Members, Plan, wait_until
from tests.groups.group_watch import committed_offsets, end_offsets, places_of, ranges_of
from tests.groups.member_libraries import LIBRARIES, need_libraries
from tests.groups.members.talk import Place
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import MODES

PARTITIONS = 3


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_what_was_read_is_committed(tmp_path: Path, members: Members, mode: str) -> None:
    """At the latest when a member leaves."""
    need_libraries(LIBRARIES)
    topic = f"defaults-{uuid.uuid4().hex[:8]}"
    places = places_of(topic, PARTITIONS)
    server = make_group_server(mode, tmp_path / "server", properties={})
    with server.running():
        with RawClient(server) as client:
            client.create_topic(topic, PARTITIONS)
        feed = Feed(server, topic, PARTITIONS)
        plan = Plan(server.bootstrap_servers, "", (topic,), assignor="", commit="auto", session_ms=30_000)
        starts = dict.fromkeys(places, 0)
        for _ in ("the first", "the next"):
            feed.produce(PARTITIONS * 500)
            ends = end_offsets(server, places)
            readers = [members.start(each, plan._replace(group=f"{topic}-{each.name}")) for each in LIBRARIES]
            wait_until(lambda: all(_has_read(reader, ends) for reader in readers), "all have read all", readers)  # noqa: B023
            for reader in readers:
                reader.start_closing()
            for reader in readers:
                reader.wait_for_end()
                assert _starts(reader) == starts, reader.name
                with RawClient(server) as client:
                    assert committed_offsets(client, reader.plan.group) == ends, reader.name
            starts = ends
        feed.close()


def _has_read(reader: GroupMember, ends: dict[Place, int]) -> bool:
    return {place: some[-1].last + 1 for place, some in ranges_of([reader]).items()} == ends


def _starts(reader: GroupMember) -> dict[Place, int]:
    return {place: some[0].first for place, some in ranges_of([reader]).items()}
