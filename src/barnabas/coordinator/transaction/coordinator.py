"""The transaction coordinator of a broker: its services, and how they start and stop together.

Made by `broker.transaction_stage`, which hands the services to the request handlers; started and stopped on the main
thread. Immutable; each service says which lock guards it.
Kafka: TransactionCoordinator (startup, shutdown, onElection, onResignation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from barnabas.coordinator.runtime.loader import CoordinatorLoader
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.admin import TransactionAdmin
from barnabas.coordinator.transaction.delayed_refusal import DelayedRefusal
from barnabas.coordinator.transaction.expiry import TransactionExpiry
from barnabas.coordinator.transaction.markers.sender import MarkerSender
from barnabas.coordinator.transaction.metadata import RAISES_EPOCH_SINCE, ProducerIdAndEpoch
from barnabas.coordinator.transaction.service import TransactionService, VerificationErrors
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class TransactionCoordinator:
    """The services for the transactional ids of this broker."""

    partitions: CoordinatorPartitions
    loader: CoordinatorLoader
    transactions: TransactionService
    markers: MarkerSender
    expiry: TransactionExpiry
    admin: TransactionAdmin
    scheduler: Scheduler

    def startup(self) -> None:
        """Serve the ids whose partitions this broker leads. Until then clients get COORDINATOR_NOT_AVAILABLE."""
        self.markers.start()
        self.partitions.start()
        self.expiry.start()

    def shutdown(self) -> None:
        """Serve no transactional id any more."""
        self.partitions.stop()
        self.expiry.stop()
        self.loader.shutdown()
        self.markers.shutdown()

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
        """Answer a partition's leader before a producer's first append there (`api.transaction_verification`).

        This broker is asked for its own ids only: for another's it answers NOT_COORDINATOR, and the producer retries.
        While the producer's transaction before is being ended, the refusal of an addition is held back
        (`delayed_refusal`).
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        if not adds:
            callback(self.transactions.verify(transactional_id, producer, partitions))
            return

        def added(error: ErrorCode) -> None:
            callback({} if error is ErrorCode.NONE else dict.fromkeys(partitions, error))

        refusal = DelayedRefusal(added, self.scheduler)
        self.transactions.add_partitions(
            transactional_id, producer, partitions, refusal.answer, client_version=RAISES_EPOCH_SINCE, waiter=refusal
        )
