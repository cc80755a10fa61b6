"""Error codes and the exceptions that carry them."""

from __future__ import annotations

import pickle

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode


def test_codes_have_kafkas_numbers_marks_and_texts() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.retriable
    assert ErrorCode.NONE.message == ""
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message == "This server does not host this topic-partition."
    assert all(code.message for code in ErrorCode if code is not ErrorCode.NONE)


def test_an_api_error_falls_back_to_the_codes_text() -> None:
    assert ApiError(ErrorCode.INVALID_REQUEST, "why").message == "why"
    plain = ApiError(ErrorCode.NOT_CONTROLLER)
    assert plain.message == ErrorCode.NOT_CONTROLLER.message
    assert str(plain) == "NOT_CONTROLLER: This is not the correct controller for this cluster."
    assert pickle.loads(pickle.dumps(plain)).code is ErrorCode.NOT_CONTROLLER


def test_api_keys_are_kafkas() -> None:
    assert [int(key) for key in ApiKey] == list(range(93))
    assert (ApiKey.API_VERSIONS, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DELETE_SHARE_GROUP_OFFSETS) == (18, 79, 92)
