"""The classic group protocol: join, sync, heartbeat, leave (KIP-62, KIP-345, KIP-394, KIP-559, KIP-800).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: JoinGroupRequest, HeartbeatRequest, LeaveGroupRequest, SyncGroupRequest and their responses, in
common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, field


# v1: rebalance timeout, apart from that of the session (KIP-62); v2: throttle time.
# v4: a request without a member id is answered MEMBER_ID_REQUIRED and an id, with which the client joins (KIP-394).
# v5: group instance id (KIP-345); v6: flexible; v7: protocol type and a nullable protocol name answered (KIP-559).
# v8: why the member joins (KIP-800); v9: a static leader that returns need not assign again (KIP-814).
class JoinGroupRequest(MessageSpec, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    group_id: str = field("0+")
    session_timeout_ms: Int32 = field("0+")
    rebalance_timeout_ms: Int32 = field("1+", ignorable=True, default=-1)
    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", nullable="5+", default=None)
    protocol_type: str = field("0+")
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = field("0+")
    reason: str | None = field("8+", nullable="8+", ignorable=True, default=None)

    class JoinGroupRequestProtocol(StructSpec):
        name: str = field("0+")
        metadata: bytes = field("0+")


class JoinGroupResponse(MessageSpec, api=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = field("2+", ignorable=True)
    error_code: Int16 = field("0+")
    generation_id: Int32 = field("0+", default=-1)
    protocol_type: str | None = field("7+", nullable="7+", ignorable=True, default=None)
    protocol_name: str | None = field("0+", nullable="7+").on_error(None)
    leader: str = field("0+")
    skip_assignment: bool = field("9+")
    member_id: str = field("0+")
    members: list[JoinGroupResponse.JoinGroupResponseMember] = field("0+")

    class JoinGroupResponseMember(StructSpec):
        member_id: str = field("0+")
        group_instance_id: str | None = field("5+", nullable="5+", ignorable=True, default=None)
        metadata: bytes = field("0+")


# v1: throttle time; v3: group instance id (KIP-345); v4: flexible.
class HeartbeatRequest(MessageSpec, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: str = field("0+")
    generation_id: Int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)


class HeartbeatResponse(MessageSpec, api=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")


# v1: throttle time; v3: several members, by instance id too, so that administrators can remove static ones (KIP-345).
# v4: flexible; v5: why a member leaves (KIP-800).
class LeaveGroupRequest(MessageSpec, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    group_id: str = field("0+")
    member_id: str = field("0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = field("3+")

    class MemberIdentity(StructSpec):
        member_id: str = field("3+")
        group_instance_id: str | None = field("3+", nullable="3+", default=None)
        reason: str | None = field("5+", nullable="5+", ignorable=True, default=None)


class LeaveGroupResponse(MessageSpec, api=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
    members: list[LeaveGroupResponse.MemberResponse] = field("3+")

    class MemberResponse(StructSpec):
        member_id: str = field("3+")
        group_instance_id: str | None = field("3+", nullable="3+")
        error_code: Int16 = field("3+")


# v1: throttle time; v3: group instance id (KIP-345); v4: flexible.
# v5: protocol type and name, which must be those of the generation, else INCONSISTENT_GROUP_PROTOCOL (KIP-559).
class SyncGroupRequest(MessageSpec, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    group_id: str = field("0+")
    generation_id: Int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    protocol_type: str | None = field("5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field("5+", nullable="5+", ignorable=True, default=None)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = field("0+")

    class SyncGroupRequestAssignment(StructSpec):
        member_id: str = field("0+")
        assignment: bytes = field("0+")


class SyncGroupResponse(MessageSpec, api=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0+")
    protocol_type: str | None = field("5+", nullable="5+", ignorable=True, default=None)
    protocol_name: str | None = field("5+", nullable="5+", ignorable=True, default=None)
    assignment: bytes = field("0+")


# By their own names, which compiled code uses: native classes are not nested (decisions/0009).
JoinGroupRequestProtocol = JoinGroupRequest.JoinGroupRequestProtocol
JoinGroupResponseMember = JoinGroupResponse.JoinGroupResponseMember
MemberIdentity = LeaveGroupRequest.MemberIdentity
MemberResponse = LeaveGroupResponse.MemberResponse
SyncGroupRequestAssignment = SyncGroupRequest.SyncGroupRequestAssignment
