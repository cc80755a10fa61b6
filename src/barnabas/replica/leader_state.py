"""Who leads a partition, as one immutable value.

A `Partition` swaps its LeaderState by one assignment; readers take no lock, and an appender that holds the log lock
re-checks that the state it decided on is still the current one. Kafka keeps the same fields in Partition behind a
read-write lock, which Python does not have.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The partition's leadership as the controller last told it.

    start_offset: log end offset when this broker became leader in this epoch; -1 on a follower.
    """

    is_leader: bool
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...]
    start_offset: int = -1
