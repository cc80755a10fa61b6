"""What the admin client does about groups, on scripted brokers: whom it asks, what it waits for, what it raises."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.group_offset_reset import ResetTo, ShiftBy, ToOffset, ToTimestamp, plan_reset
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import Assignment, encode_assignment
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.classic_groups import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import ScriptedCluster

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
REQUESTS = (
    FindCoordinatorRequest,
    ListGroupsRequest,
    DescribeGroupsRequest,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetDeleteRequest,
)


class Coordinators:
    """Two brokers; groups whose names begin with `b` belong to the second. `errors` meet the next answers."""

    def __init__(self, *requests: Any) -> None:
        self.cluster = ScriptedCluster({"t": [0, 1]}, brokers=2, extra=requests or REQUESTS)
        self.errors: list[ErrorCode] = []
        self.find_errors: list[ErrorCode] = []
        self.committed: dict[TopicPartition, int] = {}
        self.cluster.handlers |= {
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.DESCRIBE_GROUPS: self.describe,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe_consumers,
            ApiKey.DELETE_GROUPS: self.delete,
            ApiKey.LEAVE_GROUP: self.leave,
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
            ApiKey.OFFSET_DELETE: self.delete_offsets,
        }
        self.admin = Admin("", client=self.cluster.client(), timeout_ms=5_000)

    def next_error(self) -> int:
        return int(self.errors.pop(0)) if self.errors else 0

    def find(self, request: Any) -> FindCoordinatorResponse:
        error = int(self.find_errors.pop(0)) if self.find_errors else 0
        keys = request.body.coordinator_keys or [request.body.key]
        found = [
            FindCoordinatorResponse.Coordinator(key, int(key.startswith("b")), "127.0.0.1", 9092, error, None)
            for key in keys
        ]
        if request.header.api_version >= 4:
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(node_id=found[0].node_id, host="127.0.0.1", port=9092, error_code=error)

    def list_groups(self, request: Any) -> ListGroupsResponse:
        name = {"0": "a", "1": "b"}[request.connection_id]
        group = ListGroupsResponse.ListedGroup(name, "consumer", "Stable", "classic")
        return ListGroupsResponse(error_code=self.next_error(), groups=[group])

    def describe(self, request: Any) -> DescribeGroupsResponse:
        assignment = encode_assignment(Assignment((SECOND, FIRST)))
        members = [
            DescribeGroupsResponse.DescribedGroupMember("m", None, "client", "/127.0.0.1", b"", assignment),
            DescribeGroupsResponse.DescribedGroupMember("n", "instance", "client", "/127.0.0.1", b"", b""),
        ]
        return DescribeGroupsResponse(
            groups=[
                DescribeGroupsResponse.DescribedGroup(self.next_error(), None, name, "Dead", "", "", [])
                if name == "a-missing"
                else DescribeGroupsResponse.DescribedGroup(
                    self.next_error(), None, name, "Stable", "consumer", "range", members
                )
                for name in request.body.groups
            ]
        )

    def describe_consumers(self, request: Any) -> ConsumerGroupDescribeResponse:
        partitions = [ConsumerGroupDescribeResponse.TopicPartitions(b"\1" * 16, "t", [1, 0])]
        member = ConsumerGroupDescribeResponse.Member(
            "m",
            member_epoch=4,
            client_id="client",
            client_host="/127.0.0.1",
            subscribed_topic_names=["t"],
            assignment=ConsumerGroupDescribeResponse.Assignment([]),
            target_assignment=ConsumerGroupDescribeResponse.Assignment(partitions),
            member_type=1,
        )
        return ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroupDescribeResponse.DescribedGroup(0, None, name, "Stable", 5, 4, "uniform", [member])
                if name.endswith("new")
                else ConsumerGroupDescribeResponse.DescribedGroup(int(ErrorCode.GROUP_ID_NOT_FOUND), group_id=name)
                for name in request.body.group_ids
            ]
        )

    def delete(self, request: Any) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeleteGroupsResponse.DeletableGroupResult(name, self.next_error()) for name in request.body.groups_names
            ]
        )

    def leave(self, request: Any) -> LeaveGroupResponse:
        return LeaveGroupResponse(
            error_code=self.next_error(),
            members=[
                LeaveGroupResponse.MemberResponse(each.member_id, each.group_instance_id, self.next_error())
                for each in request.body.members
            ],
        )

    def commit(self, request: Any) -> OffsetCommitResponse:
        topics = []
        for topic in request.body.topics:
            for each in topic.partitions:
                self.committed[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
            partitions = [
                OffsetCommitResponse.OffsetCommitResponsePartition(each.partition_index, self.next_error())
                for each in topic.partitions
            ]
            topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def fetch(self, request: Any) -> OffsetFetchResponse:
        asked = {
            TopicPartition(topic.name, index)
            for topic in request.body.topics or ()
            for index in topic.partition_indexes
        }
        partitions = [
            OffsetFetchResponse.OffsetFetchResponsePartition(
                place.partition, self.committed.get(place, -1), -1, "", self.next_error()
            )
            for place in sorted(asked if request.body.topics is not None else self.committed)
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponse.OffsetFetchResponseTopic("t", partitions)])

    def delete_offsets(self, request: Any) -> OffsetDeleteResponse:
        topics = [
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(each.partition_index, self.next_error())
                    for each in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
        return OffsetDeleteResponse(error_code=self.next_error(), topics=topics)

    def asked(self, api_key: ApiKey) -> list[str]:
        return [request.connection_id for request in self.cluster.sent(api_key)]


def test_every_broker_lists_its_groups() -> None:
    setting = Coordinators()
    setting.errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    found = setting.admin.list_groups(states=["Stable"], types=["classic"])
    assert [(group.group_id, group.state, group.type) for group in found] == [
        ("a", "Stable", "classic"),
        ("b", "Stable", "classic"),
    ]
    assert sorted(setting.asked(ApiKey.LIST_GROUPS)) == ["0", "0", "1"]
    setting.errors = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        setting.admin.list_groups()


def test_groups_of_both_protocols_are_described_by_their_coordinators() -> None:
    setting = Coordinators()
    described = setting.admin.describe_groups(["b", "a-new", "a"])
    assert list(described) == ["b", "a-new", "a"]
    classic, modern = described["b"], described["a-new"]
    assert (classic.type, classic.assignor, classic.coordinator.id, classic.group_epoch) == (
        "classic",
        "range",
        1,
        None,
    )
    assert [(member.member_id, member.assignment) for member in classic.members] == [("m", (FIRST, SECOND)), ("n", ())]
    assert (modern.type, modern.assignor, modern.group_epoch, modern.target_assignment_epoch) == (
        "consumer",
        "uniform",
        5,
        4,
    )
    (member,) = modern.members
    assert (member.assignment, member.target_assignment, member.is_classic) == ((), (FIRST, SECOND), False)
    assert sorted(setting.asked(ApiKey.CONSUMER_GROUP_DESCRIBE)) == ["0", "1"]
    assert [request.body.groups for request in setting.cluster.sent(ApiKey.DESCRIBE_GROUPS)] == [["b"], ["a"]]


def test_brokers_that_know_the_classic_protocol_alone() -> None:
    setting = Coordinators(*(request for request in REQUESTS if request is not ConsumerGroupDescribeRequest))
    assert setting.admin.describe_groups(["a-new"])["a-new"].type == "classic"
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        setting.admin.describe_groups(["a-missing"])


def test_what_passes_is_waited_for_and_the_coordinator_is_looked_up_again() -> None:
    setting = Coordinators()
    setting.find_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    setting.errors = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP]
    results = setting.admin.delete_groups(["a", "a2"])
    assert results["a2"] is None
    assert results["a"] is not None
    assert results["a"].code is ErrorCode.NON_EMPTY_GROUP
    assert len(setting.cluster.sent(ApiKey.FIND_COORDINATOR)) == 3
    setting.find_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
    with pytest.raises((ApiError, ClientTimeout)):
        setting.admin.delete_groups(["a"])
    setting.find_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError, match="Group: a"):
        setting.admin.delete_groups(["a"])


def test_members_are_sent_away() -> None:
    setting = Coordinators()
    setting.errors = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    results = setting.admin.remove_group_members("a", ["one", "two"], reason="late")
    assert results["one"] is None
    assert results["two"] is not None
    leaving = setting.cluster.sent(ApiKey.LEAVE_GROUP)[0].body.members
    assert [(each.member_id, each.group_instance_id, each.reason) for each in leaving] == [
        ("", "one", "member was removed by an admin: late"),
        ("", "two", "member was removed by an admin: late"),
    ]
    assert setting.admin.remove_group_members("a") == {"m": None, "instance": None}
    leaving = setting.cluster.sent(ApiKey.LEAVE_GROUP)[1].body.members
    assert [(each.member_id, each.group_instance_id) for each in leaving] == [("m", None), ("", "instance")]


def test_offsets_are_committed_read_and_deleted() -> None:
    setting = Coordinators()
    setting.errors = [ErrorCode.NOT_COORDINATOR]
    assert setting.admin.alter_group_offsets("b", {FIRST: 5, SECOND: OffsetAndMetadata(7, "why", 3)}) == {
        FIRST: None,
        SECOND: None,
    }
    assert setting.asked(ApiKey.OFFSET_COMMIT) == ["1", "1"]
    (topic,) = setting.cluster.sent(ApiKey.OFFSET_COMMIT)[-1].body.topics
    assert topic.partitions[1].committed_metadata == "why"
    setting.errors = [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    committed = setting.admin.list_group_offsets("b", require_stable=True)
    assert {place: each.offset for place, each in committed.items()} == {FIRST: 5, SECOND: 7}
    assert setting.admin.list_group_offsets("b", [FIRST, TopicPartition("t", 9)]).keys() == {FIRST}
    setting.errors = [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    results = setting.admin.delete_group_offsets("b", [FIRST, SECOND])
    assert (results[FIRST] is not None, results[SECOND]) == (True, None)


def test_where_a_group_shall_go_on() -> None:
    setting = Coordinators()
    setting.cluster.logs.clear()
    ends = {FIRST: 0, SECOND: 0}
    setting.committed = {FIRST: 4}
    partitions = [FIRST, SECOND]
    assert plan_reset(setting.admin, "a", partitions, ResetTo.EARLIEST) == ends
    assert plan_reset(setting.admin, "a", partitions, ResetTo.CURRENT) == {FIRST: 4, SECOND: 0}
    assert plan_reset(setting.admin, "a", partitions, ToOffset(9)) == ends  # no more than the partitions hold
    assert plan_reset(setting.admin, "a", partitions, ToTimestamp(5)) == ends  # no record: the end
    assert plan_reset(setting.admin, "a", [FIRST], ShiftBy(-9)) == {FIRST: 0}
    assert plan_reset(setting.admin, "a", [], {SECOND: 3}) == {SECOND: 0}
    with pytest.raises(ValueError, match="Cannot shift offset for partition t-1"):
        plan_reset(setting.admin, "a", partitions, ShiftBy(1))


def test_brokers_that_know_no_batches_find_one_coordinator_at_a_time() -> None:
    setting = Coordinators()
    versions = setting.cluster.handlers[ApiKey.API_VERSIONS]

    def old_versions(request: Any) -> Any:
        answer = versions(request)
        for api in answer.api_keys:
            if api.api_key == ApiKey.FIND_COORDINATOR:
                api.max_version = 3
        return answer

    setting.cluster.handlers[ApiKey.API_VERSIONS] = old_versions
    assert setting.admin.delete_groups(["a", "b"]) == {"a": None, "b": None}
    assert [request.body.key for request in setting.cluster.sent(ApiKey.FIND_COORDINATOR)] == ["a", "b"]
