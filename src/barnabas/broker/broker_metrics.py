"""The registration of the metrics of replicas, logs, the process and its identity, and the task that updates rates.

Called by `replication_stage` on the main thread, once. Kafka registers each metric where its owner is made, in one
registry for all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas import __version__
from barnabas.broker.broker_identity import BrokerIdentity
from barnabas.metrics.metrics_registry import TICK_INTERVAL_MS, MetricsRegistry
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.replica_metrics import (
    register_fetcher_metrics,
    register_log_dir_move_metrics,
    register_replica_metrics,
)
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.storage.log_manager import LogManager
from barnabas.storage.storage_metrics import register_storage_metrics

LINUX_COUNTERS: Final = "/proc/self/io"
_COUNTED: Final = {"read_bytes": "read-bytes", "write_bytes": "write-bytes"}


def linux_io_counters() -> dict[str, int]:
    """Return the `read-bytes` and `write-bytes` of this process; nothing on other systems.

    Kafka: LinuxIoMetricsCollector.
    """
    try:
        with open(LINUX_COUNTERS, encoding="ascii") as counters:
            lines = [line.partition(": ") for line in counters]
    except OSError:
        # Another system, or a container that hides the file.
        return {}
    return {_COUNTED[name]: int(value) for name, _, value in lines if name in _COUNTED}


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


def register_identity_metrics(
    registry: MetricsRegistry, identity: BrokerIdentity, controller_id: Callable[[], int], clock: Clock
) -> None:
    """Register what this broker is: its cluster, version and start. Kafka: KafkaBroker, AppInfoParser."""
    registry.text("kafka.server", "KafkaServer", "ClusterId", identity.cluster_id)
    registry.gauge("kafka.server", "MetadataLoader", "CurrentControllerId", controller_id)
    tags = {"id": str(identity.broker_id)}
    registry.text("kafka.server", "app-info", "version", __version__, tags, is_attribute=True)
    # Kafka's word for a build that does not know its commit: an installed package knows its version only.
    registry.text("kafka.server", "app-info", "commit-id", "unknown", tags, is_attribute=True)
    started_ms = clock.milliseconds()
    registry.attribute("kafka.server", "app-info", "start-time-ms", lambda: started_ms, tags)


def _linux_io(name: str) -> float:
    return linux_io_counters().get(name, 0)
