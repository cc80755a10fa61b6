"""Consumers of the classic protocol in one group: no sockets, no threads, the broker's own ClassicGroupService."""

from __future__ import annotations

from typing import Any, ClassVar

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.classic.classic_coordinator import ConsumerCoordinator
from barnabas.coordinator.group.classic.classic_group_member import JoinAnswer, LeavingMember
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.message import Message
from tests.support.classic_coordinator import GROUP, Answers, ClassicCoordinator
from tests.support.scripted_selector import ScriptedChannel, SentRequest
from tests.support.simulated_group import Handler, SimulatedGroup


class RebalancingGroup(SimulatedGroup):
    """The group and its coordinator, whose timers follow the cluster's clock."""

    protocol = "classic"
    messages: ClassVar[tuple[type[Message], ...]] = (
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
    )

    def __init__(self, **topics: int) -> None:
        self.coordinator = ClassicCoordinator()
        self._waiting: dict[SentRequest, Answers] = {}
        """The joins and syncs that the coordinator has received, and may not have answered yet."""
        self._unanswered: dict[ScriptedChannel | None, SentRequest] = {}
        """The request that each connection waits for. As a broker does, the group looks at no later one until then."""
        super().__init__(**topics)

    def keep_time(self) -> None:
        """Let the coordinator's timers see what time the cluster's clock shows."""
        behind_ms = self.cluster.clock.milliseconds() - self.coordinator.clock.milliseconds()
        if behind_ms > 0:
            self.coordinator.advance(behind_ms)

    def expire(self, consumer: Consumer) -> None:
        """Remove a member from the group, as the end of its session would."""
        member_id = coordinator_of(consumer)._member.membership.generation.member_id
        if member_id and self.coordinator.table.get(GROUP) is not None:
            self.coordinator.leave(LeavingMember(member_id, consumer.config.group_instance_id))

    # -- answers

    def _protocol_handlers(self) -> dict[ApiKey, Handler]:
        return {
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.LEAVE_GROUP: self._leave,
        }

    def _answer(self, request: SentRequest, api_key: ApiKey, handler: Handler) -> Any:
        self.keep_time()
        if self._unanswered.setdefault(request.channel, request) is not request:
            return None
        answer = super()._answer(request, api_key, handler)
        if answer is not None:
            del self._unanswered[request.channel]
        return answer

    def _join(self, request: SentRequest) -> JoinGroupResponse | None:
        waiting = self._waiting.get(request)
        if waiting is None:
            error = self._error(ApiKey.JOIN_GROUP)
            if error:
                return JoinGroupResponse(error_code=error, member_id=request.body.member_id)
            waiting = self._waiting[request] = self._received_join(request.body)
        return None if waiting.is_waiting else _join_response(waiting.join)

    def _received_join(self, body: Any) -> Answers:
        return self.coordinator.join(
            body.member_id,
            body.group_instance_id,
            session_timeout_ms=body.session_timeout_ms,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            protocol_type=body.protocol_type,
            protocols=tuple((each.name, bytes(each.metadata)) for each in body.protocols),
            needs_known_member_id=body.group_instance_id is None,
            can_skip_assignment=True,
        )

    def _sync(self, request: SentRequest) -> SyncGroupResponse | None:
        waiting = self._waiting.get(request)
        if waiting is None:
            error = self._error(ApiKey.SYNC_GROUP)
            if error:
                return SyncGroupResponse(error_code=error)
            body = request.body
            waiting = self._waiting[request] = self.coordinator.sync(
                body.member_id,
                body.generation_id,
                {each.member_id: bytes(each.assignment) for each in body.assignments},
                body.group_instance_id,
                body.protocol_type,
                body.protocol_name,
            )
        if waiting.is_waiting:
            return None
        answer = waiting.sync
        return SyncGroupResponse(
            error_code=answer.error,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
            assignment=answer.assignment,
        )

    def _heartbeat(self, request: SentRequest) -> HeartbeatResponse:
        body = request.body
        error = self._error(ApiKey.HEARTBEAT) or self.coordinator.heartbeat(
            body.member_id, body.generation_id, body.group_instance_id
        )
        return HeartbeatResponse(error_code=error)

    def _leave(self, request: SentRequest) -> LeaveGroupResponse:
        error = self._error(ApiKey.LEAVE_GROUP)
        if error:
            return LeaveGroupResponse(error_code=error)
        left = self.coordinator.leave(
            *(LeavingMember(each.member_id, each.group_instance_id) for each in request.body.members)
        )
        members = [LeaveGroupResponse.MemberResponse(*each) for each in left.members]
        return LeaveGroupResponse(error_code=left.error, members=members)

    def _check_commit(self, member_id: str, instance: str | None, generation: int) -> ErrorCode:
        if self.coordinator.table.get(GROUP) is None:
            return ErrorCode.ILLEGAL_GENERATION
        return self.coordinator.group.check_offset_commit(member_id, instance, generation, is_transactional=False)

    def _check_fetch(self, member_id: str, epoch: int) -> ErrorCode:
        return ErrorCode.NONE


def coordinator_of(consumer: Consumer) -> ConsumerCoordinator:
    """The consumer's side of its group."""
    coordinator = consumer._coordinator
    assert isinstance(coordinator, ConsumerCoordinator)
    return coordinator


def _join_response(joined: JoinAnswer) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader or "",
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(each.member_id, each.group_instance_id, each.metadata)
            for each in joined.members
        ],
    )
