"""Groups whose members subscribe to what matches a pattern: a topic that comes later is shared out too.

Members of the classic protocol match themselves; for Java and librdkafka the consumer protocol's broker does, by RE2.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.groups.conftest import make_group_server
from tests.groups.feed import Feed
from tests.groups.group_member import Members, Plan, wait_for_balance
from tests.groups.group_watch import check_every_start_and_step, end_offsets, places_of, wait_until_worked_on
from tests.groups.member_libraries import CONSUMER_SPEAKERS, KAFKAJS, LIBRARIES, Library, need_libraries
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import MODES

PARTITIONS = 6
MATCHING_LIBRARIES = tuple(library for library in LIBRARIES if library is not KAFKAJS)
"""kafkajs looks for what matches once, when it subscribes."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("protocol", "libraries"), [("classic", MATCHING_LIBRARIES), ("consumer", CONSUMER_SPEAKERS)])
def test_a_topic_that_comes_later(
    tmp_path: Path, members: Members, mode: str, protocol: str, libraries: tuple[Library, ...]
) -> None:
    """Nobody has to subscribe again; a topic that does not match is left alone."""
    need_libraries(libraries)
    name = f"pattern-{uuid.uuid4().hex[:8]}"
    first, second = f"{name}-1", f"{name}-2"
    server = make_group_server(mode, tmp_path / "server", protocol)
    with server.running(), RawClient(server) as client:
        client.create_topic(first, PARTITIONS)
        client.create_topic(f"another-{name}-1", PARTITIONS)
        plan = Plan(server.bootstrap_servers, name, (f"^{name}-[0-9]$",), protocol=protocol, assignor="roundrobin")
        group = [members.start(library, plan) for library in libraries]
        wait_for_balance(group, places_of(first, PARTITIONS))
        client.create_topic(second, PARTITIONS)
        places = [*places_of(first, PARTITIONS), *places_of(second, PARTITIONS)]
        wait_for_balance(group, places)
        for topic in (first, second):
            feed = Feed(server, topic, PARTITIONS)
            feed.produce(PARTITIONS * 20)
            feed.close()
        wait_until_worked_on(members, end_offsets(server, places))
        check_every_start_and_step(members.all)
