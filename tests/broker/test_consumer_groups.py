"""Members of consumer groups (KIP-848), as Kafka 4 has them: heartbeats, time-outs, restarts, changes of protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
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
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.raw_group_member import await_coordinator
from tests.support.server_fixtures import AGAINST, MODES, Server, make_server

pytestmark = pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 in ZooKeeper mode has none of it")

PATIENCE_SECONDS = 30
HEARTBEAT = 1


class Member:
    """A member of the new protocol: does at once what it is told."""

    def __init__(self, client: RawClient, group: str, *names: str, instance: str | None = None) -> None:
        self.client = client
        self.group = group
        self.names = list(names)
        self.instance = instance
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}

    def ask(self, *, error: ErrorCode = ErrorCode.NONE, version: int = HEARTBEAT, epoch: int | None = None) -> None:
        """One heartbeat."""
        joins = self.epoch == 0 and epoch is None
        owned = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, numbers)
            for topic_id, numbers in self.assigned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=self.names if joins else None,
            topic_partitions=owned,
        )
        answer = self.client.call(request, version, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == error, answer
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

    def leave(self, epoch: int = -1) -> None:
        self.ask(epoch=epoch)
        self.epoch, self.assigned = 0, {}

    @property
    def partitions(self) -> list[int]:
        return sorted(number for numbers in self.assigned.values() for number in numbers)


class Classic:
    """A member of the classic protocol, which lets the coordinator lead."""

    def __init__(self, client: RawClient, group: str, *names: str) -> None:
        self.client = client
        self.group = group
        self.names = names
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[TopicPartition, ...] = ()

    def join(self) -> JoinGroupResponse:
        subscription = encode_subscription(Subscription(self.names, None, self.owned, self.generation))
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("cooperative-sticky", subscription)
        joined = JoinGroupResponse()
        for _ in range(2):  # a new member is told its id first
            request = JoinGroupRequest(self.group, 45_000, 60_000, self.member_id, None, "consumer", [protocol])
            joined = self.client.call(request, 9, JoinGroupResponse)
            self.member_id = joined.member_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        assert joined.error_code == ErrorCode.NONE, joined
        self.generation = joined.generation_id
        return joined

    def sync(self) -> list[int]:
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, None, "consumer", "cooperative-sticky", assignments=[]
        )
        synced = self.client.call(request, 5, SyncGroupResponse)
        assert synced.error_code == ErrorCode.NONE, synced
        self.owned = decode_assignment(synced.assignment).partitions
        return self.partitions

    @property
    def partitions(self) -> list[int]:
        return sorted(number for _, number in self.owned)

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(self.group, self.generation, self.member_id)
        return ErrorCode(self.client.call(request, 4, HeartbeatResponse).error_code)

    def follow(self) -> None:
        """Join again as often as it is told to."""
        while self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()

    def leave(self) -> None:
        leaving = [LeaveGroupRequest.MemberIdentity(self.member_id)]
        answer = self.client.call(LeaveGroupRequest(self.group, members=leaving), 5, LeaveGroupResponse)
        assert [each.error_code for each in answer.members] == [ErrorCode.NONE]


def until(condition: Callable[[], bool], *steps: Callable[[], object]) -> None:
    """Take the steps again and again until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        for step in steps:
            step()
        time.sleep(0.02)


def listed(client: RawClient, group: str) -> tuple[str, str]:
    answer = client.call(ListGroupsRequest(), 5, ListGroupsResponse)
    return next((each.group_type.lower(), each.group_state) for each in answer.groups if each.group_id == group)


@each_version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_two_members_share_a_topic(client: RawClient, group: str, topic: str, version: int) -> None:
    client.create_topic(topic, 4)
    first, second = Member(client, group, topic), Member(client, group, topic)
    first.ask(version=version)
    until(lambda: first.partitions == [0, 1, 2, 3], first.ask)  # Apache Kafka may hear of the topic a moment later
    second.ask(version=version)
    assert second.partitions == []
    until(lambda: len(second.partitions) == 2, first.ask, second.ask)
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    assert listed(client, group) == ("consumer", "Stable")
    second.leave()
    until(lambda: first.partitions == [0, 1, 2, 3], first.ask)


def test_who_is_refused(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, 2)
    member = Member(client, group, topic)
    member.ask(error=ErrorCode.GROUP_ID_NOT_FOUND, epoch=3)
    member.ask(error=ErrorCode.GROUP_ID_NOT_FOUND, epoch=-1)
    member.ask()
    member.ask(error=ErrorCode.FENCED_MEMBER_EPOCH, epoch=member.epoch + 1)
    Member(client, group, topic).ask(error=ErrorCode.UNKNOWN_MEMBER_ID, epoch=1)
    member.ask(error=ErrorCode.INVALID_REQUEST, epoch=-3)
    client.create_topic(f"{topic}-grows", 1)
    Member(client, "", topic).ask(error=ErrorCode.INVALID_REQUEST)


def test_a_static_member_is_awaited(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, 2)
    static, other = Member(client, group, topic, instance="one"), Member(client, group, topic)
    static.ask()
    other.ask()
    until(lambda: len(static.partitions) == len(other.partitions) == 1, static.ask, other.ask)
    had, epoch = static.partitions, static.epoch
    again = Member(client, group, topic, instance="one")
    again.ask(error=ErrorCode.UNRELEASED_INSTANCE_ID)
    static.leave(-2)
    other.ask()
    assert len(other.partitions) == 1
    again.ask()
    assert (again.partitions, again.epoch) == (had, epoch)
    static.epoch = epoch
    static.ask(error=ErrorCode.FENCED_INSTANCE_ID)


def test_a_topic_that_comes_is_read(client: RawClient, group: str, topic: str) -> None:
    member = Member(client, group, topic)
    member.ask()
    assert member.partitions == []
    client.create_topic(topic, 3)
    until(lambda: member.partitions == [0, 1, 2], member.ask)


def commit(client: RawClient, member: Member, topic: str, version: int = 9, offset: int = 7) -> int:
    committed = OffsetCommitRequest.OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(
        member.group,
        member.epoch,
        member.member_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic, partitions=[committed])],
    )
    return client.call(request, version, OffsetCommitResponse).topics[0].partitions[0].error_code


def test_members_commit_at_their_epoch(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, 1)
    member, stranger = Member(client, group, topic), Member(client, group, topic)
    member.ask()
    assert commit(client, member, topic) == ErrorCode.NONE
    assert commit(client, member, topic, version=8) == ErrorCode.UNSUPPORTED_VERSION
    member.epoch += 1
    assert commit(client, member, topic) == ErrorCode.STALE_MEMBER_EPOCH
    stranger.epoch = 2
    assert commit(client, stranger, topic) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_both_protocols_in_one_group(client: RawClient, group: str, topic: str) -> None:
    """A classic member is told to join again when there is something to give up or to get, and leads nobody."""
    client.create_topic(topic, 4)
    modern, classic = Member(client, group, topic), Classic(client, group, topic)
    modern.ask()
    joined = classic.join()
    assert (joined.leader, joined.members) == ("", [])
    assert classic.sync() == []
    until(lambda: len(classic.partitions) == 2, modern.ask, classic.follow)
    assert sorted(modern.partitions + classic.partitions) == [0, 1, 2, 3]
    assert classic.heartbeat() == ErrorCode.NONE
    assert listed(client, group)[0] == "consumer"
    classic.leave()
    until(lambda: modern.partitions == [0, 1, 2, 3], modern.ask)


def test_a_group_is_upgraded_and_downgraded_while_it_works(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, 4)
    classic, modern = Classic(client, group, topic), Member(client, group, topic)
    classic.join()
    request = SyncGroupRequest(group, classic.generation, classic.member_id, None, "consumer", "cooperative-sticky")
    assert client.call(request, 5, SyncGroupResponse).error_code == ErrorCode.NONE
    assert listed(client, group) == ("classic", "Stable")
    modern.ask()
    assert listed(client, group)[0] == "consumer"
    until(lambda: len(modern.partitions) == len(classic.partitions) == 2, modern.ask, classic.follow)
    modern.leave()
    assert listed(client, group)[0] == "classic"
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    joined = classic.join()
    assert joined.leader == classic.member_id
    assert [each.member_id for each in joined.members] == [classic.member_id]


def test_an_empty_group_changes_its_protocol(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, 2)
    modern, classic = Member(client, group, topic), Classic(client, group, topic)
    modern.ask()
    modern.leave()
    assert listed(client, group) == ("consumer", "Empty")
    assert classic.join().leader == classic.member_id
    assert listed(client, group)[0] == "classic"
    classic.leave()
    modern.ask()
    assert modern.partitions == [0, 1]
    assert listed(client, group) == ("consumer", "Stable")


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_groups_come_back_when_the_broker_does(own_server: Server, topic: str) -> None:
    """Killed in the middle of a rebalance: everybody goes on where he was."""
    own_server.start()
    group = "group"
    with RawClient(own_server) as client:
        await_coordinator(client, group)
        client.create_topic(topic, 4)
        first, second, classic = (
            Member(client, group, topic),
            Member(client, group, topic),
            Classic(client, group, topic),
        )
        first.ask()
        second.ask()
        first.ask()
        classic.join()
        before = first.epoch, first.assigned
    own_server.kill()
    own_server.start()
    with RawClient(own_server) as client:
        await_coordinator(client, group)
        first.client = second.client = classic.client = client
        first.ask()
        assert (first.epoch, set(first.assigned)) >= (before[0], set(before[1]))
        until(
            lambda: sorted(first.partitions + second.partitions + classic.partitions) == [0, 1, 2, 3],
            first.ask,
            second.ask,
            classic.follow,
        )
        until(lambda: listed(client, group) == ("consumer", "Stable"), first.ask, second.ask, classic.follow)
        assert min(len(member.partitions) for member in (first, second)) >= 1


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of the test's own with these properties."""
    with ExitStack() as stack:

        def start(mode: str, **properties: str) -> Server:
            own = make_server(mode, tmp_path / "server", **properties)
            stack.callback(own.close)
            own.start()
            return own

        yield start


@pytest.mark.parametrize("mode", MODES)
def test_who_falls_silent_is_sent_away(started: Callable[..., Server], mode: str, topic: str) -> None:
    server = started(
        mode,
        group_consumer_session_timeout_ms="1500",
        group_consumer_min_session_timeout_ms="1500",
        group_consumer_heartbeat_interval_ms="300",
        group_consumer_min_heartbeat_interval_ms="300",
    )
    with RawClient(server) as client:
        await_coordinator(client, "group")
        client.create_topic(topic, 2)
        silent, lively = Member(client, "group", topic), Member(client, "group", topic)
        silent.ask()
        lively.ask()
        until(lambda: lively.partitions == [0, 1], lively.ask)
        silent.ask(error=ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.skipif(AGAINST == "apache-kafka-4", reason="Apache Kafka 4 always offers them")
def test_consumer_groups_that_are_not_offered(started: Callable[..., Server], topic: str) -> None:
    server = started(MODES[0], group_coordinator_rebalance_protocols="classic")
    with RawClient(server) as client:
        Member(client, "group", topic).ask(error=ErrorCode.UNSUPPORTED_VERSION)
