"""ListGroups, DescribeGroups, DeleteGroups: what Kafka answers, in every version, also by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import decode_assignment, decode_topics
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.broker.versions import each_version
from tests.support.raw_client import CLIENT_ID, RawClient
from tests.support.raw_group_member import await_coordinator, classic_member
from tests.support.server_fixtures import Server

NOT_ASKED_FOR = -(2**31)
READ_DELETE_DESCRIBE = 1 << 3 | 1 << 6 | 1 << 8
Described = DescribeGroupsResponse.DescribedGroup


@pytest.fixture
def stable(server: Server, client: RawClient, group: str, topic: str) -> Iterator[str]:
    """The id of the only member, which is static, of a stable group."""
    client.create_topic(topic, 2)
    with classic_member(server, group, [TopicPartition(topic, 1)], "an-instance") as member_id:
        yield member_id


def listed(
    client: RawClient, version: int, states: list[str] | None = None, types: list[str] | None = None
) -> dict[str, ListGroupsResponse.ListedGroup]:
    answer = client.call(ListGroupsRequest(states or [], types or []), version, ListGroupsResponse)
    assert answer.error_code == ErrorCode.NONE
    return {each.group_id: each for each in answer.groups}


def describe(client: RawClient, version: int, *groups: str, operations: bool = False) -> list[Described]:
    request = DescribeGroupsRequest(list(groups), operations and version >= 3)
    return client.call(request, version, DescribeGroupsResponse).groups


def delete(client: RawClient, version: int, *groups: str) -> dict[str, int]:
    answer = client.call(DeleteGroupsRequest(list(groups)), version, DeleteGroupsResponse)
    assert len({each.group_id for each in answer.results}) == len(answer.results)
    return {each.group_id: each.error_code for each in answer.results}


def commit(client: RawClient, group: str, topic: str) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="m")
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(topic, b"", [partition])])
    (answer,) = client.call(request, 8, OffsetCommitResponse).topics
    assert answer.partitions[0].error_code == ErrorCode.NONE


@each_version(ApiKey.LIST_GROUPS)
def test_list(client: RawClient, group: str, stable: str, topic: str, version: int) -> None:
    only_offsets = f"{group}-offsets"
    commit(client, only_offsets, topic)
    found = listed(client, version)
    one, other = found[group], found[only_offsets]
    assert (one.protocol_type, other.protocol_type) == ("consumer", "")
    if version >= 4:
        assert (one.group_state, other.group_state) == ("Stable", "Empty")
    if version >= 5:
        assert (one.group_type, other.group_type) == ("classic", "classic")


@each_version(ApiKey.LIST_GROUPS, 4)
def test_list_by_state(client: RawClient, group: str, stable: str, topic: str, version: int) -> None:
    only_offsets = f"{group}-offsets"
    commit(client, only_offsets, topic)

    def seen(*states: str) -> set[str]:
        return {group, only_offsets} & listed(client, version, list(states)).keys()

    assert seen("Stable") == seen("stable", "Dead") == {group}
    assert seen("Empty") == {only_offsets}
    assert seen("Stable", "Empty") == {group, only_offsets}
    assert seen("PreparingRebalance", "NoSuchState") == set()


def test_list_by_type(client: RawClient, group: str, stable: str) -> None:
    def is_seen(*types: str, states: tuple[str, ...] = ()) -> bool:
        return group in listed(client, 5, list(states), list(types))

    assert is_seen("classic")
    assert is_seen("Classic", "consumer", states=("Stable",))
    assert not is_seen("consumer")
    assert not is_seen("classic", states=("Empty",))
    assert not is_seen("no-such-type")


@each_version(ApiKey.DESCRIBE_GROUPS)
def test_describe(client: RawClient, group: str, stable: str, topic: str, version: int) -> None:
    (found,) = describe(client, version, group, operations=True)
    assert (found.error_code, found.group_id, found.group_state) == (ErrorCode.NONE, group, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    assert found.authorized_operations == (READ_DELETE_DESCRIBE if version >= 3 else NOT_ASKED_FOR)
    (member,) = found.members
    assert (member.member_id, member.client_id) == (stable, CLIENT_ID)
    assert member.client_host.endswith("127.0.0.1")
    assert member.group_instance_id == ("an-instance" if version >= 4 else None)
    assert decode_topics(member.member_metadata) == (topic,)
    assert decode_assignment(member.member_assignment).partitions == (TopicPartition(topic, 1),)


@each_version(ApiKey.DESCRIBE_GROUPS)
def test_describe_groups_without_members(client: RawClient, group: str, topic: str, version: int) -> None:
    client.create_topic(topic)
    commit(client, group, topic)
    missing = f"{group}-missing"
    found = {each.group_id: each for each in describe(client, version, group, missing, "")}
    assert found.keys() == {group, missing, ""}
    one = found[group]
    assert (one.error_code, one.group_state, one.protocol_type, one.members) == (ErrorCode.NONE, "Empty", "", [])
    assert one.authorized_operations == NOT_ASKED_FOR
    for other in (found[missing], found[""]):
        assert (other.group_state, other.protocol_type, other.protocol_data, other.members) == ("Dead", "", "", [])
        if version >= 6:
            words = f"Group {other.group_id} not found."
            assert (other.error_code, other.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, words)
        else:
            assert other.error_code == ErrorCode.NONE


def test_describe_a_group_that_rebalances(server: Server, client: RawClient, group: str, stable: str) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", b"")
    with RawClient(server) as second:
        join = JoinGroupRequest(group, 6000, 10_000, "", None, "consumer", [protocol])
        join.member_id = second.call(join, 9, JoinGroupResponse).member_id
        second.send(join, 9)
        while (found := describe(client, 5, group)[0]).group_state == "Stable":
            pass  # the join is on its way
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("PreparingRebalance", "consumer", "")
        assert {member.member_id for member in found.members} == {stable, join.member_id}
        assert {(member.member_metadata, member.member_assignment) for member in found.members} == {(b"", b"")}


@each_version(ApiKey.DELETE_GROUPS)
def test_delete(client: RawClient, group: str, topic: str, version: int) -> None:
    client.create_topic(topic)
    for group_id in (group, f"{group}-other"):
        commit(client, group_id, topic)
    missing = f"{group}-missing"
    assert delete(client, version, group, missing, group) == {
        group: ErrorCode.NONE,
        missing: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert delete(client, version, group, f"{group}-other") == {
        group: ErrorCode.GROUP_ID_NOT_FOUND,
        f"{group}-other": ErrorCode.NONE,
    }
    assert group not in listed(client, 4)
    assert delete(client, version) == {}


@each_version(ApiKey.DELETE_GROUPS)
def test_a_group_with_members_is_not_deleted(
    server: Server, client: RawClient, group: str, topic: str, version: int
) -> None:
    client.create_topic(topic)
    with classic_member(server, group, [TopicPartition(topic, 0)]):
        assert delete(client, version, group) == {group: ErrorCode.NON_EMPTY_GROUP}
        assert listed(client, 4)[group].group_state == "Stable"
    assert listed(client, 4)[group].group_state == "Empty"
    assert delete(client, version, group) == {group: ErrorCode.NONE}
    assert group not in listed(client, 4)


def test_a_deleted_group_stays_deleted(own_server: Server, topic: str) -> None:
    with own_server.running(), RawClient(own_server) as client:
        client.create_topic(topic)
        await_coordinator(client, "kept")
        with classic_member(own_server, "gone", [TopicPartition(topic, 0)]):
            pass
        for group in ("kept", "gone"):
            commit(client, group, topic)
        assert delete(client, 2, "gone") == {"gone": ErrorCode.NONE}
    with own_server.running(), RawClient(own_server) as client:
        await_coordinator(client, "kept")
        answer = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = client.call(ListGroupsRequest(), 4, ListGroupsResponse)
        assert [each.group_id for each in answer.groups] == ["kept"]
