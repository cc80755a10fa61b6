"""An answer that cannot be made later, when nobody above knows the request any more, is an error answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection


class Waiting(DelayedOperation):
    """Completes when its time is over."""

    def __init__(self, complete: Callable[[], None]) -> None:
        super().__init__(100)
        self._complete = complete

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self._complete()


class Throttle:
    """Charging fails."""

    def charge(self, request: Request[Any], response: Message | None) -> None:
        raise ZeroDivisionError


def request_for(channel: RecordingChannel, handler: Handler) -> Request[CreateTopicsRequest]:
    body = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("t", 1, 1)], 1000)
    frame = encode_request_header(ApiKey.CREATE_TOPICS, 5, 1, "me") + b"".join(map(bytes, body.encode(5)))
    return RequestParser(Registry([handler])).parse(frame, connection(), channel=channel, received_ns=1)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ZeroDivisionError("oh"), (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)),
        (ApiError(ErrorCode.NOT_CONTROLLER, "no more"), (ErrorCode.NOT_CONTROLLER, "no more")),
    ],
)
def test_what_fails_when_a_delayed_operation_completes_is_answered(
    failure: Exception, told: tuple[ErrorCode, str]
) -> None:
    clock, channel = MockClock(), RecordingChannel()
    timer = SystemTimer(clock, lambda task: task())
    purgatory: DelayedOperationPurgatory[Waiting] = DelayedOperationPurgatory("test", timer)

    def answer() -> None:
        raise failure

    def wait(request: Request[Any]) -> None:
        purgatory.try_complete_else_watch(Waiting(request.deferred(answer)), ["key"])

    handler = Handler(ApiKey.CREATE_TOPICS, wait)
    request = request_for(channel, handler)
    request.handler.handle(request)
    assert not channel.frames
    clock.advance(101)
    timer.advance()
    (topic,) = channel.answer().topics
    assert (topic.error_code, topic.error_message) == told
    request.respond(CreateTopicsResponse())
    assert channel.events == ["send"], "it has been answered"


def test_a_client_that_waits_for_no_answer_loses_its_connection() -> None:
    channel = RecordingChannel()
    handler = Handler(ApiKey.CREATE_TOPICS, lambda request: None, error_answer=lambda request, error: None)
    request = request_for(channel, handler)

    def answer(result: int) -> None:
        raise ZeroDivisionError

    request.deferred(answer)(1)
    assert channel.events == ["close"]


def test_a_client_that_cannot_be_charged_is_answered() -> None:
    channel = RecordingChannel()
    handler = Handler(ApiKey.CREATE_TOPICS, lambda request: None)
    handler.throttle = Throttle()  # type: ignore[assignment]  # as far as it is called
    request_for(channel, handler).respond(CreateTopicsResponse())
    assert channel.answer().topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ZeroDivisionError):
        request_for(channel, handler).no_response()
    assert channel.events == ["send", "no_op"], "the connection is read on"
