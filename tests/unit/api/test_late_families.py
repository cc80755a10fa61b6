"""Late families: made by the first of their requests, once, and lines like any other afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.api.apis import Apis
from barnabas.api.brief import BRIEF
from barnabas.api.gates import ControlPlaneApis
from barnabas.api.large_requests import LargeRequests, Undecoded
from barnabas.api.registry import HandlerFamily, LateFamilies, Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_log import RequestLog
from barnabas.api.request_parser import RequestParser
from barnabas.broker.stages import api_table
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.action_queue import ActionQueue
from tests.support.recording_channel import RecordingChannel, connection

DESCRIBED, DELETED = ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS


class Groups:
    """A family of two APIs; the deletions are brief, and have an error answer of their own."""

    def __init__(self) -> None:
        self.bodies: list[Message] = []

    def handlers(self) -> Sequence[Handler]:
        return (
            Handler(DESCRIBED, self._describe),
            Handler(DELETED, self._delete, brief=BRIEF, error_answer=lambda request, error: DeleteGroupsResponse()),
        )

    def _describe(self, request: Request[Any]) -> None:
        self.bodies.append(request.body)
        request.respond(DescribeGroupsResponse())

    def _delete(self, request: Request[Any]) -> None:
        raise RuntimeError("every deletion fails")


class Broker:
    """The family behind the parser."""

    def __init__(self, make: Callable[[], Sequence[HandlerFamily]] | None = None) -> None:
        self.family = Groups()
        self.made = 0
        self.channel = RecordingChannel()
        late = LateFamilies(("group_admin",), make or self.make, early=(ApiKey.LIST_GROUPS,))
        self.registry = Registry(late.handlers())
        self.apis = Apis(ActionQueue(), lambda: 1)
        self.parser = RequestParser(self.registry)

    def make(self) -> Sequence[HandlerFamily]:
        self.made += 1
        return (self.family,)

    def parse(self, message: Message) -> Request[Any]:
        frame = encode_request_header(message.api_key, 0, 1, "tester") + b"".join(map(bytes, message.encode(0)))
        return self.parser.parse(frame, connection(), channel=self.channel, received_ns=1)

    def receive(self, message: Message) -> Request[Any]:
        request = self.parse(message)
        self.apis.handle(request)
        return request


def test_the_first_request_is_left_to_a_handler_thread_and_makes_the_family() -> None:
    broker = Broker()
    request = broker.parse(DescribeGroupsRequest(groups=["a"]))
    assert (request.brief, type(request.body), broker.made) == (False, Undecoded, 0)
    broker.apis.handle(request)
    assert broker.made == 1
    assert broker.family.bodies == [DescribeGroupsRequest(groups=["a"])]
    assert broker.channel.events == ["send"]


def test_later_requests_for_any_of_its_apis_are_ordinary() -> None:
    broker = Broker()
    broker.receive(DescribeGroupsRequest())
    assert isinstance(broker.parse(DescribeGroupsRequest()).body, DescribeGroupsRequest)
    assert broker.parse(DeleteGroupsRequest()).brief
    broker.receive(DescribeGroupsRequest())
    assert broker.made == 1


def test_an_error_of_the_first_request_is_answered_as_the_family_says() -> None:
    broker = Broker()
    broker.receive(DeleteGroupsRequest(groups_names=["a"]))
    assert broker.channel.answer() == DeleteGroupsResponse()


def test_requests_that_come_at_once_make_it_once() -> None:
    makes = threading.Event()
    goes_on = threading.Event()

    def slowly() -> Sequence[HandlerFamily]:
        makes.set()
        assert goes_on.wait(10)
        return broker.make()

    broker = Broker(slowly)
    requests = [broker.parse(DescribeGroupsRequest(groups=[str(number)])) for number in range(8)]
    threads = [threading.Thread(target=broker.apis.handle, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    assert makes.wait(10)
    goes_on.set()
    for thread in threads:
        thread.join(10)
    assert broker.made == 1
    assert broker.channel.events == ["send"] * 8


def test_a_family_that_cannot_be_made_is_tried_again() -> None:
    failures = [ImportError("no such module")]

    def make() -> Sequence[HandlerFamily]:
        if failures:
            raise failures.pop()
        return broker.make()

    broker = Broker(make)
    broker.receive(DescribeGroupsRequest(groups=["a"]))
    assert broker.family.bodies == []
    broker.receive(DescribeGroupsRequest(groups=["a"]))
    assert broker.family.bodies == [DescribeGroupsRequest(groups=["a"])]


def test_the_control_plane_refuses_the_first_request_of_a_family_with_its_error_answer() -> None:
    broker = Broker()
    planes = ControlPlaneApis(broker.registry, broker.apis.handle, LargeRequests(RequestLog()))
    planes.handle(broker.parse(DescribeGroupsRequest(groups=["a"])))
    (group,) = broker.channel.answer().groups
    assert (group.group_id, group.error_code) == ("a", ErrorCode.INVALID_REQUEST)
    planes.handle(broker.parse(DeleteGroupsRequest(groups_names=["a"])))
    assert broker.channel.answer() == DeleteGroupsResponse()
    assert broker.family.bodies == []


@pytest.mark.interpreted
def test_the_table_lists_late_families_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[tuple[LateFamilies, Callable[[], Sequence[HandlerFamily]]]] = []

    def late(messages: Any, make: Callable[[], Sequence[HandlerFamily]], **rest: Any) -> LateFamilies:
        tables.append((LateFamilies(messages, make, **rest), make))
        return tables[-1][0]

    monkeypatch.setattr(api_table, "LateFamilies", late)
    api_table.build_registry(MagicMock())
    assert len(tables) > 15
    for table, make in tables:
        listed = {facts(line) for line in table.handlers()}
        assert listed == {facts(line) for family in make() for line in family.handlers()}


def facts(line: Handler) -> tuple[object, ...]:
    return line.api_key, line.min_version, line.max_version, line.listed, line.throttled_by
