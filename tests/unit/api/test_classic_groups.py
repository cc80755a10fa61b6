"""Requests to large groups are not handled on a network thread, heartbeats apart; refused ones do nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.brief import BUDGET_US, JOINING_MEMBER_US
from barnabas.api.handlers.classic_groups import ClassicGroupsApi
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from tests.support.classic_coordinator import GROUP, ClassicCoordinator
from tests.support.recording_channel import RecordingChannel, connection

REQUESTS: list[tuple[Message, bool]] = [
    (JoinGroupRequest(GROUP, 10_000, 10_000, protocol_type="consumer"), True),
    (SyncGroupRequest(GROUP, 1, "m"), True),
    (LeaveGroupRequest(GROUP, members=[LeaveGroupRequest.MemberIdentity("m")]), True),
    (HeartbeatRequest(GROUP, 1, "m"), False),
]


class Refusal(Authorizer):
    """Nobody may do anything; `asked` remembers what."""

    def __init__(self) -> None:
        self.asked: list[Action] = []

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        self.asked.extend(actions)
        return [False for _ in actions]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        raise AssertionError


class CountingChannel(RecordingChannel):
    """Counts the requests that were left to a handler."""

    resumed = 0

    def resume(self, continuation: object) -> None:
        self.resumed += 1
        assert callable(continuation)
        continuation()


def ask(coordinator: ClassicCoordinator, request: Message, authorizer: Refusal | None = None) -> CountingChannel:
    api = ClassicGroupsApi(coordinator.service, authorizer)
    channel, version = CountingChannel(), 4
    frame = encode_request_header(request.api_key, version, 1, "client") + b"".join(map(bytes, request.encode(version)))
    parsed = RequestParser(Registry(api.handlers())).parse(frame, connection(), channel=channel, received_ns=1)
    Apis(ActionQueue(), lambda: 1).handle(parsed)
    return channel


@pytest.mark.parametrize(("request_", "is_long"), REQUESTS)
def test_requests_to_a_large_group_are_left_to_a_handler(request_: Message, is_long: bool) -> None:
    coordinator = ClassicCoordinator(initial_rebalance_delay_ms=1)
    assert ask(coordinator, request_).resumed == 0
    for _ in range(BUDGET_US // JOINING_MEMBER_US + 1):
        coordinator.join()
    channel = ask(coordinator, request_)
    assert channel.resumed == is_long
    assert len(channel.frames) == 1


@pytest.mark.parametrize(("request_", "is_long"), REQUESTS)
def test_whoever_may_not_read_the_group_changes_nothing(request_: Message, is_long: bool) -> None:
    coordinator, refusal = ClassicCoordinator(), Refusal()
    answer = ask(coordinator, request_, refusal).answer()
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [action[:3] for action in refusal.asked] == [(AclOperation.READ, ResourceType.GROUP, GROUP)]
    assert coordinator.table.get(GROUP) is None
