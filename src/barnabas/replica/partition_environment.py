"""The values that all partitions of one broker share.

Made by ReplicaManager, read by any thread; immutable, so no lock. Kafka: the constructor arguments of Partition that
are the same for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock


@dataclass(frozen=True, slots=True)
class PartitionEnvironment:
    """The broker's id, time, and rules for followers.

    max_lag_ms: `replica.lag.time.max.ms`. is_alive: whether the metadata says that a broker is alive.
    """

    broker_id: int
    clock: Clock
    max_lag_ms: int
    is_alive: Callable[[int], bool]

    def monotonic_ms(self) -> int:
        """Return the time for measuring how far followers are behind, which no step of the machine's clock moves."""
        return self.clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND
