"""The batches that have not ended: queues by partition, the rules by which one is due, and what flushes wait for.

Owned by `RecordAccumulator`, whose lock guards all of it; times are passed in, in milliseconds.
Kafka: RecordAccumulator.TopicInfo, RecordAccumulator.partitionReady, RecordAccumulator.batchReady, IncompleteBatches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from random import Random
from typing import NamedTuple

from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.batches.producer_batch import CompressionRatioEstimator, ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import is_before
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.connection_states import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS


class BatchQueues:
    """The batches that wait to be sent. `by_partition`: the queues.

    A queue that has become empty stays, because its partition will be used again.
    """

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, deque[ProducerBatch]] = {}

    def append(self, batch: ProducerBatch) -> deque[ProducerBatch]:
        """Put a new batch at the end of its queue. Returns the queue."""
        queue = self.by_partition.setdefault(batch.topic_partition, deque())
        queue.append(batch)
        return queue

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch that was sent before at the head of its queue, or by its sequence number."""
        queue = self.by_partition.setdefault(batch.topic_partition, deque())
        # Several batches of a partition may be retried at once (up to five in flight), and their answers come in any
        # order. The broker accepts them only in sequence, so they go back into the queue in sequence.
        index = 0
        if batch.has_sequence:
            while index < len(queue) and queue[index].has_sequence:
                if not is_before(queue[index].base_sequence, batch.base_sequence):
                    break
                index += 1
        queue.insert(index, batch)

    def expire(self, timeout_ms: int, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the batches that were created `timeout_ms` ago."""
        expired = []
        for queue in self.by_partition.values():
            while queue and queue[0].has_reached_delivery_timeout(timeout_ms, now_ms):
                batch = queue.popleft()
                batch.is_closed = True
                expired.append(batch)
        return expired

    def oldest_ms(self) -> int | None:
        """Return the time at which the oldest batch was created, None without any."""
        return min((queue[0].created_ms for queue in self.by_partition.values() if queue), default=None)

    def clear(self, *, keeps_numbered: bool = False) -> list[ProducerBatch]:
        """Remove and return all batches, or those without sequence numbers, which were never sent."""
        removed = []
        for queue in self.by_partition.values():
            kept = [batch for batch in queue if keeps_numbered and batch.has_sequence]
            removed += [batch for batch in queue if not (keeps_numbered and batch.has_sequence)]
            queue.clear()
            queue.extend(kept)
        return removed

    def lengths(self) -> dict[TopicPartition, int]:
        """Return the number of batches of each partition that has some."""
        return {topic_partition: len(queue) for topic_partition, queue in self.by_partition.items() if queue}


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
    """The rules under one producer's settings.

    A batch is due when it is full, has lingered long enough, or is over its wait after a failure.
    """

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


class IncompleteBatches:
    """The batches of one producer that have not ended, queued or in flight, and the flushes that wait for them.

    `flushes`: the number of threads in `begin_flush` to the end of `await_flush`.
    """

    def __init__(self) -> None:
        self.flushes = 0
        self._batches: set[ProducerBatch] = set()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, batch: ProducerBatch) -> None:
        """Add a batch that has just been begun."""
        self._batches.add(batch)

    def remove(self, batch: ProducerBatch) -> bool:
        """Remove a batch that has ended. Returns False if it was removed before."""
        known = batch in self._batches
        self._batches.discard(batch)
        return known

    def snapshot(self) -> list[ProducerBatch]:
        """Return a copy of the batches, for a caller that goes on without the lock."""
        return list(self._batches)
