"""What to do when a partition's leader has answered a marker: a table.

Read by MarkerDispatch; pure. Kafka: TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from barnabas.protocol.errors import ErrorCode


class MarkerOutcome(enum.Enum):
    """The consequence of an answer.

    - WRITTEN: the partition has its marker, or can never have one.
    - RETRY: the leader is another one, or is not ready.
    - GIVE_UP: another coordinator ends this transaction.
    """

    WRITTEN = "written"
    RETRY = "retry"
    GIVE_UP = "give up"


_OUTCOMES: Final[Mapping[ErrorCode, MarkerOutcome]] = {
    ErrorCode.NONE: MarkerOutcome.WRITTEN,
    # The producer cannot have written to a log of this format.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerOutcome.WRITTEN,
    ErrorCode.UNSUPPORTED_VERSION: MarkerOutcome.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerOutcome.GIVE_UP,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerOutcome.GIVE_UP,
}


def outcome_of(error: ErrorCode) -> MarkerOutcome:
    """Return the consequence of a leader's answer.

    An error that is not in the table is retried: Kafka ends its sending thread over one, and every later transaction of
    the broker waits for ever.
    """
    return _OUTCOMES.get(error, MarkerOutcome.RETRY)
