"""The fifth stage of a broker's start: producer ids, and what exists of the transaction coordinator from the start.

Built by BrokerServer on the main thread, before the sockets; the coordinator comes with the first need of it
(`transaction_coordinator_builder`). Kafka: the part of KafkaServer.startup about TransactionCoordinator;
TransactionMarkerChannelManager and TransactionStateManager (metrics).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.foundations import Foundations
from barnabas.broker.stages.replication_stage import ReplicationStage
from barnabas.broker.stages.storage_stage import StorageStage
from barnabas.config.setting import Settings, setting
from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.metadata.topic_name import TRANSACTION_STATE_TOPIC
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.runtime.clock import Clock
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.coordinator.runtime.coordinator_loader import RecentLoads
    from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
    from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator, TransactionCounts
    from barnabas.metadata.producer_ids import ProducerIdManager


class TransactionTopicConfig(Settings):
    """The topic that keeps transactional ids."""

    partitions: int = setting("transaction.state.log.num.partitions")


class TransactionStage(NamedTuple):
    """The producer ids that this broker hands out, and the transactional ids that it coordinates."""

    producer_ids: Lazy[ProducerIdManager]
    coordinator: LateCoordinator[TransactionCoordinator]
    """Notified of leaderships from now on; its `startup` is called when requests come."""


def build_transactions(
    foundations: Foundations, storage: StorageStage, replication: ReplicationStage
) -> TransactionStage:
    """Build the stage. The coordinator is told of every change of leadership from now on."""
    broker_id = storage.identity.broker_id

    def new_producer_ids() -> ProducerIdManager:
        from barnabas.metadata.producer_ids import ProducerIdManager

        return ProducerIdManager(broker_id, storage.zk_client)

    producer_ids = Lazy(new_producer_ids)
    count = TransactionTopicConfig.from_kafka_config(foundations.dynamic.current).partitions

    def build(partitions: CoordinatorPartitions) -> TransactionCoordinator:
        from barnabas.broker.stages.transaction_coordinator_builder import build_transaction_coordinator

        return build_transaction_coordinator(foundations, replication, broker_id, partitions, producer_ids().generate)

    coordinator = LateCoordinator(TRANSACTION_STATE_TOPIC, replication.metadata, count, build)

    def counts() -> TransactionCounts | None:
        return None if coordinator.built is None else coordinator.built.counts

    register_transaction_metrics(foundations.metrics, counts, foundations.clock)
    # Last: a leadership may change on another thread from here on.
    replication.replicas.orders.listeners.add(coordinator.leadership_changed)
    foundations.lifecycle.on_stop("transaction coordinator", coordinator.shutdown)
    return TransactionStage(producer_ids, coordinator)


_MARKER_METRICS: Final = ("kafka.coordinator.transaction", "TransactionMarkerChannelManager")
_LOAD_METRICS: Final = ("kafka.server", "transaction-coordinator-metrics")


def register_transaction_metrics(
    registry: MetricsRegistry, counts: Callable[[], TransactionCounts | None], clock: Clock
) -> None:
    """Register the metrics by Kafka's names. Threads that read them compute them from plain numbers, without a lock.

    counts: returns None before the coordinator is built; the metrics are 0 then.
    """

    def of(count: Callable[[TransactionCounts], int]) -> Callable[[], int]:
        def read() -> int:
            present = counts()
            return 0 if present is None else count(present)

        return read

    text = "Markers of transactions that wait for their partition's leader"
    registry.register(
        *_MARKER_METRICS, "UnknownDestinationQueueSize", text, of(lambda each: each.unknown_destinations())
    )
    text = "Transactions with all markers whose log did not take that they are complete"
    registry.register(*_MARKER_METRICS, "LogAppendRetryQueueSize", text, of(lambda each: each.append_retries()))

    def loads(of_recent: Callable[[RecentLoads], float]) -> float:
        present = counts()
        if present is None:
            return 0
        from barnabas.coordinator.runtime.coordinator_loader import recent_loads

        return of_recent(recent_loads(present.load_times, clock.nanoseconds()))

    longest, mean = "partition-load-time-max", "partition-load-time-avg"
    text = "Mean milliseconds that loading a partition's transactions took, over half a minute"
    registry.register_attribute(
        *_LOAD_METRICS, longest, "Longest of these", lambda: loads(lambda recent: recent.longest_ms)
    )
    registry.register_attribute(*_LOAD_METRICS, mean, text, lambda: loads(lambda recent: recent.mean_ms))
