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
from barnabas.replica.partitions.partition import Partition
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock

SERVER = "kafka.server"
OF_PARTITION = {
    "UnderReplicated": "1 if it lacks in-sync replicas",
    "InSyncReplicasCount": "In-sync replicas, where it is led",
    "UnderMinIsr": "1 if it has fewer in-sync replicas than min.insync.replicas",
    "AtMinIsr": "1 if it has just as many in-sync replicas as min.insync.replicas",
    "ReplicasCount": "Replicas, where it is led",
    "LastStableOffsetLag": "From the last stable offset to the high watermark",
}
"""Name of a partition's gauge -> its description."""
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
                yield Sample(MBeanName("kafka.cluster", "Partition", name, tags), value, OF_PARTITION[name])

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

    bean = (SERVER, "ReplicaManager")
    text = "Partitions led here"
    registry.register(*bean, "LeaderCount", text, count(lambda partition: partition.is_leader))
    text = "Partitions here"
    registry.register(*bean, "PartitionCount", text, lambda: len(replicas.hosted) + replicas.offline_partition_count)
    text = "Partitions in failed log directories"
    registry.register(*bean, "OfflineReplicaCount", text, lambda: replicas.offline_partition_count)
    text = "Partitions led here that lack in-sync replicas"
    registry.register(*bean, "UnderReplicatedPartitions", text, count(lambda partition: partition.is_under_replicated))
    text = "Partitions with fewer in-sync replicas than min.insync.replicas"
    registry.register(*bean, "UnderMinIsrPartitionCount", text, count(lambda partition: partition.is_under_min_isr))
    text = "Partitions with just as many in-sync replicas as min.insync.replicas"
    registry.register(*bean, "AtMinIsrPartitionCount", text, count(lambda partition: partition.is_at_min_isr))
    moving = count(lambda partition: partition.is_leader and partition.is_reassigning)
    registry.register(*bean, "ReassigningPartitions", "Partitions led here that are being moved", moving)
    late = count(
        lambda partition: partition.is_leader and _has_late_transaction(partition, clock.milliseconds() - late_after_ms)
    )
    text = "Partitions led here with a transaction that should have timed out"
    registry.register(*bean, "PartitionsWithLateTransactionsCount", text, late)

    def producers() -> int:
        return sum(each.log.producers.producer_id_count for each in replicas.partitions())

    registry.register(*bean, "ProducerIdCount", "Producers whose sequence numbers are remembered", producers)
    updates = replicas.isr_updates
    registry.register(*bean, "IsrShrinksPerSec", "Times a replica fell out of sync", updates.shrinks)
    registry.register(*bean, "IsrExpandsPerSec", "Times a replica caught up", updates.expands)
    text = "Changes of in-sync replicas that could not be stored"
    registry.register(*bean, "FailedIsrUpdatesPerSec", text, updates.failures)
    registry.family(PartitionMetrics(replicas))
    registry.family(replicas.topic_stats)
    waiting = replicas.waiting
    for purgatory in (waiting.produces, waiting.fetches, waiting.deletions):
        register_purgatory(registry, purgatory)
    expires = "ExpiresPerSec"
    registry.family(waiting.produce_expirations)
    text = "Deletions of records that waited in vain for replicas"
    registry.register(SERVER, "DelayedDeleteRecordsMetrics", expires, text, waiting.deletion_expirations)
    fetches = (SERVER, "DelayedFetchMetrics", expires, "Fetches that waited as long as they may")
    registry.register(*fetches, waiting.consumer_fetch_expirations, {"fetcherType": "consumer"})
    registry.register(*fetches, waiting.follower_fetch_expirations, {"fetcherType": "follower"})


def _has_late_transaction(partition: Partition, before_ms: int) -> bool:
    """Return whether the oldest open transaction has written nothing since `before_ms`: it should have timed out."""
    return 0 < partition.log.producers.oldest_open_timestamp() < before_ms


def register_purgatory(registry: MetricsRegistry, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Register the two gauges of a purgatory."""
    tags = {"delayedOperation": purgatory.name}
    bean = (SERVER, "DelayedOperationPurgatory")
    text = "Watches: one for each key of each waiting operation"
    registry.register(*bean, "PurgatorySize", text, lambda: purgatory.watched, tags)
    registry.register(*bean, "NumDelayedOperations", "Operations that wait", lambda: purgatory.delayed, tags)


class FetcherThreadMetrics:
    """The requests and bytes of every thread, and the lag of every partition. A metric family."""

    def __init__(self, fetchers: ReplicaFetcherManager) -> None:
        self._fetchers = fetchers

    def samples(self) -> Iterator[Sample]:
        """Yield two meters for every thread, and a gauge for every partition that has been answered once."""
        for thread in self._fetchers.threads:
            client = ("clientId", thread.name)
            for name, description, meter in (
                ("RequestsPerSec", "Fetches that this thread has sent to its leader", thread.stats.requests),
                ("BytesPerSec", "Bytes that this thread has copied from its leader", thread.stats.bytes),
            ):
                yield Sample(MBeanName(SERVER, "FetcherStats", name, (client,)), meter.count, description, meter.rates)
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
            name = MBeanName(SERVER, "FetcherLagMetrics", "ConsumerLag", tags)
            yield Sample(name, state.lag, "Records by which this partition is behind its leader")


def _min_fetch_rate(fetchers: ReplicaFetcherManager) -> float:
    """Return the requests a second, over a minute, of the thread that sends fewest; 0 where there is no thread."""
    return min((thread.stats.requests.rates.one_minute for thread in fetchers.threads), default=0.0)


def register_log_dir_move_metrics(registry: MetricsRegistry, moves: LogDirMoves) -> None:
    """Register the gauges of moves between log directories. Kafka's MinFetchRate is missing: nothing is fetched."""
    tags = {"clientId": "ReplicaAlterLogDirs"}
    bean = (SERVER, "ReplicaAlterLogDirsManager")
    text = "Records by which the slowest copy into another log directory is behind its log"
    registry.register(*bean, "MaxLag", text, moves.max_lag, tags)
    text = "Threads that move logs between directories and have ended by themselves"
    registry.register(*bean, "DeadThreadCount", text, lambda: moves.dead_threads, tags)


def register_fetcher_metrics(registry: MetricsRegistry, fetchers: ReplicaFetcherManager) -> None:
    """Register the manager's gauges and the threads' metrics."""
    tags = {"clientId": CLIENT_ID}
    bean = (SERVER, "ReplicaFetcherManager")
    text = "Records by which the slowest partition that is copied here is behind its leader"
    registry.register(*bean, "MaxLag", text, lambda: fetchers.max_lag, tags)
    text = "Fetches a second of the thread that sends the fewest, over a minute"
    registry.register(*bean, "MinFetchRate", text, lambda: _min_fetch_rate(fetchers), tags)
    text = "Partitions that are copied no more because of an error"
    registry.register(*bean, "FailedPartitionsCount", text, lambda: fetchers.failed_partitions, tags)
    text = "Threads that copy partitions and have ended by themselves"
    registry.register(*bean, "DeadThreadCount", text, lambda: fetchers.dead_threads, tags)
    registry.family(FetcherThreadMetrics(fetchers))
