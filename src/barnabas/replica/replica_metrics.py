"""The metrics of partitions, of replica fetchers, and of moves between log directories, by Kafka's names.

Registered once by `broker`, on the main thread, when the broker starts. A gauge looks at partitions or fetcher threads
when it is read, on the reading thread. Partitions and threads are metric families, not registered one by one: so
thousands of partitions cost nothing, and the number of threads may change.

Kafka: ReplicaManager, Partition, DelayedOperationPurgatory, AbstractFetcherManager, FetcherStats, FetcherLagMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.fetcher.fetcher_manager import CLIENT_ID, ReplicaFetcherManager
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.replica.log_dir_moves import LogDirMoves
from barnabas.replica.partition import Partition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock

SERVER = "kafka.server"
REPLICA_MANAGER = "ReplicaManager"
FETCHER_MANAGER = "ReplicaFetcherManager"
LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000
"""The time by which a transaction may exceed transaction.max.timeout.ms before it counts as late."""


class PartitionMetrics:
    """Gauges of every partition led or followed here. A metric family."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def samples(self) -> Iterator[Sample]:
        """Yield six gauges for every partition."""
        for partition in self._replicas.partitions():
            key = partition.topic_partition
            tags = (("topic", key.topic), ("partition", str(key.partition)))
            for name, value in self._values(partition):
                yield Sample(MBeanName("kafka.cluster", "Partition", name, tags), value)

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing: gauges have no rates."""

    @staticmethod
    def _values(partition: Partition) -> Iterator[tuple[str, int]]:
        state = partition.state
        leads = state is not None and state.is_leader
        log = partition.log
        yield "UnderReplicated", int(partition.is_under_replicated)
        yield "InSyncReplicasCount", len(state.isr) if state is not None and leads else 0
        yield "UnderMinIsr", int(partition.is_under_min_isr)
        yield "AtMinIsr", int(partition.is_at_min_isr)
        yield "ReplicasCount", state.replication_factor if state is not None and leads else 0
        yield "LastStableOffsetLag", log.high_watermark - log.last_stable_offset


def register_replica_metrics(registry: MetricsRegistry, replicas: ReplicaManager, clock: Clock) -> None:
    """Register every metric of this layer."""
    late_after_ms = replicas.config.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    def count(condition: Callable[[Partition], bool]) -> Callable[[], float]:
        return lambda: sum(1 for partition in replicas.partitions() if condition(partition))

    counts: dict[str, Callable[[], float]] = {
        "LeaderCount": count(lambda partition: partition.is_leader),
        "PartitionCount": lambda: len(replicas.hosted) + replicas.offline_partition_count,
        "OfflineReplicaCount": lambda: replicas.offline_partition_count,
        "UnderReplicatedPartitions": count(lambda partition: partition.is_under_replicated),
        "UnderMinIsrPartitionCount": count(lambda partition: partition.is_under_min_isr),
        "AtMinIsrPartitionCount": count(lambda partition: partition.is_at_min_isr),
        "ReassigningPartitions": count(lambda partition: partition.is_leader and partition.is_reassigning),
        "PartitionsWithLateTransactionsCount": count(
            lambda partition: (
                partition.is_leader and _has_late_transaction(partition, clock.milliseconds() - late_after_ms)
            )
        ),
        "ProducerIdCount": lambda: sum(each.log.producer_states.producer_id_count for each in replicas.partitions()),
    }
    for name, value in counts.items():
        registry.gauge(SERVER, REPLICA_MANAGER, name, value)
    updates = replicas.isr_updates
    registry.meter(SERVER, REPLICA_MANAGER, "IsrShrinksPerSec", updates.shrinks)
    registry.meter(SERVER, REPLICA_MANAGER, "IsrExpandsPerSec", updates.expands)
    registry.meter(SERVER, REPLICA_MANAGER, "FailedIsrUpdatesPerSec", updates.failures)
    registry.family(PartitionMetrics(replicas))
    registry.family(replicas.topic_stats)
    waiting = replicas.waiting
    for purgatory in (waiting.produces, waiting.fetches, waiting.deletions):
        register_purgatory(registry, purgatory)
    expires = "ExpiresPerSec"
    registry.family(waiting.produce_expirations)
    registry.meter(SERVER, "DelayedDeleteRecordsMetrics", expires, waiting.deletion_expirations)
    fetches = "DelayedFetchMetrics"
    registry.meter(SERVER, fetches, expires, waiting.consumer_fetch_expirations, {"fetcherType": "consumer"})
    registry.meter(SERVER, fetches, expires, waiting.follower_fetch_expirations, {"fetcherType": "follower"})


def _has_late_transaction(partition: Partition, before_ms: int) -> bool:
    """Return whether the oldest open transaction has written nothing since `before_ms`: it should have timed out."""
    return 0 < partition.log.oldest_open_timestamp() < before_ms


def register_purgatory(registry: MetricsRegistry, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Register the two gauges of a purgatory."""
    tags = {"delayedOperation": purgatory.name}
    kind = "DelayedOperationPurgatory"
    registry.gauge(SERVER, kind, "PurgatorySize", lambda: purgatory.watched, tags)
    registry.gauge(SERVER, kind, "NumDelayedOperations", lambda: purgatory.delayed, tags)


class FetcherThreadMetrics:
    """The requests and bytes of every thread, and the lag of every partition. A metric family."""

    def __init__(self, fetchers: ReplicaFetcherManager) -> None:
        self._fetchers = fetchers

    def samples(self) -> Iterator[Sample]:
        """Yield two meters for every thread, and a gauge for every partition that has been answered once."""
        for thread in self._fetchers.threads:
            client = ("clientId", thread.name)
            for name, meter in (("RequestsPerSec", thread.stats.requests), ("BytesPerSec", thread.stats.bytes)):
                yield Sample(MBeanName(SERVER, "FetcherStats", name, (client,)), meter.count, meter.rates)
            yield from _lags(thread)

    def tick(self, elapsed_seconds: float) -> None:
        """Bring the rates up to date."""
        for thread in self._fetchers.threads:
            thread.stats.requests.tick(elapsed_seconds)
            thread.stats.bytes.tick(elapsed_seconds)


def _lags(thread: ReplicaFetcherThread) -> Iterator[Sample]:
    for key, state in thread.states.items():
        if state.lag is not None:
            tags = (("clientId", thread.name), ("topic", key.topic), ("partition", str(key.partition)))
            yield Sample(MBeanName(SERVER, "FetcherLagMetrics", "ConsumerLag", tags), state.lag)


def _min_fetch_rate(fetchers: ReplicaFetcherManager) -> float:
    """Return the requests a second, over a minute, of the thread that sends fewest; 0 where there is no thread."""
    return min((thread.stats.requests.rates.one_minute for thread in fetchers.threads), default=0.0)


def register_log_dir_move_metrics(registry: MetricsRegistry, moves: LogDirMoves) -> None:
    """Register the gauges of moves between log directories. Kafka's MinFetchRate is missing: nothing is fetched."""
    tags = {"clientId": "ReplicaAlterLogDirs"}
    registry.gauge(SERVER, "ReplicaAlterLogDirsManager", "MaxLag", moves.max_lag, tags)
    registry.gauge(SERVER, "ReplicaAlterLogDirsManager", "DeadThreadCount", lambda: moves.dead_threads, tags)


def register_fetcher_metrics(registry: MetricsRegistry, fetchers: ReplicaFetcherManager) -> None:
    """Register the manager's gauges and the threads' metrics."""
    tags = {"clientId": CLIENT_ID}
    registry.gauge(SERVER, FETCHER_MANAGER, "MaxLag", lambda: fetchers.max_lag, tags)
    registry.gauge(SERVER, FETCHER_MANAGER, "MinFetchRate", lambda: _min_fetch_rate(fetchers), tags)
    registry.gauge(SERVER, FETCHER_MANAGER, "FailedPartitionsCount", lambda: fetchers.failed_partitions, tags)
    registry.gauge(SERVER, FETCHER_MANAGER, "DeadThreadCount", lambda: fetchers.dead_threads, tags)
    registry.family(FetcherThreadMetrics(fetchers))
