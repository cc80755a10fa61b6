"""The metrics of replica fetchers, and of moves between log directories, by Kafka's names.

Registered once, at the broker's start. Gauges look at the threads when they are read; the threads of a moment are a
family, since their number changes. Kafka: AbstractFetcherManager, FetcherStats, FetcherLagMetrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.replica.fetcher.fetcher_manager import CLIENT_ID, ReplicaFetcherManager
from barnabas.replica.fetcher.fetcher_thread import ReplicaFetcherThread
from barnabas.replica.log_dir_moves import LogDirMoves

SERVER = "kafka.server"
MANAGER = "ReplicaFetcherManager"


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
    registry.gauge(SERVER, MANAGER, "MaxLag", lambda: fetchers.max_lag, tags)
    registry.gauge(SERVER, MANAGER, "MinFetchRate", lambda: _min_fetch_rate(fetchers), tags)
    registry.gauge(SERVER, MANAGER, "FailedPartitionsCount", lambda: fetchers.failed_partitions, tags)
    registry.gauge(SERVER, MANAGER, "DeadThreadCount", lambda: fetchers.dead_threads, tags)
    registry.family(FetcherThreadMetrics(fetchers))
