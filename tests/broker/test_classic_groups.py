"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what Kafka answers, in every version."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from tests.broker.versions import each_version
from tests.support.raw_client import SECONDS, RawClient
from tests.support.raw_group_member import await_coordinator
from tests.support.server_fixtures import AGAINST_KAFKA, Server

TYPE = "test"
BOTH = (("first", b"1"), ("second", b"2"))
STATIC_JOIN, STATIC_SYNC, STATIC_HEARTBEAT, SEVERAL_LEAVE = 5, 3, 3, 3
NEWEST_JOIN, NEWEST_SYNC, NEWEST_HEARTBEAT, NEWEST_LEAVE = 9, 5, 4, 5


class Member:
    """A member on a connection of its own, with what the broker has told it."""

    def __init__(self, server: Server, group: str, instance: str | None = None) -> None:
        self.client = RawClient(server)
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self._waiting: tuple[int, int] = (0, 0)

    def send_join(
        self,
        version: int = NEWEST_JOIN,
        *,
        protocols: Sequence[tuple[str, bytes]] = BOTH,
        protocol_type: str = TYPE,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
    ) -> None:
        """Send a JoinGroup whose answer may have to wait."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
            reason="it is a test" if version >= 8 else None,
        )
        self._waiting = version, self.client.send(request, version)

    def joined(self) -> JoinGroupResponse:
        """The answer to it."""
        version, correlation_id = self._waiting
        answer = self.client.receive(JoinGroupResponse, version, correlation_id)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
            self.generation = answer.generation_id
        return answer

    def join(self, version: int = NEWEST_JOIN, **terms: object) -> JoinGroupResponse:
        """Join, and once more if an id is needed first."""
        self.send_join(version, **terms)  # type: ignore[arg-type]
        answer = self.joined()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.send_join(version, **terms)  # type: ignore[arg-type]
            answer = self.joined()
        return answer

    def send_sync(
        self,
        version: int = NEWEST_SYNC,
        assignments: dict[str, bytes] | None = None,
        protocol: tuple[str | None, str | None] = (TYPE, "first"),
        generation: int | None = None,
    ) -> None:
        """Send a SyncGroup whose answer may have to wait."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=protocol[0] if version >= 5 else None,
            protocol_name=protocol[1] if version >= 5 else None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(each, assigned)
                for each, assigned in (assignments or {}).items()
            ],
        )
        self._waiting = version, self.client.send(request, version)

    def synced(self) -> SyncGroupResponse:
        """The answer to it."""
        version, correlation_id = self._waiting
        return self.client.receive(SyncGroupResponse, version, correlation_id)

    def sync(self, version: int = NEWEST_SYNC, **terms: object) -> SyncGroupResponse:
        """Ask for the assignment."""
        self.send_sync(version, **terms)  # type: ignore[arg-type]
        return self.synced()

    def heartbeat(self, version: int = NEWEST_HEARTBEAT, generation: int | None = None) -> ErrorCode:
        """Live."""
        number = self.generation if generation is None else generation
        request = HeartbeatRequest(self.group, number, self.member_id, self.instance)
        return ErrorCode(self.client.call(request, version, HeartbeatResponse).error_code)

    def wait_for_rebalance(self) -> None:
        """Return when another member's request, which goes its own way, has made the group begin again."""
        while self.heartbeat() == ErrorCode.NONE:
            time.sleep(0.01)
        assert self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS

    def wait_for_members(self, count: int) -> None:
        """Return when the group has so many members, whose joins go their own ways."""
        request = DescribeGroupsRequest([self.group])
        while len(self.client.call(request, 5, DescribeGroupsResponse).groups[0].members) < count:
            time.sleep(0.01)

    def leave(self, version: int = NEWEST_LEAVE) -> LeaveGroupResponse:
        """Go."""
        if version < SEVERAL_LEAVE:
            request = LeaveGroupRequest(self.group, self.member_id)
        else:
            request = LeaveGroupRequest(
                self.group, members=[LeaveGroupRequest.MemberIdentity(self.member_id, self.instance)]
            )
        return self.client.call(request, version, LeaveGroupResponse)


class Members:
    """The members of a test's group."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.made: list[Member] = []

    def new(self, instance: str | None = None) -> Member:
        """Another member, which has not said anything."""
        self.made.append(Member(self._server, self.group, instance))
        return self.made[-1]

    def stable(self, *instances: str | None) -> list[Member]:
        """A stable group: the first member leads, and everybody is assigned its own name."""
        members = [self.new(instance) for instance in instances]
        leader = members[0]
        assert leader.join().error_code == ErrorCode.NONE
        for member in members[1:]:
            member.send_join()
            if member.instance is None:
                assert member.joined().error_code == ErrorCode.MEMBER_ID_REQUIRED
                member.send_join()
        if len(members) > 1:
            leader.wait_for_rebalance()
            leader.send_join()
            for member in members:
                # A promised place is taken when its join is read, which may be after the leader's.
                assert member.joined().error_code == ErrorCode.NONE
        for member in members[1:]:
            member.send_sync()
        leader.send_sync(assignments={each.member_id: each.member_id.encode() for each in members})
        for member in members:
            answer = member.synced()
            assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.NONE, member.member_id.encode())
        return members


@pytest.fixture
def members(server: Server, client: RawClient) -> Iterator[Members]:
    """A group nobody else uses."""
    made = Members(server)
    await_coordinator(client, made.group)
    yield made
    for member in made.made:
        member.client.close()


@each_version(ApiKey.JOIN_GROUP)
def test_a_first_member_leads_and_sees_itself(members: Members, version: int) -> None:
    member = members.new("static" if version >= STATIC_JOIN else None)
    answer = member.join(version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "first")
    assert answer.protocol_type == (TYPE if version >= 7 else None)
    assert answer.leader == answer.member_id != ""
    assert answer.member_id.startswith("static-" if version >= STATIC_JOIN else "raw-client-")
    assert not answer.skip_assignment
    (itself,) = answer.members
    assert (itself.member_id, bytes(itself.metadata)) == (answer.member_id, b"1")
    assert itself.group_instance_id == ("static" if version >= STATIC_JOIN else None)


@each_version(ApiKey.JOIN_GROUP)
def test_an_id_is_needed_first_since_v4(members: Members, version: int) -> None:
    member = members.new()
    member.send_join(version)
    answer = member.joined()
    if version < 4:
        assert answer.error_code == ErrorCode.NONE
        return
    assert (answer.error_code, answer.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert (answer.leader, answer.members, answer.protocol_name) == ("", [], "" if version < 7 else None)
    assert answer.member_id.startswith("raw-client-")


@each_version(ApiKey.JOIN_GROUP)
def test_impossible_joins(members: Members, version: int) -> None:
    member = members.new()
    for terms, error in (
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ):
        answer = member.join(version, **terms)
        assert (answer.error_code, answer.member_id, answer.generation_id) == (error, "", -1)
        assert answer.protocol_name == ("" if version < 7 else None)
    member.member_id = "unheard-of"
    answer = member.join(version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "unheard-of")
    member.group, member.member_id = "", ""
    assert member.join(version).error_code == ErrorCode.INVALID_GROUP_ID


@each_version(ApiKey.SYNC_GROUP)
def test_the_leader_assigns_and_a_follower_waits_for_it(members: Members, version: int) -> None:
    leader, follower = members.stable(None, None)
    leader.send_join()
    follower.wait_for_rebalance()
    assert follower.sync(version).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.join().generation_id == leader.joined().generation_id
    assert follower.heartbeat() == ErrorCode.NONE
    follower.send_sync(version)
    time.sleep(0.05)
    answer = leader.sync(version, assignments={follower.member_id: b"everything"})
    assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.NONE, b"")
    answer = follower.synced()
    assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.NONE, b"everything")
    assert (answer.protocol_type, answer.protocol_name) == ((TYPE, "first") if version >= 5 else (None, None))
    assert bytes(follower.sync(version).assignment) == b"everything"


@each_version(ApiKey.SYNC_GROUP)
def test_impossible_syncs(members: Members, version: int) -> None:
    (member,) = members.stable(None)
    assert member.sync(version, generation=member.generation + 1).error_code == ErrorCode.ILLEGAL_GENERATION
    if version >= 5:
        for protocol in ((None, "first"), (TYPE, None), ("another", "first"), (TYPE, "second")):
            assert member.sync(version, protocol=protocol).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if version >= STATIC_SYNC:
        member.instance = "unheard-of"
        assert member.sync(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        member.instance = None
    member.member_id = "unheard-of"
    assert member.sync(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.group = f"{member.group}-unheard-of"
    assert member.sync(version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.group = ""
    assert member.sync(version).error_code == ErrorCode.INVALID_GROUP_ID


@each_version(ApiKey.HEARTBEAT)
def test_heartbeats(members: Members, version: int) -> None:
    (member,) = members.stable("static" if version >= STATIC_HEARTBEAT else None)
    assert member.heartbeat(version) == ErrorCode.NONE
    assert member.heartbeat(version, member.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    member.member_id = "unheard-of"
    fenced = ErrorCode.FENCED_INSTANCE_ID if version >= STATIC_HEARTBEAT else ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat(version) == fenced
    member.group = f"{member.group}-unheard-of"
    assert member.heartbeat(version) == ErrorCode.UNKNOWN_MEMBER_ID
    member.group = ""
    assert member.heartbeat(version) == ErrorCode.INVALID_GROUP_ID


@each_version(ApiKey.LEAVE_GROUP)
def test_a_member_leaves_and_the_others_begin_again(members: Members, version: int) -> None:
    leader, follower = members.stable(None, None)
    answer = leader.leave(version)
    assert answer.error_code == ErrorCode.NONE
    if version >= SEVERAL_LEAVE:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(leader.member_id, ErrorCode.NONE)]
    assert follower.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    joined = follower.join()
    assert (joined.leader, [each.member_id for each in joined.members]) == (follower.member_id, [follower.member_id])
    answer = leader.leave(version)
    if version >= SEVERAL_LEAVE:
        assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    else:
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leader.group = ""
    assert leader.leave(version).error_code == ErrorCode.INVALID_GROUP_ID


@each_version(ApiKey.LEAVE_GROUP, SEVERAL_LEAVE)
def test_an_administrator_removes_static_members_by_name(members: Members, client: RawClient, version: int) -> None:
    first, second = members.stable("one", "two")
    identity = LeaveGroupRequest.MemberIdentity
    leaving = [identity("", "one"), identity("", "three"), identity("wrong", "two"), identity("", None)]
    answer = client.call(LeaveGroupRequest(members.group, members=leaving), version, LeaveGroupResponse)
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [
        ("", "one", ErrorCode.NONE),
        ("", "three", ErrorCode.UNKNOWN_MEMBER_ID),
        ("wrong", "two", ErrorCode.FENCED_INSTANCE_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    empty = client.call(LeaveGroupRequest(members.group, members=[]), version, LeaveGroupResponse)
    assert (empty.error_code, empty.members) == (ErrorCode.NONE, [])


@each_version(ApiKey.JOIN_GROUP, STATIC_JOIN)
def test_a_restarted_static_member_goes_on_where_it_was(members: Members, version: int) -> None:
    leader, follower = members.stable("one", "two")
    restarted = members.new("two")
    answer = restarted.join(version)
    assert (answer.error_code, answer.generation_id, answer.members) == (ErrorCode.NONE, leader.generation, [])
    assert restarted.member_id != follower.member_id
    assert bytes(restarted.sync().assignment) == follower.member_id.encode()
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert follower.sync().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert leader.heartbeat() == ErrorCode.NONE
    answer = members.new("one").join(version)
    if version >= 9:
        assert answer.skip_assignment
        assert (answer.leader, len(answer.members)) == (answer.member_id, 2)
    else:
        assert (answer.leader, answer.members) == (leader.member_id, [])
    assert restarted.heartbeat() == ErrorCode.NONE


def test_a_static_member_that_waits_is_fenced_by_the_next(members: Members) -> None:
    (leader,) = members.stable("one")
    waiting = members.new("two")
    waiting.send_join()
    leader.wait_for_rebalance()
    replacement = members.new("two")
    replacement.send_join()
    answer = waiting.joined()
    assert (answer.error_code, answer.generation_id) == (ErrorCode.FENCED_INSTANCE_ID, -1)
    leader.send_join()
    assert replacement.joined().error_code == leader.joined().error_code == ErrorCode.NONE


def test_members_without_a_common_protocol(members: Members) -> None:
    members.stable(None)
    other = members.new()
    for terms in ({"protocols": [("third", b"")]}, {"protocol_type": "another"}):
        assert other.join(**terms).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_like_best(members: Members) -> None:
    (leader,) = members.stable(None)
    others = [members.new(f"static-{number}") for number in range(2)]
    for other in others:
        other.send_join(protocols=[*reversed(BOTH), ("third", b"3")])
    leader.wait_for_members(3)
    leader.send_join()
    answer = leader.joined()
    assert (answer.protocol_name, [bytes(each.metadata) for each in answer.members]) == ("second", [b"2"] * 3)
    assert {other.joined().protocol_name for other in others} == {"second"}


def test_a_silent_member_is_given_up_and_the_others_begin_again(members: Members) -> None:
    silent = members.new()
    silent.join(session_timeout_ms=6_000)
    other = members.new("static")
    other.send_join(rebalance_timeout_ms=10 * SECONDS * 1000)  # longer than any answer is waited for
    answer = other.joined()
    assert (answer.error_code, [each.member_id for each in answer.members]) == (ErrorCode.NONE, [other.member_id])
    assert silent.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_wait_for_members_ends_with_the_rebalance_timeout(members: Members) -> None:
    (late,) = members.stable(None)
    late.send_join(rebalance_timeout_ms=1_000)
    assert late.joined().error_code == ErrorCode.NONE
    other = members.new("static")
    other.send_join(rebalance_timeout_ms=1_000)
    answer = other.joined()
    assert (answer.error_code, len(answer.members)) == (ErrorCode.NONE, 1)
    assert late.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_survives_the_broker(own_server: Server, topic: str) -> None:
    own_server.start()
    group = Members(own_server)
    with RawClient(own_server) as client:
        await_coordinator(client, group.group)
    leader, follower = group.stable("one", "two")
    # ZooKeeper would not let a killed Kafka back in before its session is over.
    (own_server.stop if AGAINST_KAFKA else own_server.kill)()
    own_server.start()
    back = [Member(own_server, group.group, each.instance) for each in (leader, follower)]
    with RawClient(own_server) as client:
        await_coordinator(client, group.group)
    for now, before in zip(back, (leader, follower), strict=True):
        now.member_id, now.generation = before.member_id, before.generation
        answer = now.sync()
        while answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:  # it is being loaded
            answer = now.sync()
        assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.NONE, before.member_id.encode())
        assert now.heartbeat() == ErrorCode.NONE
