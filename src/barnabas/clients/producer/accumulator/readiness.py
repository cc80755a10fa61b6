"""The rules by which a batch is due: full, lingered long enough, or over its wait after a failure.

Owned by `RecordAccumulator`, whose lock guards it; times are passed in, in milliseconds.
Kafka: RecordAccumulator.partitionReady, batchReady.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from random import Random
from typing import NamedTuple

from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.batches.compression_ratio import CompressionRatioEstimator
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS


class ReadyResult(NamedTuple):
    """The nodes with batches to send, the time to the next check, and topics whose leaders are partly unknown."""

    node_ids: set[int]
    next_check_ms: int
    unknown_leader_topics: set[str]


class BatchWait(NamedTuple):
    """How long a batch that is not full should wait, and whether it waits after a failure."""

    wait_ms: int
    is_backing_off: bool


class Readiness:
    """The rules under one producer's settings."""

    def __init__(self, config: ProducerConfig, ratios: CompressionRatioEstimator, random: Random) -> None:
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self._ratios = ratios
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)

    def check(
        self,
        queues: Mapping[TopicPartition, deque[ProducerBatch]],
        muted: Container[TopicPartition],
        cluster: Cluster,
        now_ms: int,
        *,
        is_urgent: bool,
    ) -> ReadyResult:
        """Return the nodes that lead a partition whose first batch is due. `is_urgent`: every batch is due."""
        node_ids: set[int] = set()
        unknown: set[str] = set()
        next_check_ms = FOREVER_MS
        for topic_partition, queue in queues.items():
            if not queue:
                continue
            leader = cluster.leader(topic_partition)
            if leader is None:
                unknown.add(topic_partition.topic)
                continue
            if leader.id in node_ids or topic_partition in muted:
                continue
            # Only the first batch decides: a later one may not overtake it. A second batch means that the first one is
            # full, because a batch is begun only when its predecessor has no room.
            wait_ms, is_backing_off = self.wait(queue[0], cluster, now_ms)
            is_full = len(queue) > 1 or self._is_full(queue[0])
            if not is_backing_off and (is_full or wait_ms <= 0 or is_urgent):
                node_ids.add(leader.id)
            else:
                next_check_ms = min(next_check_ms, max(wait_ms, 0))
        return ReadyResult(node_ids, next_check_ms, unknown)

    def wait(self, batch: ProducerBatch, cluster: Cluster, now_ms: int) -> BatchWait:
        """Return how long the batch should wait, if it is not full.

        A retry to a leader of a later epoch than the last attempt's does not wait: that leader has not failed.
        """
        waited_ms = batch.waited_ms(now_ms)
        if not batch.attempts:
            return BatchWait(self._linger_ms - waited_ms, is_backing_off=False)
        if waited_ms < batch.backoff_ms and cluster.leader_epoch(batch.topic_partition) <= batch.leader_epoch:
            return BatchWait(batch.backoff_ms - waited_ms, is_backing_off=True)
        return BatchWait(0, is_backing_off=False)

    def draw_backoff_ms(self, batch: ProducerBatch) -> int:
        """Return the wait before the next attempt of a batch that has just failed, which is a matter of chance."""
        # Drawn once for each retry. If `wait` drew it, the accumulator could still hold back a batch that `check` has
        # named, and the Sender would poll without a deadline.
        return self._backoff.after(batch.attempts)

    def _is_full(self, batch: ProducerBatch) -> bool:
        return batch.is_full(self._batch_size, self._ratios.estimate(batch.topic_partition.topic, batch.codec))
