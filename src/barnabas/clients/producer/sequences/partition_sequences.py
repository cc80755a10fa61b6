"""The sequence numbers of one partition: the batches that are pending, and whether the broker still accepts the next.

Owned by `SequenceNumbers`, hence by the sending thread; no lock. Kafka: TxnPartitionEntry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.records.record_batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

# A broker remembers the last five batches of a producer in a partition. It answers a repetition of an older one as it
# answers a gap.
_REMEMBERED_BATCHES = 5


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch. A higher epoch makes the broker reject what an older one has sent (KIP-360)."""

    producer_id: int
    epoch: int


NO_IDENTITY = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def is_before(sequence: int, other: int) -> bool:
    """Return whether a sequence number comes before another one. The numbers wrap to 0 after 2^31 - 1."""
    return 0 < (other - sequence) & MAX_SEQUENCE < 0x40000000


class PartitionSequences:
    """The numbering under one `identity`. `pending`: the numbered batches that have not ended, in sequence."""

    __slots__ = ("_last_acknowledged", "_next", "_window", "has_gap", "identity", "is_refused", "pending")

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.pending: list[ProducerBatch] = []
        self.has_gap = False
        """Whether a numbered batch has ended without an acknowledgement: its numbers may be missing in the log."""
        self.is_refused = False
        """Whether the broker has refused the first pending batch for its number. No repetition of it can succeed."""
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        self._window: list[ProducerBatch] = []
        """The batches from the first pending one on, with those that have ended since."""

    def takes_new(self, identity: ProducerIdentity) -> bool:
        """Return whether another batch may be numbered and sent now, behind those that are pending."""
        if self.has_gap or self.is_refused:
            return False
        if not self._window:
            return True
        # The first batch of an epoch goes alone. A broker without any state of the producer accepts whatever number
        # comes first, so the second batch could be stored while the first one is rejected for a passing reason, and
        # the first one would never be accepted again. Kafka's producer takes that risk.
        if self._last_acknowledged == NO_SEQUENCE or identity != self.identity:
            return False
        # A new batch must not overtake one that waits for a retry, and must not make the broker forget one whose
        # answer was lost.
        return len(self._window) < _REMEMBERED_BATCHES and all(batch.in_flight for batch in self.pending)

    def number(self, batch: ProducerBatch) -> None:
        """Give a new batch the next numbers."""
        self._write(batch)
        self.pending.append(batch)
        self._window.append(batch)

    def replace(self, batch: ProducerBatch, pieces: Sequence[ProducerBatch]) -> None:
        """Give the numbers of a pending batch to the pieces into which it was split."""
        sequence = batch.base_sequence
        for piece in pieces:
            piece.set_producer_state(*self.identity, sequence)
            sequence = sequence + piece.record_count & MAX_SEQUENCE
        for batches in (self.pending, self._window):
            index = batches.index(batch)
            batches[index : index + 1] = pieces

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Note that the broker has stored a pending batch."""
        last = batch.base_sequence + batch.record_count - 1 & MAX_SEQUENCE
        if self._last_acknowledged == NO_SEQUENCE or is_before(self._last_acknowledged, last):
            self._last_acknowledged = last
        # The broker's last number is now behind the batch that it refused, which thus can no longer be stored in order.
        self.is_refused = False
        self._forget(batch)
        # If the last number that was used is in the log, the numbers before it that may be missing no longer matter.
        if self.has_gap and self._is_whole:
            self.has_gap = False

    def given_up(self, batch: ProducerBatch) -> None:
        """Note that a pending batch has ended without an acknowledgement."""
        self.has_gap = self.has_gap or not self.is_overtaken(batch)
        self._forget(batch)

    def is_overtaken(self, batch: ProducerBatch) -> bool:
        """Return whether a later batch is in the log, so that this one can no longer be stored in order."""
        return self._last_acknowledged != NO_SEQUENCE and is_before(batch.base_sequence, self._last_acknowledged + 1)

    @property
    def first_pending(self) -> ProducerBatch | None:
        """The pending batch with the lowest number."""
        return self.pending[0] if self.pending else None

    @property
    def must_restart(self) -> bool:
        """Whether to number the pending batches again now, because the broker will not accept the present numbers."""
        # Only a refusal says that the pending batches are not in the log. Without one they are sent again with their
        # numbers, the first one first, and a restart waits for those that are in flight.
        if self.is_refused:
            return not any(batch.in_flight for batch in self.pending)
        return self.has_gap and not self.pending and not self._is_whole

    @property
    def is_settled(self) -> bool:
        """Whether the broker accepts the next numbers, as far as the producer can know."""
        return not self.is_refused and not self.has_gap

    @property
    def _is_whole(self) -> bool:
        return self._next == self._last_acknowledged + 1 & MAX_SEQUENCE

    def restart(self, identity: ProducerIdentity) -> None:
        """Number the pending batches again, in order, from 0, under another identity."""
        self.identity = identity
        self.has_gap = self.is_refused = False
        self._next = 0
        self._last_acknowledged = NO_SEQUENCE
        for batch in self.pending:
            # The broker has refused the first pending batch for its number, so it has none of them.
            batch.may_be_stored = False
            self._write(batch)
        self._window = list(self.pending)

    def _write(self, batch: ProducerBatch) -> None:
        batch.set_producer_state(*self.identity, self._next)
        self._next = self._next + batch.record_count & MAX_SEQUENCE

    def _forget(self, batch: ProducerBatch) -> None:
        self.pending.remove(batch)
        while self._window and self._window[0] not in self.pending:
            del self._window[0]
