"""Lists, describes and deletes groups, and removes members; what a group is like in both protocols.

Part of `Admin`. Kafka: DescribeConsumerGroupsHandler, DeleteConsumerGroupsHandler,
RemoveMembersFromConsumerGroupHandler, GroupListing, ConsumerGroupDescription, MemberDescription.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from barnabas.clients.admin.admin_calls import AdminCalls, AdminPart
from barnabas.clients.admin.group_coordinators import CoordinatedIds
from barnabas.clients.errors import error_in, raise_error
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.classic_groups import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import UnsupportedVersion
from barnabas.rpc.connection_states import Node

CLASSIC = "classic"
CONSUMER = "consumer"
_CONSUMER_PROTOCOL_MEMBER = 1


class GroupListing(NamedTuple):
    """One group in a list. `state` and `type` are empty where the broker is too old to say (Kafka 2.5, 3.7)."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupMember(NamedTuple):
    """A member of a group. Fields that only one of the protocols has are None in the other.

    `assignment`: the partitions that it has. `target_assignment`: those that it shall have. `is_classic`: whether this
    member of a consumer group speaks the classic protocol.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    is_classic: bool | None = None
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None


class GroupDescription(NamedTuple):
    """One group. `assignor`: a classic group's protocol name too. The epochs are None in classic groups."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


def classic_description(group: DescribeGroupsResponse.DescribedGroup, coordinator: Node) -> GroupDescription:
    """Return a group as DescribeGroups describes it. Raises DecodeError for an assignment that cannot be read."""
    of_consumers = group.protocol_type == PROTOCOL_TYPE
    members = tuple(
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            # The assignment is empty while the group rebalances.
            tuple(sorted(decode_assignment(member.member_assignment).partitions))
            if of_consumers and member.member_assignment
            else (),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id, CLASSIC, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
    )


def consumer_description(group: ConsumerGroupDescribeResponse.DescribedGroup, coordinator: Node) -> GroupDescription:
    """Return a group as ConsumerGroupDescribe describes it."""
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        tuple(map(_consumer_member, group.members)),
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: ConsumerGroupDescribeResponse.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        # -1: the first version of the answer does not say which protocol a member speaks.
        None if member.member_type < 0 else member.member_type != _CONSUMER_PROTOCOL_MEMBER,
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex,
    )


def _partitions(assignment: ConsumerGroupDescribeResponse.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


DEAD = "Dead"
# ListGroups v4 filters by states (KIP-518), v5 by types (KIP-848). A request of an earlier version has no filter, and
# its answer would list all groups.
_STATES_SINCE = 4
_TYPES_SINCE = 5
# LeaveGroup v3 names several members (KIP-345).
_BATCHED_LEAVE_SINCE = 3


class AdminGroups(AdminPart):
    """The methods of `Admin` about groups and their members."""

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return all groups, or those of these states and types, sorted by id. Raises ApiError."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        oldest = _TYPES_SINCE if types else _STATES_SINCE if states else ListGroupsRequest.min_version
        # By id, because a group whose coordinator changes between two requests is in both answers.
        found = {}
        # Each broker lists only the groups that it coordinates.
        answers = self._calls.ask_all_coordinators(
            request, ListGroupsResponse, lambda answer: answer.error_code, (oldest, ListGroupsRequest.max_version)
        )
        for broker_id, answer in answers.items():
            raise_error(answer.error_code, None, f"Broker: {broker_id}")
            for group in answer.groups:
                found[group.group_id] = GroupListing(
                    group.group_id, group.protocol_type, group.group_state, group.group_type
                )
        return [found[group_id] for group_id in sorted(found)]

    def describe_groups(self, group_ids: Collection[str]) -> dict[str, GroupDescription]:
        """Return the state and the members of groups, of either protocol. Raises ApiError for an unknown group."""
        # Each group is requested as one of the consumer protocol first, and as a classic one if it is not.
        described = _consumer_groups(self._calls, group_ids)
        described |= _classic_groups(self._calls, [group_id for group_id in group_ids if group_id not in described])
        return {group_id: described[group_id] for group_id in group_ids}

    def delete_groups(self, group_ids: Collection[str]) -> dict[str, ApiError | None]:
        """Delete groups with their offsets. Returns each group's error, or None.

        A group with members has the error NON_EMPTY_GROUP. Raises ApiError when a coordinator cannot be found.
        """

        def results_in(answer: DeleteGroupsResponse) -> Iterator[tuple[str, int, int]]:
            for result in answer.results:
                yield result.group_id, result.error_code, result.error_code

        answers = self._calls.ask_coordinators(
            CoordinatedIds(group_ids), lambda groups: DeleteGroupsRequest(groups_names=list(groups)), results_in
        )
        return {group_id: error_in(code, None, f"Group: {group_id}") for group_id, (_, code) in answers.items()}

    def remove_group_members(
        self, group_id: str, instance_ids: Collection[str] | None = None, *, reason: str = ""
    ) -> dict[str, ApiError | None]:
        """Remove static members by their instance ids, or all members. Members that are alive join again.

        Returns each member's error, or None. Raises ApiError when no member was removed at all.
        """
        reason = f"member was removed by an admin: {reason}" if reason else "member was removed by an admin"
        if instance_ids is None:
            # A static member is named by its instance id alone: the coordinator would compare a member id too.
            leaving = [
                LeaveGroupRequest.MemberIdentity(
                    "" if member.instance_id else member.member_id, member.instance_id, reason
                )
                for member in self.describe_groups([group_id])[group_id].members
            ]
        else:
            leaving = [LeaveGroupRequest.MemberIdentity("", instance_id, reason) for instance_id in instance_ids]
        if not leaving:
            return {}

        answer = self._calls.ask_coordinator(
            group_id,
            LeaveGroupRequest(group_id=group_id, members=leaving),
            LeaveGroupResponse,
            lambda answer: (answer.error_code,),
            (_BATCHED_LEAVE_SINCE, LeaveGroupRequest.max_version),
        )
        raise_error(answer.error_code, None, f"Group: {group_id}")
        results = {}
        for member in answer.members:
            name = member.group_instance_id or member.member_id
            results[name] = error_in(member.error_code, None, f"Member: {name}")
        return results


def _consumer_groups(calls: AdminCalls, group_ids: Collection[str]) -> dict[str, GroupDescription]:
    def results_in(
        answer: ConsumerGroupDescribeResponse,
    ) -> Iterator[tuple[str, int, ConsumerGroupDescribeResponse.DescribedGroup]]:
        for group in answer.groups:
            yield group.group_id, group.error_code, group

    try:
        answers = calls.ask_coordinators(
            CoordinatedIds(group_ids), lambda groups: ConsumerGroupDescribeRequest(group_ids=list(groups)), results_in
        )
    # A broker without the consumer protocol has classic groups only.
    except UnsupportedVersion:
        return {}
    described = {}
    for group_id, (coordinator, group) in answers.items():
        # Both errors mean that this is not a group of the consumer protocol: it may be a classic one.
        if group.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise_error(group.error_code, group.error_message, f"Group: {group_id}")
            described[group_id] = consumer_description(group, coordinator)
    return described


def _classic_groups(calls: AdminCalls, group_ids: Collection[str]) -> dict[str, GroupDescription]:
    def results_in(answer: DescribeGroupsResponse) -> Iterator[tuple[str, int, DescribeGroupsResponse.DescribedGroup]]:
        for group in answer.groups:
            yield group.group_id, group.error_code, group

    answers = calls.ask_coordinators(
        CoordinatedIds(group_ids), lambda groups: DescribeGroupsRequest(groups=list(groups)), results_in
    )
    described = {}
    for group_id, (coordinator, group) in answers.items():
        # Before v6, a group that does not exist was described as a dead one.
        missing = group.group_state == DEAD and not group.error_code
        code = ErrorCode.GROUP_ID_NOT_FOUND if missing else group.error_code
        raise_error(code, group.error_message, f"Group: {group_id}")
        described[group_id] = classic_description(group, coordinator)
    return described
