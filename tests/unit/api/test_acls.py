"""CreateAcls and DeleteAcls wait in their purgatory: for the writes, or until their time is up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from barnabas.api.handlers.acls import AclsApi
from barnabas.metadata.acl_admin import DeletedAcl
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from barnabas.purgatory.purgatory import DelayedFuturePurgatory
from barnabas.purgatory.timer import SystemTimer
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.support.mock_clock import MockClock

TIMEOUT_MS = 600_000


class SlowAdmin:
    """The keeper of lists whose store takes its time: the test says what came of a change."""

    def __init__(self) -> None:
        self.changes: list[Future[Any]] = []

    def create_soon(self, _bindings: object) -> Future[list[ApiError | None]]:
        return self._soon()

    def delete_soon(self, _filters: object) -> Future[list[list[DeletedAcl]]]:
        return self._soon()

    def _soon(self) -> Future[Any]:
        self.changes.append(Future())
        return self.changes[-1]


class WaitingRequest:
    """What the handlers need of a request."""

    def __init__(self, body: object) -> None:
        self.body = body
        self.answers: list[Any] = []

    def respond(self, answer: object) -> None:
        self.answers.append(answer)

    def deferred(self, answer: Callable[[], None]) -> Callable[[], None]:
        return answer


class Broker:
    """The handlers, without an authorizer that would ask who changes lists."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.admin = SlowAdmin()
        changes = DelayedFuturePurgatory("AlterAcls", self.timer)
        self.api = AclsApi(self.admin, None, changes, TIMEOUT_MS)  # type: ignore[arg-type]

    def create(self, *names: str) -> WaitingRequest:
        creations = [
            CreateAclsRequest.AclCreation(
                ResourceType.TOPIC,
                name,
                PatternType.LITERAL,
                "User:alice",
                "*",
                AclOperation.READ,
                AclPermissionType.ALLOW,
            )
            for name in names
        ]
        request = WaitingRequest(CreateAclsRequest(creations))
        self.api.create_acls(request)  # type: ignore[arg-type]
        return request

    def delete(self) -> WaitingRequest:
        everything = DeleteAclsRequest.DeleteAclsFilter(
            ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        request = WaitingRequest(DeleteAclsRequest([everything]))
        self.api.delete_acls(request)  # type: ignore[arg-type]
        return request

    def let_time_pass(self) -> None:
        self.clock.advance(TIMEOUT_MS + 1)
        self.timer.advance()


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_a_creation_is_answered_when_it_is_written(broker: Broker) -> None:
    request = broker.create("one", "", "two")
    assert request.answers == [], "the handler does not wait for the store"
    broker.admin.changes[0].set_result([None, ApiError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")])
    (answer,) = request.answers
    assert [each.error_code for each in answer.results] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert answer.results[1].error_message == "Invalid empty resource name"


def test_a_deletion_is_answered_when_it_is_written(broker: Broker) -> None:
    request = broker.delete()
    assert request.answers == []
    broker.admin.changes[0].set_result([[]])
    assert [each.error_code for each in request.answers[0].filter_results] == [0]


def test_a_change_that_takes_too_long_is_answered_once_with_a_time_out(broker: Broker) -> None:
    created, deleted = broker.create("one"), broker.delete()
    broker.let_time_pass()
    for change in broker.admin.changes:
        change.set_result([None])
    text = "Request has been timed out after 600000 ms"
    (answer,) = created.answers
    assert [(each.error_code, each.error_message) for each in answer.results] == [(ErrorCode.REQUEST_TIMED_OUT, text)]
    (answer,) = deleted.answers
    assert [each.error_code for each in answer.filter_results] == [ErrorCode.REQUEST_TIMED_OUT]
