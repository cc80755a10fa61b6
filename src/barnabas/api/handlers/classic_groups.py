"""The classic group protocol. JoinGroup: v0-9. SyncGroup: v0-5. Heartbeat: v0-4. LeaveGroup: v0-5.

Brief: a group is small, and a request that has to wait for other members waits in a purgatory, on no thread. In a large
group a join, sync or leave may answer very many members at once, so a request handler does it. All need READ on the
group.

JoinGroup v1: a rebalance timeout of its own.
JoinGroup v4: new members get their id first (KIP-394).
JoinGroup v5: static members (KIP-345).
JoinGroup v7: the protocol's type and name (KIP-559).
JoinGroup v8: a reason (KIP-800).
JoinGroup v9: a static leader that returns to a stable group has nothing to assign (KIP-814).
SyncGroup v3: static members.
SyncGroup v5: the protocol's type and name are required.
Heartbeat v3: static members.
LeaveGroup v3: several members.
LeaveGroup v5: a reason.

Kafka: KafkaApis.handleJoinGroupRequest and its siblings, GroupCoordinatorAdapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.api.authorize import Authorizer, is_allowed
from barnabas.api.brief import BRIEF, JOINING_MEMBER_US, LEAVING_MEMBER_US, check_cost
from barnabas.api.request import Handler, Request
from barnabas.coordinator.group.classic.classic_group_member import (
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    LeftMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

REBALANCE_TIMEOUT_SINCE = 1
KNOWN_MEMBER_ID_SINCE = 4
NULLABLE_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9
PROTOCOL_IN_SYNC_SINCE = 5
SEVERAL_LEAVE_SINCE = 3


class ClassicGroupsApi:
    """Joins, syncs, heartbeats and leaves of members of classic groups."""

    def __init__(self, groups: ClassicGroupService, authorizer: Authorizer | None) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.JOIN_GROUP, self.join_group, brief=BRIEF),
            Handler(ApiKey.SYNC_GROUP, self.sync_group, brief=BRIEF),
            Handler(ApiKey.HEARTBEAT, self.heartbeat, brief=BRIEF),
            Handler(ApiKey.LEAVE_GROUP, self.leave_group, brief=BRIEF),
        )

    # -- JoinGroup

    def join_group(self, request: Request[JoinGroupRequest]) -> None:
        """Join; answered when the group has agreed on a generation. Raises ApiError: GROUP_AUTHORIZATION_FAILED."""
        body, version = request.body, request.api_version
        self._require_permission(request, body.group_id)
        self._check_cost(request, body.group_id)

        def answer(joined: JoinAnswer) -> None:
            request.respond(_join_response(joined, version))

        terms = JoinTerms(
            group_id=body.group_id,
            member_id=body.member_id,
            group_instance_id=body.group_instance_id,
            client_id=request.header.client_id or "",
            # Java's InetAddress.toString: tools show the host of a member with a slash before it.
            client_host=f"/{request.connection.client_address}",
            session_timeout_ms=body.session_timeout_ms,
            rebalance_timeout_ms=(
                # Before KIP-62 one timeout was both.
                body.rebalance_timeout_ms if version >= REBALANCE_TIMEOUT_SINCE else body.session_timeout_ms
            ),
            protocol_type=body.protocol_type,
            # Copies: the member lives longer than the frame.
            protocols=tuple((each.name, bytes(each.metadata)) for each in body.protocols),
            # A static member is known by its instance id: a second request would tell nothing new (KIP-345).
            needs_known_member_id=version >= KNOWN_MEMBER_ID_SINCE and body.group_instance_id is None,
            can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE,
            reason=body.reason,
        )
        self._groups.join_group(terms, request.deferred(answer))

    # -- SyncGroup

    def sync_group(self, request: Request[SyncGroupRequest]) -> None:
        """Give or get the assignment; answered when the leader's is stored.

        Raises ApiError: INCONSISTENT_GROUP_PROTOCOL when v5 lacks a protocol, GROUP_AUTHORIZATION_FAILED.
        """
        body = request.body
        # Before the permission, as in Kafka.
        if request.api_version >= PROTOCOL_IN_SYNC_SINCE and (body.protocol_type is None or body.protocol_name is None):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._require_permission(request, body.group_id)
        self._check_cost(request, body.group_id)

        def answer(synced: SyncAnswer) -> None:
            request.respond(
                SyncGroupResponse(
                    error_code=synced.error,
                    protocol_type=synced.protocol_type,
                    protocol_name=synced.protocol_name,
                    assignment=synced.assignment,
                )
            )

        terms = SyncTerms(
            group_id=body.group_id,
            generation=body.generation_id,
            member_id=body.member_id,
            group_instance_id=body.group_instance_id,
            protocol_type=body.protocol_type,
            protocol_name=body.protocol_name,
            assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
        )
        self._groups.sync_group(terms, request.deferred(answer))

    # -- Heartbeat

    def heartbeat(self, request: Request[HeartbeatRequest]) -> None:
        """Keep the member's session alive. Raises ApiError: GROUP_AUTHORIZATION_FAILED."""
        body = request.body
        self._require_permission(request, body.group_id)
        error = self._groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
        request.respond(HeartbeatResponse(error_code=error))

    # -- LeaveGroup

    def leave_group(self, request: Request[LeaveGroupRequest]) -> None:
        """Let members leave, or an administrator remove them. Raises ApiError: GROUP_AUTHORIZATION_FAILED."""
        body = request.body
        self._require_permission(request, body.group_id)
        if request.brief:
            check_cost(len(body.members) * LEAVING_MEMBER_US)
        self._check_cost(request, body.group_id)

        def answer(left: LeaveAnswer) -> None:
            request.respond(_leave_response(left, request.api_version))

        self._groups.leave_group(body.group_id, _leaving(request), request.deferred(answer))

    def _check_cost(self, request: Request[Any], group_id: str) -> None:
        """Raise NeedsHandlerThread when very many members of the group may have to be answered at once."""
        if request.brief:
            check_cost(self._groups.member_count(group_id) * JOINING_MEMBER_US)

    def _require_permission(self, request: Request[Any], group_id: str) -> None:
        """Check READ on the group. Raises ApiError: GROUP_AUTHORIZATION_FAILED."""
        authorizer = self._authorizer
        if authorizer is not None and not is_allowed(
            authorizer, request, AclOperation.READ, ResourceType.GROUP, group_id
        ):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _join_response(joined: JoinAnswer, version: int) -> JoinGroupResponse:
    protocol_name = joined.protocol_name
    if protocol_name is None and version < NULLABLE_PROTOCOL_SINCE:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol_name,
        leader=joined.leader or "",
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(each.member_id, each.group_instance_id, each.metadata) for each in joined.members
        ],
    )


def _leaving(request: Request[LeaveGroupRequest]) -> Sequence[LeavingMember]:
    body = request.body
    if request.api_version < SEVERAL_LEAVE_SINCE:
        return [LeavingMember(body.member_id)]
    return [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in body.members]


def _leave_response(left: LeaveAnswer, version: int) -> LeaveGroupResponse:
    if version < SEVERAL_LEAVE_SINCE:
        # Old versions have one member, whose error is that of the whole answer.
        return LeaveGroupResponse(error_code=left.error or left.members[0].error)
    return LeaveGroupResponse(error_code=left.error, members=[_left_member(each) for each in left.members])


def _left_member(left: LeftMember) -> MemberResponse:
    return MemberResponse(left.member_id, left.group_instance_id, left.error)
