"""The errors that users of a transactional producer get when a transaction or the producer fails. Pure.

Made by `TransactionManager`.
"""

from __future__ import annotations

from typing import TypeVar

from barnabas.clients.errors import (
    ProducerFenced,
    TransactionAbortable,
    TransactionAborted,
    TransactionalProducerFailed,
)
from barnabas.protocol.errors import ApiError, ErrorCode

_Failure = TypeVar("_Failure", bound=Exception)

_DROPPED = "The transaction was aborted before this was sent."
_ABORT = "The transaction cannot be committed: call abort_transaction, then begin another."
_CLOSE = "The producer cannot go on: close it, and make another."
_FENCED = (
    "Another producer with the same transactional_id has taken over, or the transaction timed out: close this one."
)
_FATAL_CODES = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def is_fatal_of_batch(cause: Exception) -> bool:
    """Return whether no transaction of this producer can succeed after a batch has failed with this error."""
    return isinstance(cause, ApiError) and (cause.code in _FATAL_CODES or is_fencing(cause))


def is_fencing(cause: Exception) -> bool:
    """Return whether the error says that another producer has taken over."""
    return isinstance(cause, ApiError) and cause.code is ErrorCode.PRODUCER_FENCED


def abortable_failure(cause: Exception) -> TransactionAbortable:
    """Return the error of a transaction that can only be aborted."""
    return _chained(TransactionAbortable(f"{cause} {_ABORT}"), cause)


def fatal_failure(cause: Exception, *, is_fenced: bool) -> TransactionalProducerFailed:
    """Return the error of a producer that can never go on."""
    error = ProducerFenced(_FENCED) if is_fenced else TransactionalProducerFailed(f"{cause} {_CLOSE}")
    return _chained(error, cause)


def dropped() -> TransactionAborted:
    """Return the error of what an abort drops."""
    return TransactionAborted(_DROPPED)


def copy_of(error: Exception) -> Exception:
    """Return a copy to raise: several threads may raise the same error."""
    return _chained(type(error)(str(error)), error.__cause__)


def _chained(error: _Failure, cause: BaseException | None) -> _Failure:
    error.__cause__ = cause
    return error
