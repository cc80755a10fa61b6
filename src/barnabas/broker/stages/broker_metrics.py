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
_DISKS: Final = {
    "read-bytes": "Bytes this process has had read from disks",
    "write-bytes": "Bytes this process has had written to disks",
}


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
        registry.register("kafka.server", "KafkaServer", f"linux-disk-{name}", _DISKS[name], partial(_linux_io, name))
    scheduler.schedule("metrics-tick", lambda: registry.tick(clock.nanoseconds()), period_ms=TICK_INTERVAL_MS)


def register_identity_metrics(
    registry: MetricsRegistry, identity: BrokerIdentity, controller_id: Callable[[], int], clock: Clock
) -> None:
    """Register what this broker is: its cluster, version and start. Kafka: KafkaBroker, AppInfoParser."""
    text = "The cluster's id, in the label `value`"
    registry.register("kafka.server", "KafkaServer", "ClusterId", text, lambda: 1, {"value": identity.cluster_id})
    text = "The broker that is the controller; -1 while there is none"
    registry.register("kafka.server", "MetadataLoader", "CurrentControllerId", text, controller_id)
    bean, tags = ("kafka.server", "app-info"), {"id": str(identity.broker_id)}
    text = "The version, in the label `value`"
    registry.register_attribute(*bean, "version", text, lambda: 1, tags | {"value": __version__})
    text = "The commit, in the label `value`; unknown for an installed package"
    # Kafka's word for a build that does not know its commit: an installed package knows its version only.
    registry.register_attribute(*bean, "commit-id", text, lambda: 1, tags | {"value": "unknown"})
    started_ms = clock.milliseconds()
    text = "The time of the start, in milliseconds since 1970"
    registry.register_attribute(*bean, "start-time-ms", text, lambda: started_ms, tags)


def _linux_io(name: str) -> float:
    return linux_io_counters().get(name, 0)
