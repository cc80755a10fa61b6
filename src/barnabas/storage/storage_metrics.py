"""The storage layer's metrics by Kafka's names, registered once when the broker starts.

Called by `broker` on the main thread; a gauge is computed by the thread that reads it, and takes no lock.
Kafka: LogManager, LogCleaner, LogCleanerManager and UnifiedLog, which register their own gauges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.metrics.metrics_registry import MBeanName, MetricsRegistry, Sample
from barnabas.storage.cleaner.log_cleaner import LogCleaner
from barnabas.storage.cleaner.log_cleaner_manager import LogCleanerManager
from barnabas.storage.log_manager import LogManager

GROUP = "kafka.log"


class LogMetrics:
    """Gauges of every log. A metric family."""

    def __init__(self, log_manager: LogManager) -> None:
        self._log_manager = log_manager

    def samples(self) -> Iterator[Sample]:
        """Yield four gauges per log; those of a future log have the tag `is-future`."""
        for log in [*self._log_manager.all_logs(), *self._log_manager.futures.all()]:
            key = log.topic_partition
            tags: tuple[tuple[str, str], ...] = (("topic", key.topic), ("partition", str(key.partition)))
            if log.is_future:
                tags = (*tags, ("is-future", "true"))
            for name, value, description in (
                ("NumLogSegments", len(log.local.segments), "Segments"),
                ("LogStartOffset", log.log_start_offset, "First offset"),
                ("LogEndOffset", log.log_end_offset, "Offset of the next record"),
                ("Size", log.local.segments.size, "Bytes"),
            ):
                yield Sample(MBeanName(GROUP, "Log", name, tags), value, description)

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing: gauges have no rates."""


class LoadingMetrics:
    """The work that is left while a start loads the logs, and nothing before and after. A metric family."""

    def __init__(self, log_manager: LogManager) -> None:
        self._log_manager = log_manager

    def samples(self) -> Iterator[Sample]:
        """Yield a gauge for each log directory, and one for each of its threads that recovers a log."""
        loading = self._log_manager.loading
        if loading is None:
            return
        for log_dir, logs in loading.remaining.items():
            name = MBeanName(GROUP, "LogManager", "remainingLogsToRecover", (("dir", log_dir),))
            yield Sample(name, logs, "Logs that a start has still to load")
        for (log_dir, thread), segments in self._log_manager.recovery.remaining().items():
            # The thread that starts the broker recovers the logs itself where one thread is enough.
            number = thread.rpartition("-")[2] if thread.startswith("log-recovery-") else "0"
            tags = (("dir", log_dir), ("threadNum", number))
            description = "Segments that a thread of a start has still to recover in its log"
            yield Sample(MBeanName(GROUP, "LogManager", "remainingSegmentsToRecover", tags), segments, description)

    def tick(self, elapsed_seconds: float) -> None:
        """Do nothing: gauges have no rates."""


def register_loading_metrics(registry: MetricsRegistry, log_manager: LogManager) -> None:
    """Register what a start is watched by. Before the logs are loaded, which may take minutes after a crash."""
    registry.family(LoadingMetrics(log_manager))
    text = "Segments brought to stable storage, and how long that took"
    registry.register(GROUP, "LogFlushStats", "LogFlushRateAndTimeMs", text, log_manager.flushes)


def register_storage_metrics(registry: MetricsRegistry, log_manager: LogManager) -> None:
    """Register the gauges of logs, log directories and the cleaner."""
    name, text = "OfflineLogDirectoryCount", "Directories that have failed"
    registry.register(GROUP, "LogManager", name, text, lambda: len(log_manager.directories.offline_paths()))
    for log_dir in log_manager.directories.paths:
        name, text, tags = "LogDirectoryOffline", "1 if the directory has failed", {"logDirectory": log_dir}
        registry.register(GROUP, "LogManager", name, text, _is_offline(log_manager, log_dir), tags)
    registry.family(LogMetrics(log_manager))
    if log_manager.cleaner is not None:
        register_cleaner_metrics(registry, log_manager.cleaner, log_manager.directories.paths)


def register_cleaner_metrics(registry: MetricsRegistry, cleaner: LogCleaner, log_dirs: list[str]) -> None:
    """Register the cleaner's gauges."""
    bean = (GROUP, "LogCleaner")
    text = "How full the table of keys got, at most"
    registry.register(*bean, "max-buffer-utilization-percent", text, lambda: cleaner.max_buffer_utilization_percent)
    text = "Share of what was cleaned that was written again"
    registry.register(*bean, "cleaner-recopy-percent", text, lambda: cleaner.cleaner_recopy_percent)
    text = "Seconds the longest of the last cleanings took"
    registry.register(*bean, "max-clean-time-secs", text, lambda: cleaner.max_clean_time_secs)
    text = "Seconds by which compaction is late, at most"
    registry.register(*bean, "max-compaction-delay-secs", text, lambda: cleaner.max_compaction_delay_secs)
    registry.register(*bean, "DeadThreadCount", "Cleaners that have ended", lambda: cleaner.dead_thread_count)
    bean = (GROUP, "LogCleanerManager")
    text = "Share of the dirtiest log that could be cleaned"
    registry.register(*bean, "max-dirty-percent", text, lambda: cleaner.max_dirty_percent)
    text = "Milliseconds since a log was looked for"
    registry.register(*bean, "time-since-last-run-ms", text, lambda: cleaner.time_since_last_run_ms)
    text = "Bytes that the cleaner has read and written"
    registry.register("kafka.utils", "Throttler", "cleaner-io", text, cleaner.io)
    for log_dir in log_dirs:
        tags = {"logDirectory": log_dir}
        partitions, size = _uncleanable(cleaner.manager, log_dir)
        registry.register(*bean, "uncleanable-partitions-count", "Logs whose cleaning failed", partitions, tags)
        registry.register(*bean, "uncleanable-bytes", "Bytes in logs whose cleaning failed", size, tags)


def _is_offline(log_manager: LogManager, log_dir: str) -> Callable[[], float]:
    return lambda: int(log_dir in log_manager.directories.offline_paths())


def _uncleanable(manager: LogCleanerManager, log_dir: str) -> tuple[Callable[[], float], Callable[[], float]]:
    return lambda: len(manager.uncleanable_partitions(log_dir)), lambda: manager.uncleanable_bytes(log_dir)
