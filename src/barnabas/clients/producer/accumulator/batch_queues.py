"""The queues of batches that wait to be sent, one for each partition.

Owned by `RecordAccumulator`, whose lock guards it. Kafka: RecordAccumulator.TopicInfo.
"""

from __future__ import annotations

from collections import deque

from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.sequences.partition_sequences import is_before
from barnabas.protocol.topic_partition import TopicPartition


class BatchQueues:
    """`by_partition`: the queues. One that has become empty stays, because its partition will be used again."""

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
