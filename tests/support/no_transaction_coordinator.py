"""A verifier of transactions that cannot confirm any: for handlers that are tested without a coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.api.transaction_verification import TransactionVerifier, VerificationErrors
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition


class BuiltVerifier(NamedTuple):
    """A verifier that need not be built any more."""

    built: TransactionVerifier

    def __call__(self) -> TransactionVerifier:
        return self.built


class NoTransactionCoordinator:
    """The verifier of a broker without a coordinator of transactions: no transaction can be confirmed."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        callback: Callable[[VerificationErrors], None],
        *,
        adds: bool,
    ) -> None:
        """Answer COORDINATOR_NOT_AVAILABLE for every partition."""
        callback(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
