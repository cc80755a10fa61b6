"""The table of what becomes of a batch."""

from __future__ import annotations

import pytest

from barnabas.clients.producer.batches.producer_batch import Completion, completion_of
from barnabas.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "record_count", "is_done", "may_retry", "expected"),
    [
        (ErrorCode.NONE, 1, False, True, Completion.SUCCEED),
        (ErrorCode.NONE, 1, True, False, Completion.SUCCEED),
        (ErrorCode.MESSAGE_TOO_LARGE, 2, False, False, Completion.SPLIT),
        (ErrorCode.MESSAGE_TOO_LARGE, 2, True, False, Completion.FAIL),
        (ErrorCode.MESSAGE_TOO_LARGE, 1, False, False, Completion.FAIL),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, False, True, Completion.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, False, False, Completion.FAIL),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 1, False, False, Completion.SUCCEED),
        (ErrorCode.INVALID_RECORD, 1, False, False, Completion.FAIL),
    ],
)
def test_completion(error: ErrorCode, record_count: int, is_done: bool, may_retry: bool, expected: Completion) -> None:
    assert completion_of(error, record_count=record_count, is_done=is_done, may_retry=may_retry) is expected


def test_a_batch_that_may_be_stored_is_not_split() -> None:
    for error, expected in (
        (ErrorCode.MESSAGE_TOO_LARGE, Completion.FAIL),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Completion.SUCCEED),
    ):
        completion = completion_of(error, record_count=2, is_done=False, may_retry=False, may_be_stored=True)
        assert completion is expected
