"""Error codes and the exceptions that carry them."""

from __future__ import annotations

import gc
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


def test_the_text_of_an_error_fits_into_every_answer() -> None:
    long = ApiError(ErrorCode.INVALID_REQUEST, "\U0001f600" * 100_000)
    assert len(long.message.encode()) <= 32_767
    assert long.message.endswith("...")
    assert ApiError(ErrorCode.INVALID_REQUEST, "y" * 8000).message == "y" * 8000


def test_errors_kept_as_values_leave_no_garbage() -> None:
    def refuse() -> None:
        try:
            int("nonsense")
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no number") from None

    def refuse_all() -> list[ApiError]:
        errors = []
        for _ in range(100):
            try:
                refuse()
            except ApiError as error:
                errors.append(error.as_value())
        return errors

    gc.collect()
    gc.disable()
    try:
        assert [error.message for error in refuse_all()] == ["no number"] * 100
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_api_keys_are_kafkas() -> None:
    assert [int(key) for key in ApiKey] == list(range(93))
    assert (ApiKey.API_VERSIONS, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DELETE_SHARE_GROUP_OFFSETS) == (18, 79, 92)
