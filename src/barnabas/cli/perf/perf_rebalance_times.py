"""The time that a consumer of `barnabas perf consume` spends without partitions.

Called on the consumer's thread, inside its polls. A module of its own, imported by the run: its base class brings the
whole consumer, which `--help` does without. Kafka: ConsumerPerformance.ConsumerPerfRebListener.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.perf.perf_counts import NANOSECONDS_PER_SECOND
from barnabas.clients.consumer import RebalanceListener, TopicPartition
from barnabas.runtime.clock import Clock


class RebalanceTimes(RebalanceListener):
    """The time without partitions, from the start or a revocation to the next assignment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ns: int | None = clock.nanoseconds()
        self.seconds = 0.0

    def restart(self) -> None:
        """Forget the time so far, after the warm-up."""
        self.seconds = 0.0

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to count."""
        self._since_ns = self._clock.nanoseconds()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """End the count, which the first assignment always does."""
        if self._since_ns is not None:
            self.seconds += (self._clock.nanoseconds() - self._since_ns) / NANOSECONDS_PER_SECOND
            self._since_ns = None
