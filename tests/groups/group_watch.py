"""What a broker says about a group, and the rules that what its members did is held to.

`GroupWatch` asks with raw requests, so that no client library stands between. The checks judge what all members that a
group ever had have told.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse
from tests.groups.group_member import WAIT_SECONDS, Event, GroupMember, Members, Range, wait_until
from tests.groups.members.talk import Place
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess

DESCRIBE_VERSION, FETCH_VERSION = 4, 5
NOT_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""The coordinator is on its way: clients ask again."""


def state_of(client: RawClient, group: str) -> str:
    """The state of a group of the classic protocol, as DescribeGroups has it."""
    (described,) = client.call(DescribeGroupsRequest([group]), DESCRIBE_VERSION, DescribeGroupsResponse).groups
    assert described.error_code == ErrorCode.NONE, described
    return described.group_state


def committed_offsets(client: RawClient, group: str) -> dict[Place, int]:
    """Every offset that a group has committed, by partition; waits until its coordinator has loaded it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        answer = client.call(OffsetFetchRequest(group_id=group, topics=None), FETCH_VERSION, OffsetFetchResponse)
        if answer.error_code not in NOT_YET:
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


def places_of(topic: str, partitions: int) -> list[Place]:
    """Every partition of a topic."""
    return [(topic, partition) for partition in range(partitions)]


def end_offsets(server: ServerProcess, places: Iterable[Place]) -> dict[Place, int]:
    """The offsets behind the last records."""
    with RawClient(server) as client:
        return {place: client.end_offset(*place) for place in places}


def acknowledged_offsets(members: Iterable[GroupMember]) -> dict[Place, int]:
    """The newest offset of each partition whose commit was acknowledged to a member."""
    newest: dict[Place, int] = {}
    for member in members:
        with member.changed:
            for commit in member.commits:
                newest[commit.place] = max(newest.get(commit.place, 0), commit.offset)
    return newest


def ranges_of(members: Iterable[GroupMember]) -> dict[Place, list[Range]]:
    """What the members worked on, by partition, in the order of offsets."""
    ranges: dict[Place, list[Range]] = defaultdict(list)
    for member in members:
        with member.changed:
            for each in member.ranges:
                ranges[each.place].append(each)
    return {place: sorted(some, key=lambda each: each.first) for place, some in ranges.items()}


def wait_until_worked_on(members: Members, ends: Mapping[Place, int], seconds: float = WAIT_SECONDS) -> None:
    """Wait until each record before these offsets was worked on by somebody, however often."""
    what = f"all records before {ends} worked on"
    wait_until(lambda: not missing_places(members.all, ends), what, members.running(), seconds)


def missing_places(members: Iterable[GroupMember], ends: Mapping[Place, int]) -> dict[Place, list[tuple[int, int]]]:
    """The gaps (first, last) in what the members worked on before these offsets, where there are any."""
    ranges = ranges_of(members)
    gaps = {place: missing_offsets(ranges.get(place, []), end) for place, end in ends.items()}
    return {place: some for place, some in gaps.items() if some}


def missing_offsets(ranges: Sequence[Range], end: int) -> list[tuple[int, int]]:
    """The gaps (first, last) that sorted ranges leave before an offset."""
    missing, reached = [], 0
    for each in ranges:
        if each.first > reached:
            missing.append((reached, each.first - 1))
        reached = max(reached, each.last + 1)
    return [*missing, (reached, end - 1)] if reached < end else missing


def count_repeated(members: Iterable[GroupMember]) -> int:
    """How many times a record was worked on again."""
    repeated = 0
    for some in ranges_of(members).values():
        reached = 0
        for each in some:
            repeated += max(0, min(reached, each.last + 1) - each.first)
            reached = max(reached, each.last + 1)
    return repeated


def check_every_start_and_step(members: Iterable[GroupMember]) -> None:
    """Whoever is given a partition begins no earlier than at the newest offset that was acknowledged before.

    So a record is worked on again only where its commit was not acknowledged. While somebody holds a partition, it goes
    on from record to record, without a gap, a step back, or a record twice.
    """
    members = list(members)
    newest = _NewestCommits(members)
    for member in members:
        for holding in _holdings(member):
            acknowledged, to_whom, ms = newest.before(holding.place, holding.given_ms)
            assert holding.ranges[0].first >= acknowledged, (
                f"{member.name}, given {holding.place} at {holding.given_ms}, began at {holding.ranges[0].first}; "
                f"{acknowledged} had been acknowledged to {to_whom} at {ms}"
            )
            for before, after in pairwise(holding.ranges):
                assert after.first == before.last + 1, f"{member.name} went on at {after} after {before}"


class _Holding(NamedTuple):
    """The time in which a member held a partition, if it worked on something of it."""

    place: Place
    given_ms: int
    ranges: list[Range]


def _holdings(member: GroupMember) -> list[_Holding]:
    with member.changed:
        told: list[Event | Range] = [*member.events, *member.ranges]
    told.sort(key=lambda each: each.line)
    held: dict[Place, _Holding] = {}
    ended = []
    for each in told:
        if isinstance(each, Range):
            if each.place in held:  # what was in hand when it was taken away is told afterwards
                held[each.place].ranges.append(each)
            continue
        ended += [held.pop(place) for place in each.places if place in held]
        if each.kind == "assigned":
            held.update({place: _Holding(place, each.ms, []) for place in each.places})
    return [holding for holding in [*ended, *held.values()] if holding.ranges]


class _NewestCommits:
    """The newest acknowledged offset of a partition at any time."""

    def __init__(self, members: Iterable[GroupMember]) -> None:
        commits: dict[Place, list[tuple[int, int, str]]] = defaultdict(list)
        for member in members:
            for commit in member.commits:
                commits[commit.place].append((commit.ms, commit.offset, member.name))
        self._times: dict[Place, list[int]] = {}
        self._newest: dict[Place, list[tuple[int, str, int]]] = {}
        for place, some in commits.items():
            some.sort()
            self._times[place] = [ms for ms, _, _ in some]
            self._newest[place] = list(accumulate(((offset, name, ms) for ms, offset, name in some), max))

    def before(self, place: Place, ms: int) -> tuple[int, str, int]:
        """What had been acknowledged before this millisecond, to whom, and when; 0 is nothing."""
        index = bisect_left(self._times.get(place, []), ms)
        return self._newest[place][index - 1] if index else (0, "nobody", 0)
