"""The description of a consumer group for ConsumerGroupDescribe (KIP-848).

Called by `group_admin` under the group's lock; pure. Kafka: ConsumerGroup.asDescribedGroup,
ConsumerGroupMember.asConsumerGroupDescribeMember (4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The values of member_type, since v1: the protocol of the member."""

_Assignment = ConsumerGroupDescribeResponse.Assignment


def described_consumer_group(
    group: ConsumerGroup, default_assignor: str, topic_names: Mapping[bytes, str]
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    """Return the description. topic_names: of the topics that exist, by id; other topics are left out."""
    return ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_described_member(group, member, topic_names) for member in group.members.values()],
    )


def _described_member(
    group: ConsumerGroup, member: ConsumerGroupMember, topic_names: Mapping[bytes, str]
) -> ConsumerGroupDescribeResponse.Member:
    # A partition that the member has to give up is still its own.
    has: dict[bytes, list[int]] = {}
    for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, numbers in partitions.items():
            has.setdefault(topic_id, []).extend(numbers)
    return ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(has, topic_names),
        target_assignment=_assignment(group.target.of(member.member_id), topic_names),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topic_names: Mapping[bytes, str]) -> _Assignment:
    return _Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic_id, topic_name=topic_names[topic_id], partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if topic_id in topic_names
        ]
    )
