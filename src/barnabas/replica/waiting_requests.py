"""The requests that wait in the replica layer, by partition: produces, fetches, deletions of records.

Part of ReplicaManager. Its parts say here what moved, on any thread: `after_append` and `later` put the waking into
the action queue, for callers that may hold locks or are in the middle of a request; `wake` does it at once, for those
that hold none. No lock of its own. Kafka: DelayedOperations in kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metrics.meter import Meter
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import Timer
from barnabas.replica.delayed_delete_records import DelayedDeleteRecords
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.delayed_produce import DelayedProduce
from barnabas.replica.replica_config import ReplicaConfig


class WaitingRequests:
    """Three purgatories whose keys are partitions."""

    def __init__(self, config: ReplicaConfig, timer: Timer, actions: ActionQueue) -> None:
        self._actions = actions
        self.produces: DelayedOperationPurgatory[DelayedProduce] = DelayedOperationPurgatory(
            "Produce", timer, purge_interval=config.producer_purgatory_purge_interval_requests
        )
        self.fetches: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory(
            "Fetch", timer, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        self.deletions: DelayedOperationPurgatory[DelayedDeleteRecords] = DelayedOperationPurgatory(
            "DeleteRecords", timer, purge_interval=config.delete_records_purgatory_purge_interval_requests
        )
        self.produce_expirations = Meter()
        """Partitions of produces that timed out. The expiration executor's thread counts, as in the next three."""
        self.consumer_fetch_expirations = Meter()
        self.follower_fetch_expirations = Meter()
        self.deletion_expirations = Meter()
        self.produce_watchers = self.produces.watchers
        """Truthy while a produce waits, as the next is for fetches: for the hot path, which then has nothing to do."""
        self.fetch_watchers = self.fetches.watchers

    def after_append(self, key: TopicPartition, *, high_watermark_moved: bool) -> None:
        """Let those try again whom an append may have served, once this thread is done: with the high watermark

        produces, fetches and deletions move, without it only fetches that read to the log's end.
        """
        if high_watermark_moved:
            self.later(key)
        elif key in self.fetch_watchers:
            self._actions.add(lambda: self._try_fetches(key))

    def later(self, key: TopicPartition) -> None:
        """Let everybody try again who waits for this partition, once this thread is done."""
        if key in self.produce_watchers or key in self.fetch_watchers or key in self.deletions.watchers:
            self._actions.add(lambda: self.wake(key))

    def wake(self, key: TopicPartition) -> None:
        """Let everybody try again who waits for this partition. Kafka: checkAndCompleteAll."""
        self.fetches.check_and_complete(key)
        self.produces.check_and_complete(key)
        self.deletions.check_and_complete(key)

    def wake_all(self, keys: Iterable[TopicPartition]) -> None:
        """`wake` for several partitions."""
        for key in keys:
            self.wake(key)

    def shutdown(self) -> None:
        """Answer everybody."""
        self.fetches.shutdown()
        self.produces.shutdown()
        self.deletions.shutdown()

    def _try_fetches(self, key: TopicPartition) -> None:
        self.fetches.check_and_complete(key)
