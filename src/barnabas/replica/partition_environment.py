"""What all partitions of one broker share. Built by ReplicaManager; read by any thread; never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class PartitionEnvironment:
    """max_lag_ms: `replica.lag.time.max.ms`. is_alive: whether a broker is, as far as the metadata knows."""

    broker_id: int
    clock: Clock
    max_lag_ms: int
    is_alive: Callable[[int], bool]
