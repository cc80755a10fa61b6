"""The requests that wait in the replica layer, by partition: produces, fetches, deletions of records.

A part of ReplicaManager, called by the other parts on any thread when something moved. `after_append` and `later` put
the retry into the action queue, for callers that may hold locks or are in the middle of a request. `wake` retries at
once, for callers without locks. No lock of its own. Kafka: kafka.cluster.DelayedOperations, DelayedProduceMetrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MBeanName, Sample
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.partitions.session_watches import SessionWatches
from barnabas.replica.replica_config import ReplicaConfig

if TYPE_CHECKING:
    from barnabas.replica.requests.delayed_delete_records import DelayedDeleteRecords


_FETCHES: Final = 0
"""What is retried: fetches alone, all but the fetches of followers, or everything."""
_ALL_BUT_FOLLOWERS: Final = 1
_ALL: Final = 2


class _Retry:
    """A retry that was put off."""

    __slots__ = ("_key", "_kinds", "_waiting")

    def __init__(self, waiting: WaitingRequests, key: TopicPartition, kinds: int) -> None:
        self._waiting = waiting
        self._key = key
        self._kinds = kinds

    def __call__(self) -> None:
        self._waiting.retry(self._key, self._kinds)


_GROUP: Final = "kafka.server"
_KIND: Final = "DelayedProduceMetrics"
_NAME: Final = "ExpiresPerSec"
_DESCRIPTION: Final = "Batches that waited in vain for replicas"


class ProduceExpirations:
    """The batches whose wait timed out, of all partitions and of each. A metric family.

    Only the expiration executor's thread counts. `by_partition` is replaced by one assignment for a new partition, so
    that readers need no lock.
    """

    def __init__(self) -> None:
        self.total = Meter()
        self.by_partition: dict[TopicPartition, Meter] = {}

    def count(self, entries: Iterable[PartitionAppend]) -> None:
        """Count one expiration for each entry."""
        for entry in entries:
            self.total.count += 1
            key = TopicPartition(entry.topic, entry.partition)
            if key not in self.by_partition:
                self.by_partition = {**self.by_partition, key: Meter()}
            self.by_partition[key].count += 1

    def samples(self) -> Iterator[Sample]:
        """Yield the meter of all partitions, and one for each that had an expiration."""
        yield Sample(MBeanName(_GROUP, _KIND, _NAME), self.total.count, _DESCRIPTION, self.total.rates)
        for key, meter in self.by_partition.items():
            tags = (("topic", key.topic), ("partition", str(key.partition)))
            yield Sample(MBeanName(_GROUP, _KIND, _NAME, tags), meter.count, _DESCRIPTION, meter.rates)

    def tick(self, elapsed_seconds: float) -> None:
        """Bring the rates up to date."""
        for meter in (self.total, *self.by_partition.values()):
            meter.tick(elapsed_seconds)


class WaitingRequests:
    """Three purgatories whose keys are partitions, and, for the fetches of sessions, the sessions' watches."""

    def __init__(self, config: ReplicaConfig, timer: SystemTimer, actions: ActionQueue) -> None:
        self._actions = actions
        self.produces: DelayedOperationPurgatory[DelayedOperation] = DelayedOperationPurgatory(
            "Produce", timer, purge_interval=config.producer_purgatory_purge_interval_requests
        )
        self.fetches: DelayedOperationPurgatory[DelayedOperation] = DelayedOperationPurgatory(
            "Fetch", timer, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        self.deletions: DelayedOperationPurgatory[DelayedDeleteRecords] = DelayedOperationPurgatory(
            "DeleteRecords", timer, purge_interval=config.delete_records_purgatory_purge_interval_requests
        )
        self.produce_expirations = ProduceExpirations()
        """Partitions of produces that timed out. Only the expiration executor's thread counts in these four meters."""
        self.consumer_fetch_expirations = Meter()
        self.follower_fetch_expirations = Meter()
        self.deletion_expirations = Meter()
        self.produce_watchers = self.produces.watchers
        """True while any produce waits, as `fetch_watchers` is for fetches.

        The append path reads them, and does nothing more while both are empty.
        """
        self.fetch_watchers = self.fetches.watchers
        self.sessions = SessionWatches()
        self._session_watches = self.sessions.by_partition

    def after_append(self, key: TopicPartition, *, high_watermark_moved: bool) -> None:
        """Queue a retry of the operations that an append may have unblocked.

        Those are all of them if the high watermark moved, else only fetches that read to the log end.
        """
        self._mark_and_retry(key, _ALL if high_watermark_moved else _FETCHES)

    def high_watermark_moved(self, key: TopicPartition) -> None:
        """Queue a retry of what waits for the high watermark: no fetches of followers, which read to the log end."""
        self._mark_and_retry(key, _ALL_BUT_FOLLOWERS)

    def later(self, key: TopicPartition) -> None:
        """Queue a retry of every operation that waits for this partition. It runs when the thread's request is done."""
        self._mark_and_retry(key, _ALL)

    def wake(self, key: TopicPartition) -> None:
        """Retry every operation that waits for this partition, now. Kafka: checkAndCompleteAll."""
        self.sessions.mark(key)
        if self._session_watches or self.produce_watchers or self.fetch_watchers or self.deletions.watchers:
            self.retry(key, _ALL)

    def wake_all(self, keys: Iterable[TopicPartition]) -> None:
        """Retry every operation that waits for one of these partitions, now."""
        for key in keys:
            self.wake(key)

    def run_queued(self) -> None:
        """Run the retries that were put off. For a thread that has appended outside of a request, and holds no lock."""
        if self._actions.pending:
            self._actions.run_all()

    def shutdown(self) -> None:
        """Complete every operation, so that each is answered."""
        self.fetches.shutdown()
        self.produces.shutdown()
        self.deletions.shutdown()

    def retry(self, key: TopicPartition, kinds: int) -> None:
        """Retry the operations of these kinds that wait for a partition. Called without locks."""
        # Kafka's order: DelayedOperations.checkAndCompleteAll.
        if key in self.fetch_watchers:
            self.fetches.check_and_complete(key)
        watches = self._session_watches.get(key)
        if watches is not None:
            for watch in watches:
                if kinds != _ALL_BUT_FOLLOWERS or not watch.reads_to_end:
                    self.fetches.check_and_complete(watch)
        if kinds != _FETCHES:
            self.produces.check_and_complete(key)
            self.deletions.check_and_complete(key)

    def _mark_and_retry(self, key: TopicPartition, kinds: int) -> None:
        # Now, and not with the retry: a fetch that comes first must read the partition.
        if (
            self.sessions.mark(key)
            or key in self.produce_watchers
            or key in self.fetch_watchers
            or key in self.deletions.watchers
        ):
            self._actions.add(_Retry(self, key, kinds))
