"""What errors in answers mean for a transactional producer, as one table, and the errors that its users get. Pure.

`TransactionRequests` reads the table; `TransactionManager` makes the users' errors.
Kafka: the response handlers of TransactionManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from barnabas.clients.errors import (
    ProducerFenced,
    TransactionAbortable,
    TransactionAborted,
    TransactionalProducerFailed,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode

_Failure = TypeVar("_Failure", bound=Exception)

_DROPPED_TEXT = "The transaction was aborted before this was sent."
_ABORT_ADVICE = "The transaction cannot be committed: call abort_transaction, then begin another."
_CLOSE_ADVICE = "The producer cannot go on: close it, and make another."
_FENCED_TEXT = (
    "Another producer with the same transactional_id has taken over, or the transaction timed out: close this one."
)
_FATAL_CODES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class Outcome(IntEnum):
    """The consequence of an answer. Of several errors in one answer, the one with the highest outcome decides."""

    DONE = 0
    ABORT = 1
    """The transaction cannot be committed; the next one may succeed."""
    ABORT_AND_RAISE_EPOCH = 2
    """As ABORT; and the producer needs a higher epoch before its next transaction (KIP-360)."""
    RETRY = 3
    WAIT_FOR_PREVIOUS = 4
    """The coordinator still ends the previous transaction: retry, after a wait shorter than the usual one."""
    REDISCOVER = 5
    """Look for the coordinator again, then retry."""
    FENCED = 6
    """Another producer has taken over the transactional id: this one can never go on."""
    FAIL = 7
    """The producer can never go on."""


_COORDINATOR = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Outcome.REDISCOVER,
    ErrorCode.NOT_COORDINATOR: Outcome.REDISCOVER,
    ErrorCode.INVALID_PRODUCER_EPOCH: Outcome.FENCED,
    ErrorCode.PRODUCER_FENCED: Outcome.FENCED,
}
# The coordinator has forgotten the transactional id (transactional.id.expiration.ms). A new epoch makes it known again.
_FORGOTTEN = {
    ErrorCode.UNKNOWN_PRODUCER_ID: Outcome.ABORT_AND_RAISE_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Outcome.ABORT_AND_RAISE_EPOCH,
    ErrorCode.TRANSACTION_ABORTABLE: Outcome.ABORT,
}

OUTCOMES: dict[ApiKey, dict[ErrorCode, Outcome]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Outcome.ABORT,
        ErrorCode.TRANSACTION_ABORTABLE: Outcome.ABORT,
    },
    ApiKey.INIT_PRODUCER_ID: _COORDINATOR | {ErrorCode.CONCURRENT_TRANSACTIONS: Outcome.RETRY},
    ApiKey.ADD_PARTITIONS_TO_TXN: _COORDINATOR
    | _FORGOTTEN
    | {
        ErrorCode.CONCURRENT_TRANSACTIONS: Outcome.WAIT_FOR_PREVIOUS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Outcome.ABORT,
        ErrorCode.OPERATION_NOT_ATTEMPTED: Outcome.ABORT,
        ErrorCode.INVALID_TXN_STATE: Outcome.FAIL,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Outcome.FAIL,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: _COORDINATOR
    | _FORGOTTEN
    | {
        ErrorCode.CONCURRENT_TRANSACTIONS: Outcome.WAIT_FOR_PREVIOUS,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Outcome.ABORT,
    },
    ApiKey.TXN_OFFSET_COMMIT: _COORDINATOR
    | _FORGOTTEN
    | {
        ErrorCode.CONCURRENT_TRANSACTIONS: Outcome.WAIT_FOR_PREVIOUS,
        # The group's coordinator could not replicate the offsets in time: it may be losing its leadership.
        ErrorCode.REQUEST_TIMED_OUT: Outcome.REDISCOVER,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Outcome.ABORT,
        ErrorCode.FENCED_INSTANCE_ID: Outcome.ABORT,
        ErrorCode.UNKNOWN_MEMBER_ID: Outcome.ABORT,
        ErrorCode.ILLEGAL_GENERATION: Outcome.ABORT,
        ErrorCode.STALE_MEMBER_EPOCH: Outcome.ABORT,
    },
    ApiKey.END_TXN: _COORDINATOR | _FORGOTTEN,
}


def outcome_of(api: ApiKey, error: ErrorCode) -> Outcome:
    """Return the outcome of one error in an answer of this API."""
    if error is ErrorCode.NONE:
        return Outcome.DONE
    known = OUTCOMES[api].get(error)
    if known is not None:
        return known
    if error.retriable:
        return Outcome.RETRY
    # A partition that cannot be added spoils its transaction, and not the producer.
    return Outcome.ABORT if api is ApiKey.ADD_PARTITIONS_TO_TXN else Outcome.FAIL


def decisive_error(api: ApiKey, errors: Iterable[ErrorCode]) -> ErrorCode:
    """Return the error of an answer that decides. NONE without any."""

    def rank(error: ErrorCode) -> tuple[Outcome, bool]:
        # OPERATION_NOT_ATTEMPTED only says that another partition of the request has the real error.
        return outcome_of(api, error), error is not ErrorCode.OPERATION_NOT_ATTEMPTED

    return max(errors, key=rank, default=ErrorCode.NONE)


def is_fatal_of_batch(cause: Exception) -> bool:
    """Return whether no transaction of this producer can succeed after a batch has failed with this error."""
    return isinstance(cause, ApiError) and (cause.code in _FATAL_CODES or is_fencing(cause))


def is_fencing(cause: Exception) -> bool:
    """Return whether the error says that another producer has taken over."""
    return isinstance(cause, ApiError) and cause.code is ErrorCode.PRODUCER_FENCED


def abortable_failure(cause: Exception) -> TransactionAbortable:
    """Return the error of a transaction that can only be aborted."""
    return _chained(TransactionAbortable(f"{cause} {_ABORT_ADVICE}"), cause)


def fatal_failure(cause: Exception, *, is_fenced: bool) -> TransactionalProducerFailed:
    """Return the error of a producer that can never go on."""
    error = ProducerFenced(_FENCED_TEXT) if is_fenced else TransactionalProducerFailed(f"{cause} {_CLOSE_ADVICE}")
    return _chained(error, cause)


def dropped_failure() -> TransactionAborted:
    """Return the error of what an abort drops."""
    return TransactionAborted(_DROPPED_TEXT)


def copy_of_failure(error: Exception) -> Exception:
    """Return a copy to raise: several threads may raise the same error."""
    return _chained(type(error)(str(error)), error.__cause__)


def _chained(error: _Failure, cause: BaseException | None) -> _Failure:
    error.__cause__ = cause
    return error
