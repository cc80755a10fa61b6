"""The transaction coordinator of a broker: its services, how they start and stop together, and its metrics.

Made by `broker.transaction_stage`, which hands the services to the request handlers, and registers the metrics once;
started and stopped on the main thread. Immutable; each service says which lock guards it.
Kafka: TransactionCoordinator (startup, shutdown, onElection, onResignation); TransactionMarkerChannelManager and
TransactionStateManager (metrics).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.coordinator.runtime.loader import CoordinatorLoader, LoadTimes, RecentLoads, recent_loads
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.transaction.held_back_answers import DelayedRefusal
from barnabas.coordinator.transaction.marker_sender import MarkerSender
from barnabas.coordinator.transaction.transaction_admin import TransactionAdmin
from barnabas.coordinator.transaction.transaction_expiry import TransactionExpiry
from barnabas.coordinator.transaction.transaction_metadata import RAISES_EPOCH_SINCE, ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_service import TransactionService, VerificationErrors
from barnabas.coordinator.transaction.verification_sender import Question, VerificationSender
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler

ASK_AGAIN_MS: Final = 20
"""The pause before another broker is asked again (Kafka: add.partitions.to.txn.retry.backoff.ms)."""


@dataclass(frozen=True, slots=True)
class TransactionCoordinator:
    """The services for the transactional ids of this broker."""

    partitions: CoordinatorPartitions
    loader: CoordinatorLoader
    transactions: TransactionService
    markers: MarkerSender
    verifications: VerificationSender
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
        self.verifications.shutdown()

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

        The coordinator of another broker is asked over the network. While the producer's transaction before is being
        ended, the refusal of an addition is held back: by the coordinator's own broker until the end
        (`DelayedRefusal`), by another for a moment.
        """
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        if self.partitions.check(transactional_id) is ErrorCode.NOT_COORDINATOR:

            def answered(refused: VerificationErrors) -> None:
                if adds and ErrorCode.CONCURRENT_TRANSACTIONS in refused.values():
                    # The leader asks again at once.
                    self.scheduler.schedule("verification-retry", partial(callback, refused), delay_ms=ASK_AGAIN_MS)
                else:
                    callback(refused)

            self.verifications.ask(Question(transactional_id, producer, partitions, adds, answered))
            return
        if not adds:
            callback(self.transactions.verify(transactional_id, producer, partitions))
            return

        def added(error: ErrorCode) -> None:
            callback({} if error is ErrorCode.NONE else dict.fromkeys(partitions, error))

        refusal = DelayedRefusal(added, self.scheduler)
        self.transactions.add_partitions(
            transactional_id, producer, partitions, refusal.answer, client_version=RAISES_EPOCH_SINCE, waiter=refusal
        )


_MARKER_METRICS: Final = ("kafka.coordinator.transaction", "TransactionMarkerChannelManager")
_LOAD_METRICS: Final = ("kafka.server", "transaction-coordinator-metrics")


def register_transaction_metrics(
    registry: MetricsRegistry,
    unknown_destinations: Callable[[], int],
    append_retries: Callable[[], int],
    load_times: deque[LoadTimes],
    clock: Clock,
) -> None:
    """Register the metrics by Kafka's names. Threads that read them compute them from plain numbers, without a lock.

    unknown_destinations: the number of markers that wait for a leader. append_retries: that of complete transactions
    that their log has not taken. load_times: of the partitions that were loaded last.
    """
    text = "Markers of transactions that wait for their partition's leader"
    registry.register(*_MARKER_METRICS, "UnknownDestinationQueueSize", text, unknown_destinations)
    text = "Transactions with all markers whose log did not take that they are complete"
    registry.register(*_MARKER_METRICS, "LogAppendRetryQueueSize", text, append_retries)

    def loads() -> RecentLoads:
        return recent_loads(load_times, clock.nanoseconds())

    longest, mean = "partition-load-time-max", "partition-load-time-avg"
    text = "Mean milliseconds that loading a partition's transactions took, over half a minute"
    registry.register(*_LOAD_METRICS, longest, "Longest of these", lambda: loads().longest_ms, is_attribute=True)
    registry.register(*_LOAD_METRICS, mean, text, lambda: loads().mean_ms, is_attribute=True)
