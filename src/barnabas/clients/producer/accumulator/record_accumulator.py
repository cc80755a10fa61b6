"""The records that wait to be sent, in batches per partition.

Threads that call `send` append. The sending thread asks which nodes are ready, drains batches for them, puts failed
batches back and expires old ones. One lock guards the queues, the sticky partitioners, the ratio estimates and the
incomplete batches; it is never held while waiting for memory, nor while a batch is encoded. Times are monotonic
milliseconds. Kafka: RecordAccumulator.

A batch is always in exactly one place: at the end of its queue, where it is filled; in the queue behind that, closed;
or with the sending thread, in flight. It goes back to the head of its queue after an error that may pass. From its
first record to its end it is also among the incomplete batches, for which `flush` and `close` wait, and it holds its
memory in the pool. What happens to one record, with `linger_ms=5` and `batch_size=16384`:

    0 ms    `send("flights", value)`: no key, so the topic's sticky partitioner says 2. Partition 2 has no open batch:
            16,384 bytes are taken from the pool, without the lock, and a batch is begun. The record is its first one.
            The sending thread is woken: from now on it has a deadline.
    1 ms    More records go to partition 2, from several threads. Each finds room in the open batch; no memory is
            taken, and the sending thread sleeps on.
    3 ms    A record finds no room. The batch is closed, and a second one begun behind it, for another 16,384 bytes.
            The sending thread is woken again, because a closed batch need not linger. The partitioner has counted
            16,384 bytes for partition 2, and says 0 from now on.
    3 ms    Sending thread, `ready`: partition 2 has a full batch, and its leader is node 1. `drain` takes the first
            batch of each partition of node 1, up to `max_request_size`, the lock is let go, and the batches are
            numbered and encoded: compression takes longer than all the rest.
    9 ms    Node 1 answers NOT_LEADER_OR_FOLLOWER. `reenqueue` puts the batch back at the head, before the second
            batch; it may be drained again 100 ms later, for the leader that the metadata name by then.
    120 ms  Node 3 answers with base offset 70. The record's future yields offset 70, the second record's 71. `finished`
            gives the 16,384 bytes back, which lets a thread go on that waits for memory.

Why the queue may be looked at twice in `append`: memory is waited for without the lock, and in the meantime another
thread may have begun the batch that was missing. Then the memory goes back, and the record goes into that batch. Kafka
does the same; the alternative is two half-empty batches.

The memory is a budget (decision 0023). Records are kept as the caller's objects until the batch is encoded, in one
piece, so a batch that is drained early never occupied the bytes that it was charged for.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from random import Random
from typing import NamedTuple

from barnabas.clients.errors import ClientClosed
from barnabas.clients.metadata.cluster import Cluster
from barnabas.clients.producer.accumulator.batch_queues import BatchQueues, IncompleteBatches, Readiness, ReadyResult
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.sticky_partitioner import PartitionLoads, StickyPartitioners
from barnabas.clients.producer.batches.producer_batch import CompressionRatioEstimator, ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import DeliveryCallback, ProducerRecord, RecordMetadata
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch import HEADER_SIZE
from barnabas.rpc.metadata_updater import FOREVER_MS

logger = logging.getLogger(__name__)

# A look-up of an enum's member costs more than the rest of its comparison, and `send` makes it for every record.
_NO_CODEC = Codec.NONE
_CLOSED = "Producer closed while send in progress"


class Appended(NamedTuple):
    """A record's future, and whether to wake the sender: a batch became full, or a new one was begun."""

    future: Future[RecordMetadata]
    wakes_sender: bool


class RecordAccumulator:
    """The queues of batches. An idempotent producer has `sequences`."""

    def __init__(
        self,
        config: ProducerConfig,
        pool: BufferPool,
        random: Random,
        sequences: SequenceNumbers | None = None,
    ) -> None:
        self._config = config
        self.pool = pool
        self._sequences = sequences
        self._ratios = CompressionRatioEstimator()
        self._readiness = Readiness(config, self._ratios, random)
        self._lock = threading.Lock()
        self._queues = BatchQueues()
        loads = PartitionLoads(
            self._queues.by_partition,
            is_adaptive=config.partitioner_adaptive_partitioning_enable,
            availability_timeout_ms=config.partitioner_availability_timeout_ms,
        )
        self._partitioners = StickyPartitioners(config.batch_size, random, loads)
        self._muted: set[TopicPartition] = set()
        self._incomplete = IncompleteBatches()
        self._drain_starts: dict[int, int] = {}
        self._closed = False

    # -- threads that send

    def append(
        self,
        topic: str,
        partition: int | None,
        record: ProducerRecord,
        cluster: Cluster,
        *,
        max_block_ms: float,
        now: Callable[[], int],
        future: Future[RecordMetadata] | None = None,
    ) -> Appended:
        """Add a record. Without a `partition`, the topic's sticky partitioner chooses one.

        `future` gets the result; without it, a new one does.
        Raises BufferExhausted after `max_block_ms` without memory, ValueError when the record exceeds all memory,
        ClientClosed.
        """
        allocated_bytes = 0
        limit_bytes = self._config.batch_size
        codec = self._config.codec
        try:
            # The first turn tries the open batch. When a new batch is needed, memory is allocated without the lock,
            # and the second turn looks at the open batch again: another thread may have begun one.
            while True:
                with self._lock:
                    if self._closed:
                        raise ClientClosed(_CLOSED)
                    sticky = self._partitioners.get(topic) if partition is None else None
                    chosen = partition if sticky is None else sticky.partition(cluster)
                    queue = self._queues.by_partition.get((topic, chosen))  # type: ignore[call-overload]  # equal, and made faster
                    ratio = 1.0 if codec is _NO_CODEC else self._ratios.estimate(topic, codec)
                    taken = None
                    if queue:
                        taken = queue[-1].try_append(record, limit_bytes=limit_bytes, ratio=ratio, future=future)
                    # The first record of a new batch always fits, even one larger than `batch_size`.
                    is_new = taken is None and allocated_bytes > 0
                    if is_new:
                        assert chosen is not None
                        queue, batch = self._begin_batch(TopicPartition(topic, chosen), allocated_bytes, now())
                        allocated_bytes = 0
                        taken = batch.try_append(record, limit_bytes=limit_bytes, ratio=ratio, future=future)
                    if taken is not None:
                        assert queue is not None
                        is_full = queue[-1].is_full(limit_bytes, ratio)
                        if sticky is not None:
                            sticky.add(record.size, cluster, batch_is_closed=is_full or len(queue) > 1)
                        # A batch that was begun earlier, and still has room, has woken the sender already.
                        return Appended(taken, is_full or is_new)
                # Memory is taken for a full batch at once: one allocation for each batch, not one for each record.
                wanted = max(limit_bytes, HEADER_SIZE + record.size)
                self.pool.allocate(wanted, max_block_ms)
                allocated_bytes = wanted
        finally:
            # Another thread began the batch that took this record: the memory is not needed.
            if allocated_bytes:
                self.pool.give_back(allocated_bytes)

    def _begin_batch(
        self, topic_partition: TopicPartition, allocated_bytes: int, now_ms: int
    ) -> tuple[deque[ProducerBatch], ProducerBatch]:
        """Put a new batch at the end of its queue. Returns both."""
        batch = ProducerBatch(
            topic_partition,
            self._config.codec,
            now_ms,
            allocated_bytes=allocated_bytes,
            compression_level=self._config.compression_level,
        )
        if self._sequences is not None:
            self._sequences.begin_batch(batch)
        self._incomplete.add(batch)
        return self._queues.append(batch), batch

    def append_batch(
        self, batch: ProducerBatch, callback: DeliveryCallback | None, *, max_block_ms: float
    ) -> Future[RecordMetadata]:
        """Queue a ready-made batch behind the partition's other records. Raises the errors of `append`."""
        self.pool.allocate(batch.allocated_bytes, max_block_ms)
        future = batch.add_delivery(callback)
        with self._lock:
            if not self._closed:
                if self._sequences is not None:
                    self._sequences.begin_batch(batch)
                queue = self._queues.append(batch)
                if len(queue) > 1:
                    # A later record must not be put before this batch.
                    queue[-2].is_closed = True
                self._incomplete.add(batch)
                return future
        self.pool.give_back(batch.allocated_bytes)
        raise ClientClosed(_CLOSED)

    def begin_flush(self) -> None:
        """Make all batches ready, whether full or not, until `await_flush` returns."""
        with self._lock:
            self._incomplete.flushes += 1

    def await_flush(self) -> None:
        """Wait until all records that were appended before have been delivered, or have failed."""
        try:
            with self._lock:
                batches = self._incomplete.snapshot()
            # The wait is without the lock: the batches end on the sending thread, which takes it.
            for batch in batches:
                batch.deliveries.wait()
        finally:
            with self._lock:
                self._incomplete.flushes -= 1

    # -- the sending thread

    def ready(self, cluster: Cluster, now_ms: int) -> ReadyResult:
        """Return the nodes that lead a partition whose first batch should be sent.

        A batch should be sent when it is full, has lingered long enough, or its backoff after a failure is over. Every
        batch should be sent when memory is short, and during a flush or close. Muted partitions wait.
        """
        with self._lock:
            # A thread that waits for memory can only go on when batches leave, so even a batch of one record is sent.
            is_urgent = bool(self.pool.waiting or self._closed or self._incomplete.flushes)
            is_urgent = is_urgent or (self._sequences is not None and self._sequences.is_urgent)
            return self._readiness.check(self._queues.by_partition, self._muted, cluster, now_ms, is_urgent=is_urgent)

    def note_node(self, node_id: int, now_ms: int, *, is_ready: bool) -> None:
        """Note whether a node that `ready` has named takes requests, for the choice of partitions."""
        loads = self._partitioners.loads
        if loads.watches_nodes:
            with self._lock:
                loads.note_node(node_id, now_ms, is_ready=is_ready)

    def drain(
        self, cluster: Cluster, node_ids: Iterable[int], max_bytes: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """Take the first batch of each partition of these nodes: for each node at most `max_bytes`, but one batch.

        The round begins at another partition each time, so that no partition starves. Returns encoded batches.
        """
        wanted = set(node_ids)
        if not wanted:
            return {}
        with self._lock:
            by_node: dict[int, list[tuple[TopicPartition, deque[ProducerBatch]]]] = {}
            for topic_partition, queue in self._queues.by_partition.items():
                leader = cluster.leader(topic_partition) if queue else None
                if leader is not None and leader.id in wanted and topic_partition not in self._muted:
                    by_node.setdefault(leader.id, []).append((topic_partition, queue))
            drained = {
                node_id: self._drain_node(node_id, queues, cluster, max_bytes, now_ms)
                for node_id, queues in by_node.items()
            }
        # Encoding takes long, so it happens without the lock: the batches belong to this thread now.
        encoded = {node_id: [batch for batch in batches if self._encode(batch)] for node_id, batches in drained.items()}
        # A node from which a batch was taken is named even if none could be encoded: there may be more for it.
        return {node_id: batches for node_id, batches in encoded.items() if drained[node_id]}

    def _drain_node(
        self,
        node_id: int,
        queues: list[tuple[TopicPartition, deque[ProducerBatch]]],
        cluster: Cluster,
        max_bytes: int,
        now_ms: int,
    ) -> list[ProducerBatch]:
        batches: list[ProducerBatch] = []
        size = 0
        start = self._drain_starts.get(node_id, 0) % len(queues)
        self._drain_starts[node_id] = start + 1
        for topic_partition, queue in queues[start:] + queues[:start]:
            batch = queue[0]
            # A failed batch waits for its backoff here too: another partition may have made its node ready.
            if self._readiness.wait(batch, cluster, now_ms).is_backing_off:
                continue
            estimated = batch.estimated_bytes(self._ratios.estimate(topic_partition.topic, batch.codec))
            if batches and size + estimated > max_bytes:
                break
            # The broker accepts batches only in sequence, so a batch waits while an earlier one is being retried.
            if self._sequences is not None and not self._sequences.may_send(batch):
                continue
            queue.popleft()
            batch.is_closed = True
            batch.in_flight = True
            batch.leader_epoch = cluster.leader_epoch(topic_partition)
            size += estimated
            batches.append(batch)
        return batches

    def _encode(self, batch: ProducerBatch) -> bool:
        """Encode a drained batch and number it. Returns False for a batch that cannot be encoded, which then fails."""
        try:
            # Numbered first: an encoded batch would have to be copied, and its checksum computed again.
            if self._sequences is not None and not batch.has_sequence:
                self._sequences.number(batch)
            if batch.data is None:
                ratio = batch.close()
                if batch.codec is not Codec.NONE:
                    with self._lock:
                        self._ratios.observe(batch.topic_partition.topic, batch.codec, ratio)
            batch.seal()
        except Exception as error:  # the callers of `send` must learn of every failure
            logger.exception("A batch of %s cannot be encoded", batch.topic_partition)
            if self._sequences is not None:
                self._sequences.failed(batch, error)
            batch.fail(error)
            self.finished(batch)
            return False
        return True

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Put a batch back after a failed attempt: at the head of its queue, or by its sequence number."""
        with self._lock:
            batch.reenqueued(now_ms, self._readiness.draw_backoff_ms(batch))
            self._queues.put_back(batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> int:
        """Split a batch that the broker found too large, and put its pieces at the head of the queue.

        Returns the number of pieces.
        """
        assert batch.data is not None
        ratio = len(batch.data) / max(batch.uncompressed_bytes, 1)
        # At most 5/8 of the batch, so that splitting makes progress even if the batch is smaller than `batch_size`.
        limit = min(self._config.batch_size, max(batch.uncompressed_bytes, len(batch.data)) * 5 // 8)
        pieces = batch.split(limit)
        if self._sequences is not None:
            self._sequences.replace(batch, pieces)
        with self._lock:
            self._ratios.reset(batch.topic_partition.topic, batch.codec, ratio)
            # In reverse: each piece goes to the head of the queue.
            for piece in reversed(pieces):
                self._incomplete.add(piece)
                self._queues.put_back(piece)
        return len(pieces)

    def expire(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the queued batches whose `delivery_timeout_ms` is over."""
        with self._lock:
            return self._queues.expire(self._config.delivery_timeout_ms, now_ms)

    def next_expiry_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the first queued batch expires."""
        with self._lock:
            oldest_ms = self._queues.oldest_ms()
        return FOREVER_MS if oldest_ms is None else max(oldest_ms + self._config.delivery_timeout_ms - now_ms, 0)

    def mute(self, topic_partition: TopicPartition) -> None:
        """Drain no other batch of this partition, because one is in flight and must arrive first."""
        with self._lock:
            self._muted.add(topic_partition)

    def unmute(self, topic_partition: TopicPartition) -> None:
        """Drain this partition again, because its batch in flight has ended or is queued again."""
        with self._lock:
            self._muted.discard(topic_partition)

    def finished(self, batch: ProducerBatch) -> None:
        """Give back the memory of a batch that has ended."""
        with self._lock:
            known = self._incomplete.remove(batch)
        # A batch may end twice, on its answer and on its expiry. Only the first end gives the memory back.
        if known and batch.allocated_bytes:
            self.pool.give_back(batch.allocated_bytes)

    def has_incomplete(self) -> bool:
        """Return whether any batch has not ended, queued or in flight."""
        with self._lock:
            return bool(self._incomplete)

    def queue_lengths(self) -> Mapping[TopicPartition, int]:
        """Return the number of queued batches of each partition that has some."""
        with self._lock:
            return self._queues.lengths()

    def close(self) -> None:
        """Reject new records from now on, and make all queued batches ready."""
        with self._lock:
            self._closed = True
        self.pool.close()

    def abort_incomplete(self, error: Exception) -> None:
        """Fail all batches that have not ended."""
        with self._lock:
            batches = self._incomplete.snapshot()
            self._queues.clear()
        for batch in batches:
            batch.abort(error)
            self.finished(batch)

    def abort_undrained(self, error: Exception, *, keeps_numbered: bool = False) -> None:
        """Fail all queued batches, or those that were never sent. Batches in flight may still succeed."""
        with self._lock:
            batches = self._queues.clear(keeps_numbered=keeps_numbered)
        for batch in batches:
            if self._sequences is not None:
                self._sequences.failed(batch, error)
            batch.abort(error)
            self.finished(batch)
