"""The batches that have not ended, queued or in flight, and the flushes that wait for them.

Owned by `RecordAccumulator`, whose lock guards it. Kafka: IncompleteBatches.
"""

from __future__ import annotations

from barnabas.clients.producer.batches.producer_batch import ProducerBatch


class IncompleteBatches:
    """The batches of one producer. `flushes`: the number of threads in `begin_flush` to the end of `await_flush`."""

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
