"""The registration of the metrics of replicas, logs and the process, and the task that updates rates.

Called by `replication_stage` on the main thread, once. Kafka registers each metric where its owner is made, in one
registry for all classes.
"""

from __future__ import annotations

from functools import partial

from barnabas.broker.linux_io import linux_io_counters
from barnabas.metrics.metrics_registry import TICK_INTERVAL_MS, MetricsRegistry
from barnabas.replica.fetcher.fetcher_metrics import register_fetcher_metrics, register_log_dir_move_metrics
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import register_replica_metrics
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.log_manager import LogManager
from barnabas.storage.storage_metrics import register_storage_metrics


def register_broker_metrics(
    registry: MetricsRegistry,
    replicas: ReplicaManager,
    log_manager: LogManager,
    scheduler: Scheduler,
    clock: Clock,
) -> None:
    """Register the metrics, and begin to compute rates."""
    register_replica_metrics(registry, replicas, clock)
    register_fetcher_metrics(registry, replicas.fetchers)
    register_log_dir_move_metrics(registry, replicas.moves)
    register_storage_metrics(registry, log_manager)
    for name in linux_io_counters():
        # `partial` binds the name now; a lambda in this loop would read the last one.
        registry.gauge("kafka.server", "KafkaServer", f"linux-disk-{name}", partial(_linux_io, name))
    scheduler.schedule("metrics-tick", lambda: registry.tick(clock.nanoseconds()), period_ms=TICK_INTERVAL_MS)


def _linux_io(name: str) -> float:
    return linux_io_counters().get(name, 0)
