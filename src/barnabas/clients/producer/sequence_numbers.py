"""Producer id and sequence numbers of an idempotent producer (Kafka: TransactionManager without transactions, KIP-98).

Owned by the sending thread; `assign`, `may_send` and the rest are called by it only, partly under the accumulator's
lock. No lock of its own.

A broker accepts the batches of a partition only in sequence, so a batch that failed for good leaves a gap that no
later batch can cross: then a new producer id is fetched once nothing is in flight, and what is queued is numbered
anew. That can duplicate a batch whose answer was lost, never lose one (Kafka bumps the epoch instead, KIP-360).
"""

from __future__ import annotations

from barnabas.clients.producer.producer_batch import ProducerBatch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import MAX_SEQUENCE, NO_PRODUCER_ID, NO_SEQUENCE

_RESETTING = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class SequenceNumbers:
    """What has been numbered, and what is in flight."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self._next: dict[TopicPartition, int] = {}
        self._last_acked: dict[TopicPartition, int] = {}
        self._in_flight: dict[TopicPartition, list[ProducerBatch]] = {}
        """Numbered batches that have not ended, in sequence; those that wait for a retry included."""
        self._reset_wanted = False

    @property
    def needs_producer_id(self) -> bool:
        """Whether InitProducerId should be sent: none yet, or a new one is wanted and nothing is on its way."""
        if self.producer_id == NO_PRODUCER_ID:
            return True
        return self._reset_wanted and not any(
            batch.in_flight for batches in self._in_flight.values() for batch in batches
        )

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take a producer id; batches that wait for a retry are numbered anew under it, from 0."""
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self._reset_wanted = False
        self._next.clear()
        self._last_acked.clear()
        waiting = self._in_flight
        self._in_flight = {}
        for batches in waiting.values():
            for batch in batches:
                self.assign(batch)

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be sent now: there is an id, and no earlier batch of its partition is being retried."""
        if self.producer_id == NO_PRODUCER_ID or self._reset_wanted:
            return False
        in_flight = self._in_flight.get(batch.topic_partition)
        if not in_flight:
            return True
        # A retry must be the first of those that have not ended; a new batch must not overtake a retry.
        return batch is in_flight[0] if batch.has_sequence else all(other.in_flight for other in in_flight)

    def assign(self, batch: ProducerBatch) -> None:
        """Number a batch that is about to be sent."""
        topic_partition = batch.topic_partition
        sequence = self._next.get(topic_partition, 0)
        batch.set_producer_state(self.producer_id, self.producer_epoch, sequence)
        self._next[topic_partition] = sequence + batch.record_count & MAX_SEQUENCE
        self._in_flight.setdefault(topic_partition, []).append(batch)

    def succeeded(self, batch: ProducerBatch) -> None:
        """The broker has it."""
        last = batch.base_sequence + batch.record_count - 1 & MAX_SEQUENCE
        self._last_acked[batch.topic_partition] = last
        self._forget(batch)

    def failed(self, batch: ProducerBatch) -> None:
        """It will not arrive, or nobody knows whether it did: its numbers are a gap."""
        if batch.has_sequence:
            self._forget(batch)
            self._reset_wanted = True

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """A batch the broker refused as too large was split: the pieces take over its numbers."""
        in_flight = self._in_flight.get(batch.topic_partition, [])
        if batch not in in_flight:
            return
        index = in_flight.index(batch)
        sequence = batch.base_sequence
        for piece in pieces:
            piece.set_producer_state(self.producer_id, self.producer_epoch, sequence)
            sequence = sequence + piece.record_count & MAX_SEQUENCE
        in_flight[index : index + 1] = pieces

    def can_retry(self, error: ErrorCode, batch: ProducerBatch) -> bool:
        """Whether sending the same batch again may help.

        Out of order, it does unless this is the very next batch: then an earlier one is still missing, and comes first.
        """
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            acked = self._last_acked.get(batch.topic_partition, NO_SEQUENCE)
            return batch.base_sequence != acked + 1 & MAX_SEQUENCE
        return error.retriable

    def _forget(self, batch: ProducerBatch) -> None:
        in_flight = self._in_flight.get(batch.topic_partition)
        if in_flight is not None and batch in in_flight:
            in_flight.remove(batch)
            if not in_flight:
                del self._in_flight[batch.topic_partition]
