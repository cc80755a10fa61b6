"""Every API has an error answer in every version it serves."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.api.request import Handler
from barnabas.broker.stages.api_table import build_registry
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.message_index import request_class, response_class
from barnabas.protocol.messages.message import Message
from tests.wire.random_messages import RandomMessages

# The compiled build takes no mock for a part of the broker, so its run leaves these tests out.
pytestmark = pytest.mark.interpreted
HANDLERS = [] if os.environ.get("BARNABAS_TESTS_COMPILED") else list(build_registry(MagicMock()))
CODE = ErrorCode.UNKNOWN_SERVER_ERROR
INSIDE = "[Errno 5] Input/output error: '/var/lib/barnabas/orders-0'"
"""The text of a defect, which is for the log alone."""
WITHOUT_ROOM = {(ApiKey.DESCRIBE_LOG_DIRS, 0), (ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Here the client sees an empty answer, as Kafka's does."""


def codes_in(value: Any) -> set[int]:
    if isinstance(value, list):
        return set().union(*map(codes_in, value))
    if not hasattr(value, "declarations"):
        return set()
    names = ("error_code", "partition_error_code")
    found: set[int] = {getattr(value, name) for name in names if hasattr(value, name)}
    return found.union(*(codes_in(getattr(value, name)) for name in value.declarations))


def requests_of(handler: Handler, version: int) -> list[Message]:
    messages = RandomMessages(seed=version)
    return [messages.make(request_class(handler.api_key), version) for _ in range(5)]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.api_key.name)
def test_every_version_has_an_error_answer_that_clients_can_read(handler: Handler) -> None:
    for version in range(handler.min_version, handler.max_version + 1):
        seen: set[int] = set()
        for body in requests_of(handler, version):
            if handler.api_key is ApiKey.PRODUCE:
                body.acks = 1  # type: ignore[attr-defined]
            request: Any = SimpleNamespace(body=body, api_version=version, handler=handler)
            answer = handler.error_answer(request, ApiError(CODE, INSIDE))
            assert answer is not None
            encoded = b"".join(map(bytes, answer.encode(version)))
            assert b"/var/lib" not in encoded
            decoded, end = response_class(handler.api_key).decode(encoded, version)
            assert end == len(encoded)
            seen |= codes_in(decoded)
        assert CODE in seen or (handler.api_key, version) in WITHOUT_ROOM


def test_an_unexpected_error_has_its_own_text_for_clients_and_all_of_it_for_the_log() -> None:
    error = ApiError(CODE, INSIDE)
    assert error.message == "The server experienced an unexpected error when processing the request."
    assert str(error) == f"UNKNOWN_SERVER_ERROR: {INSIDE}"
    named = ApiError(ErrorCode.INVALID_CONFIG, "retention.ms: x is no number")
    assert named.message == named.detail == "retention.ms: x is no number"


def test_a_producer_that_waits_for_no_answer_gets_none() -> None:
    (handler,) = (each for each in HANDLERS if each.api_key is ApiKey.PRODUCE)
    for body in requests_of(handler, 9):
        body.acks = 0  # type: ignore[attr-defined]
        request: Any = SimpleNamespace(body=body, api_version=9)
        assert handler.error_answer(request, ApiError(CODE)) is None
