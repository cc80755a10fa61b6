"""The rules by which the sender ends, splits or retries a batch after the broker's answer. Pure. Kafka: Sender."""

from __future__ import annotations

from enum import Enum

from barnabas.protocol.errors import ErrorCode

FATE_UNKNOWN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""The errors after which a batch may be stored: no answer came, or the leader gave up waiting after the append."""


class Completion(Enum):
    """The next step of a batch after its answer."""

    SUCCEED = "succeed"
    SPLIT = "split"
    RETRY = "retry"
    FAIL = "fail"


def completion_of(
    error: ErrorCode, *, record_count: int, is_done: bool, may_retry: bool, may_be_stored: bool = False
) -> Completion:
    """Return the completion of the first rule that holds.

    may_be_stored: whether an earlier attempt of a batch with sequence numbers ended with an error of FATE_UNKNOWN.

    1. No error: the batch arrived.
    2. Too large, with more than one record, not ended meanwhile, and surely not stored: split it.
    3. The error may pass, and time and attempts are left (`may_retry`): retry.
    4. A duplicate sequence number: the batch arrived the first time, and the answer was lost.
    5. Otherwise the batch failed.
    """
    if error is ErrorCode.NONE:
        return Completion.SUCCEED
    # Too large for the broker's limit, which the client does not know. One record alone cannot be split, and fails
    # below. So does a batch that the broker may have stored under an earlier limit: the broker knows the repetition of
    # a whole batch by its numbers, but it would store the pieces behind that batch.
    if error is ErrorCode.MESSAGE_TOO_LARGE and record_count > 1 and not is_done and not may_be_stored:
        return Completion.SPLIT
    if may_retry:
        return Completion.RETRY
    if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Completion.SUCCEED
    return Completion.FAIL
