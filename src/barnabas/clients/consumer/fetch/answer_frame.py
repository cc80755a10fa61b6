"""One answer to a fetch, as long as records of its partitions are unread: its frame, and what was read of it.

Made by the Fetcher for each answer, shared by its completed fetches; owned by the consumer's thread; no lock. A frame
of 64 KiB or more lies in a recycled buffer. When the records of every partition have been decoded or dropped, the
buffer goes back to its pool, and the next answer needs no fresh memory: page faults would cost more than decoding.
Kafka: FetchMetricsAggregator; the JVM's heap is always mapped, so its consumer recycles no frames.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.clients.consumer.fetch.fetch_metrics import Consumed, FetchMetrics
from barnabas.records.record_batch import Buffer

_NOTHING = Consumed()


class AnswerFrame:
    """A count of the buffers that are still read. `give_back`: returns the frame to its pool, None for a small one."""

    __slots__ = ("_consumed", "_give_back", "_held", "_metrics")

    def __init__(self, give_back: Callable[[], None] | None, metrics: FetchMetrics) -> None:
        self._give_back = give_back
        self._metrics = metrics
        self._held = 0
        self._consumed: dict[str, Consumed] = {}

    def hold(self) -> None:
        """Count one more buffer that is read."""
        self._held += 1

    def release(self, buffer: Buffer, topic: str, consumed: Consumed = _NOTHING) -> None:
        """Note that one of the buffers is not read any more, and what was read of it.

        The last one gives the frame back.
        """
        # A view that still exists would keep the frame out of its pool for good.
        if isinstance(buffer, memoryview):
            buffer.release()
        before = self._consumed.get(topic, _NOTHING)
        self._consumed[topic] = Consumed(before.record_bytes + consumed.record_bytes, before.records + consumed.records)
        self._held -= 1
        if not self._held:
            self._metrics.consumed(self._consumed)
            if self._give_back is not None:
                self._give_back()
