"""The requests of a group's member, in the version that the coordinator and this client agree on. Pure.

Called by `MemberSession`, `OffsetCommits` and `CoordinatorLookup`. Each function returns a RequestBuilder: the class of
the message, the function that makes the message for one version, and the versions that can carry it.
Kafka: JoinGroupRequest.Builder, OffsetCommitRequest.Builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.clients.consumer.group.committing_member import Generation
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.rpc.client_request import RequestBuilder

_GROUP_KEY = 0
# FindCoordinator v4 looks up several keys in one request (KIP-699).
_FIND_BATCHED_SINCE = 4
# OffsetCommit and OffsetFetch v10 name topics by their ids (KIP-848), which this client does not keep.
_LAST_VERSION_WITH_TOPIC_NAMES = 9
# LeaveGroup v3 names several members (KIP-345).
_LEAVE_BATCHED_SINCE = 3
# OffsetFetch v8 asks for several groups (KIP-709), v7 for stable offsets only (KIP-447).
_OFFSET_FETCH_GROUPS_SINCE = 8
_STABLE_SINCE = 7
# The first versions with a group instance id, without which a static member would join as a dynamic one (KIP-345):
# JoinGroup v5, SyncGroup and Heartbeat v3, OffsetCommit v7.
_JOIN_INSTANCE_SINCE = 5
_INSTANCE_SINCE = 3
_COMMIT_INSTANCE_SINCE = 7
# Kafka's clients cut reasons to 255 characters before they send them (KIP-800).
_LONGEST_REASON = 255


def find_coordinator(group_id: str) -> RequestBuilder:
    """Return a request for the group's coordinator, in every version."""

    def build(version: int) -> Message:
        if version >= _FIND_BATCHED_SINCE:
            return FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=[group_id])
        return FindCoordinatorRequest(key=group_id, key_type=_GROUP_KEY)

    return RequestBuilder(FindCoordinatorRequest, build, (0, FindCoordinatorRequest.max_version))


def join_group(
    config: GroupRebalanceConfig, member_id: str, protocols: Iterable[tuple[str, bytes]], reason: str
) -> RequestBuilder:
    """Return a JoinGroup with a name and metadata for each assignor, the preferred first."""
    message = JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
        reason=reason[:_LONGEST_REASON],
    )
    return _of(message, _JOIN_INSTANCE_SINCE if config.group_instance_id is not None else 0)


def sync_group(
    config: GroupRebalanceConfig, generation: Generation, assignments: Mapping[str, bytes]
) -> RequestBuilder:
    """Return a request for this member's assignment. The leader's has the assignments of all members."""
    message = SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol_name,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id, data) for member_id, data in assignments.items()
        ],
    )
    return _of(message, _INSTANCE_SINCE if config.group_instance_id is not None else 0)


def heartbeat(config: GroupRebalanceConfig, generation: Generation) -> RequestBuilder:
    """Return a request that keeps the member's session alive."""
    message = HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )
    return _of(message, _INSTANCE_SINCE if config.group_instance_id is not None else 0)


def leave_group(config: GroupRebalanceConfig, member_id: str, reason: str) -> RequestBuilder:
    """Return a LeaveGroup, in every version."""

    def build(version: int) -> Message:
        if version < _LEAVE_BATCHED_SINCE:
            return LeaveGroupRequest(group_id=config.group_id, member_id=member_id)
        leaver = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=config.group_instance_id, reason=reason[:_LONGEST_REASON]
        )
        return LeaveGroupRequest(group_id=config.group_id, members=[leaver])

    return RequestBuilder(LeaveGroupRequest, build, (0, LeaveGroupRequest.max_version))


def offset_commit(
    config: GroupRebalanceConfig, generation: Generation | None, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> RequestBuilder:
    """Return a commit. Without a generation, it is that of a consumer that chose its partitions itself."""
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        entry = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(topic, []).append(entry)
    instance_id = config.group_instance_id if generation is not None else None
    message = OffsetCommitRequest(
        group_id=config.group_id,
        generation_id_or_member_epoch=-1 if generation is None else generation.id,
        member_id="" if generation is None else generation.member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    oldest = _COMMIT_INSTANCE_SINCE if instance_id is not None else 0
    return RequestBuilder(OffsetCommitRequest, lambda _: message, (oldest, _LAST_VERSION_WITH_TOPIC_NAMES))


def offset_fetch(
    group_id: str, partitions: Iterable[TopicPartition], generation: Generation | None = None
) -> RequestBuilder:
    """Return a request for committed offsets: from v7 on, only for those that no open transaction may change.

    A `generation` lets the coordinator of a consumer group reject the request of a member that is out of date.
    """
    indexes = by_topic(partitions)

    def build(version: int) -> Message:
        if version < _OFFSET_FETCH_GROUPS_SINCE:
            return OffsetFetchRequest(
                group_id=group_id,
                topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name, each) for name, each in indexes.items()],
                require_stable=version >= _STABLE_SINCE,
            )
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=each)
            for name, each in indexes.items()
        ]
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        if generation is not None:
            # Versions before 9 leave the identity out (KIP-848).
            group.member_id, group.member_epoch = generation.member_id, generation.id
        return OffsetFetchRequest(groups=[group], require_stable=True)

    return RequestBuilder(OffsetFetchRequest, build, (1, _LAST_VERSION_WITH_TOPIC_NAMES))


def _of(message: Message, oldest: int) -> RequestBuilder:
    return RequestBuilder(type(message), lambda _: message, (oldest, type(message).max_version))
