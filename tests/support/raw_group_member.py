"""A member of a group that speaks either protocol over a RawClient, for tests of what others see of it.

It is alone in its group, takes what it is to read by itself (classic) or as it is given (consumer), reads nothing, and
sends no heartbeats: its session outlives any test.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from barnabas.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess

PATIENCE_SECONDS = 30
SESSION_TIMEOUT_MS = 45_000
_JOIN, _SYNC, _LEAVE, _FIND = 9, 5, 5, 4
_HEARTBEAT, _DESCRIBE = 0, 5
_JOINING, _LEAVING = 0, -1


def await_coordinator(client: RawClient, group_id: str) -> None:
    """Return when the group has a coordinator that knows it: the first look-up of a cluster's life makes it a place."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        (found,) = client.call(find, _FIND, FindCoordinatorResponse).coordinators
        (group,) = client.call(DescribeGroupsRequest([group_id]), _DESCRIBE, DescribeGroupsResponse).groups
        if not found.error_code and not group.error_code:
            return
        assert time.monotonic() < deadline, (found, group)
        time.sleep(0.05)


@contextmanager
def classic_member(
    server: ServerProcess,
    group_id: str,
    partitions: Sequence[TopicPartition],
    instance_id: str | None = None,
) -> Iterator[str]:
    """Inside the block a member of the classic protocol has these partitions; its id."""
    with RawClient(server) as client:
        await_coordinator(client, group_id)
        topics = tuple(dict.fromkeys(place.topic for place in partitions))
        protocol = JoinGroupRequest.JoinGroupRequestProtocol("range", encode_subscription(Subscription(topics)))
        joined = JoinGroupResponse()
        for _ in range(2):  # a dynamic member is told its id first
            request = JoinGroupRequest(
                group_id, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, joined.member_id, instance_id, "consumer", [protocol]
            )
            joined = client.call(request, _JOIN, JoinGroupResponse)
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        assert joined.error_code == ErrorCode.NONE, joined
        member_id = joined.member_id
        assignment = encode_assignment(Assignment(tuple(partitions)))
        shares = [SyncGroupRequest.SyncGroupRequestAssignment(member_id, assignment)]
        sync = SyncGroupRequest(
            group_id, joined.generation_id, member_id, instance_id, "consumer", "range", assignments=shares
        )
        synced = client.call(sync, _SYNC, SyncGroupResponse)
        assert synced.error_code == ErrorCode.NONE, synced
        yield member_id
        leaving = [LeaveGroupRequest.MemberIdentity(member_id, instance_id)]
        client.call(LeaveGroupRequest(group_id, members=leaving), _LEAVE, LeaveGroupResponse)


@contextmanager
def consumer_member(server: ServerProcess, group_id: str, topics: Sequence[str]) -> Iterator[str]:
    """Inside the block a member of the consumer protocol (KIP-848) has all partitions of these topics; its id."""
    with RawClient(server) as client:
        await_coordinator(client, group_id)
        member_id = str(uuid.uuid4())
        epoch, owned = _JOINING, None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while owned is None:
            assert time.monotonic() < deadline
            request = ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                subscribed_topic_names=list(topics),
                topic_partitions=[],
            )
            answer = client.call(request, _HEARTBEAT, ConsumerGroupHeartbeatResponse)
            assert answer.error_code == ErrorCode.NONE, answer
            member_id = answer.member_id or member_id
            epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                owned = [
                    ConsumerGroupHeartbeatRequest.TopicPartitions(each.topic_id, each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
        has = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, topic_partitions=owned
        )
        assert client.call(has, _HEARTBEAT, ConsumerGroupHeartbeatResponse).error_code == ErrorCode.NONE
        yield member_id
        gone = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=_LEAVING)
        client.call(gone, _HEARTBEAT, ConsumerGroupHeartbeatResponse)
