"""The transaction coordinator's metrics by Kafka's names.

Registered once by `broker.transaction_stage`; computed by the threads that read them, from plain numbers and a copy of
the load times, without a lock. Kafka: TransactionMarkerChannelManager, TransactionStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.coordinator.runtime.load_times import LoadTimes, RecentLoads, recent_loads
from barnabas.metrics.metrics_registry import MetricsRegistry
from barnabas.runtime.clock import Clock

_MARKERS: Final = ("kafka.coordinator.transaction", "TransactionMarkerChannelManager")
_ATTRIBUTES: Final = ("kafka.server", "transaction-coordinator-metrics")


def register_transaction_metrics(
    registry: MetricsRegistry,
    unknown_destinations: Callable[[], int],
    append_retries: Callable[[], int],
    load_times: deque[LoadTimes],
    clock: Clock,
) -> None:
    """Register the metrics.

    unknown_destinations: the number of markers that wait for a leader. append_retries: that of complete transactions
    that their log has not taken. load_times: of the partitions that were loaded last.
    """
    registry.gauge(*_MARKERS, "UnknownDestinationQueueSize", unknown_destinations)
    registry.gauge(*_MARKERS, "LogAppendRetryQueueSize", append_retries)

    def loads() -> RecentLoads:
        return recent_loads(load_times, clock.nanoseconds())

    registry.attribute(*_ATTRIBUTES, "partition-load-time-max", lambda: loads().longest_ms)
    registry.attribute(*_ATTRIBUTES, "partition-load-time-avg", lambda: loads().mean_ms)
