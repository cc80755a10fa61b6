"""ConsumerGroupDescribe, and subscriptions by regular expression (KIP-848): as Kafka 4 has them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.broker.versions import each_version
from tests.support.raw_client import CLIENT_ID, RawClient
from tests.support.raw_group_member import classic_member, consumer_member
from tests.support.server_fixtures import AGAINST, Server

pytestmark = pytest.mark.skipif(AGAINST == "apache-kafka", reason="Apache Kafka 3.9 in ZooKeeper mode has none of it")

Described = ConsumerGroupDescribeResponse.DescribedGroup
READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
PATIENCE_SECONDS = 30


def describe(client: RawClient, *groups: str, version: int = 1, operations: bool = False) -> list[Described]:
    request = ConsumerGroupDescribeRequest(list(groups), operations)
    return client.call(request, version, ConsumerGroupDescribeResponse).groups


class Member:
    """One that subscribes by an expression."""

    def __init__(self, client: RawClient, group: str, regex: str | None, names: list[str] | None = None) -> None:
        self._client = client
        self._request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )
        self.assigned: set[bytes] = set()
        self.answer = self.heartbeat(self._request)

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest | None = None) -> ConsumerGroupHeartbeatResponse:
        """The next heartbeat; says that it has what it was given."""
        if request is None:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._request.group_id,
                member_id=self._request.member_id,
                member_epoch=self.answer.member_epoch,
                topic_partitions=[
                    ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, [0]) for topic_id in self.assigned
                ],
            )
        self.answer = self._client.call(request, 1, ConsumerGroupHeartbeatResponse)
        if self.answer.assignment is not None:
            self.assigned = {each.topic_id for each in self.answer.assignment.topic_partitions}
        return self.answer

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.answer
            assert self.heartbeat().error_code == ErrorCode.NONE, self.answer
            time.sleep(0.05)

    def leave(self) -> None:
        gone = ConsumerGroupHeartbeatRequest(self._request.group_id, self._request.member_id, member_epoch=-1)
        assert self.heartbeat(gone).error_code == ErrorCode.NONE


@each_version(ApiKey.CONSUMER_GROUP_DESCRIBE)
def test_describe(server: Server, client: RawClient, group: str, topic: str, version: int) -> None:
    client.create_topic(topic, 2)
    with consumer_member(server, group, [topic]) as member_id:
        (found,) = describe(client, group, version=version, operations=True)
        assert (found.error_code, found.error_message) == (ErrorCode.NONE, None)
        assert (found.group_id, found.group_state, found.assignor_name) == (group, "Stable", "uniform")
        assert found.group_epoch == found.assignment_epoch > 0
        assert found.authorized_operations & READ_DELETE_DESCRIBE == READ_DELETE_DESCRIBE
        (member,) = found.members
        assert (member.member_id, member.client_id) == (member_id, CLIENT_ID)
        assert member.client_host.endswith("127.0.0.1")
        assert (member.instance_id, member.rack_id, member.subscribed_topic_names) == (None, None, [topic])
        assert member.member_epoch == found.group_epoch
        assert member.member_type == (1 if version >= 1 else -1)
        for assignment in (member.assignment, member.target_assignment):
            (of_topic,) = assignment.topic_partitions
            assert (of_topic.topic_id, of_topic.topic_name) == (client.topic_id(topic), topic)
            assert sorted(of_topic.partitions) == [0, 1]
        listed = client.call(ListGroupsRequest([], ["consumer"]), 5, ListGroupsResponse).groups
        (one,) = (each for each in listed if each.group_id == group)
        assert (one.group_state, one.group_type, one.protocol_type) == ("Stable", "consumer", "consumer")
        (as_classic,) = client.call(DescribeGroupsRequest([group]), 5, DescribeGroupsResponse).groups
        assert (as_classic.error_code, as_classic.group_state) == (ErrorCode.NONE, "Dead")
    (empty,) = describe(client, group, version=version)
    assert (empty.error_code, empty.group_state, empty.members) == (ErrorCode.NONE, "Empty", [])


def test_describe_what_is_no_consumer_group(server: Server, client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic)
    with classic_member(server, group, [TopicPartition(topic, 0)]):
        found = {each.group_id: each for each in describe(client, group, f"{group}-missing", "")}
    assert found[""].error_code == ErrorCode.INVALID_GROUP_ID
    for group_id, words in ((group, "is not a consumer group."), (f"{group}-missing", "not found.")):
        one = found[group_id]
        assert (one.error_code, one.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {words}")


def test_a_regular_expression(client: RawClient, group: str, topic: str) -> None:
    for suffix in ("a", "b"):
        client.create_topic(f"{topic}-{suffix}")
    member = Member(client, group, f"{topic}-[a-c]")
    assert member.answer.error_code == ErrorCode.NONE
    wanted = {client.topic_id(f"{topic}-{suffix}") for suffix in ("a", "b")}
    member.until(lambda: member.assigned == wanted)
    (found,) = describe(client, group)
    (described,) = found.members
    assert (described.subscribed_topic_names, described.subscribed_topic_regex) == ([], f"{topic}-[a-c]")
    member.leave()


def test_names_and_a_regular_expression_together(client: RawClient, group: str, topic: str) -> None:
    for suffix in ("a", "b", "c"):
        client.create_topic(f"{topic}-{suffix}")
    member = Member(client, group, f"{topic}-b", [f"{topic}-c"])
    wanted = {client.topic_id(f"{topic}-{suffix}") for suffix in ("b", "c")}
    member.until(lambda: member.assigned == wanted)
    member.leave()


@pytest.mark.slow
def test_a_topic_that_is_made_later_is_found(client: RawClient, group: str, topic: str) -> None:
    """Expressions are looked up again when there are new topics, every ten seconds at most."""
    client.create_topic(f"{topic}-a")
    member = Member(client, group, f"{topic}-.*")
    member.until(lambda: len(member.assigned) == 1)
    client.create_topic(f"{topic}-b")
    wanted = {client.topic_id(f"{topic}-{suffix}") for suffix in ("a", "b")}
    member.until(lambda: member.assigned == wanted)
    member.leave()


@pytest.mark.parametrize(
    ("regex", "description"),
    [
        ("a(b", "missing closing )"),
        ("[z-a]", "invalid character class range"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"\Ca", "invalid escape sequence"),
    ],
)
def test_what_is_no_regular_expression(client: RawClient, group: str, regex: str, description: str) -> None:
    answer = Member(client, group, regex).answer
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {description}."
    (missing,) = describe(client, group)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "nothing came of it"
