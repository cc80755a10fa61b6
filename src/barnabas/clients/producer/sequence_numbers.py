"""The producer id and the sequence numbers of an idempotent producer (KIP-98).

Owned by the sending thread, which calls some methods under the accumulator's lock. No lock of its own.
Kafka: TransactionManager, without its transactions.

A broker accepts the batches of a partition only in sequence, so a batch that failed for good leaves a gap that no
later batch can cross. Then the producer fetches a new id once no batch is in flight, and numbers the queued batches
again, from 0. That may duplicate a batch whose answer was lost, but it loses none. (Kafka raises the epoch instead,
KIP-360.)

    sent    base_sequence 0 (3 records), 3 (2 records), 5 (1 record)
    answers 0: stored; 3: fails for good; 5: OUT_OF_ORDER_SEQUENCE_NUMBER, since the broker waits for 3
    then    InitProducerId; the batch of 1 record is sent again with the new id and base_sequence 0
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
    """The next sequence number of each partition, and the numbered batches that have not ended yet."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self._next: dict[TopicPartition, int] = {}
        self._last_acked: dict[TopicPartition, int] = {}
        self._in_flight: dict[TopicPartition, list[ProducerBatch]] = {}
        """The numbered batches that have not ended, in sequence, including those that wait for a retry."""
        self._reset_wanted = False

    @property
    def needs_producer_id(self) -> bool:
        """Whether to send InitProducerId: there is no id yet, or a new one is wanted and no batch is in flight."""
        if self.producer_id == NO_PRODUCER_ID:
            return True
        return self._reset_wanted and not any(
            batch.in_flight for batches in self._in_flight.values() for batch in batches
        )

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Take a producer id. Batches that wait for a retry are numbered again under it, from 0."""
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
        """Return whether the batch may be sent now: no earlier batch of its partition is being retried."""
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
        """Note that the broker has stored the batch."""
        last = batch.base_sequence + batch.record_count - 1 & MAX_SEQUENCE
        self._last_acked[batch.topic_partition] = last
        self._forget(batch)

    def failed(self, batch: ProducerBatch) -> None:
        """Note that the batch failed, or that its result is unknown. Its numbers become a gap in the sequence."""
        if batch.has_sequence:
            self._forget(batch)
            self._reset_wanted = True

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """Give the numbers of a batch that was split to its pieces."""
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
        """Return whether sending the same batch again may help.

        An out-of-order batch is retried, unless it is the next one in sequence: an earlier batch that is still missing
        comes first.
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
