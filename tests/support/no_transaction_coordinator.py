"""A verifier of transactions that cannot confirm any: for handlers that are tested without a coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.api.transaction_verification import VerificationErrors
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition


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
