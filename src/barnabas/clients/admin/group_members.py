"""Descriptions of groups and their members, made from the answers of the two protocols.

Called by `group_admin`, on any thread; no state. Kafka: GroupListing, ConsumerGroupDescription, MemberDescription.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.group_admin import DescribeGroupsResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node

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
