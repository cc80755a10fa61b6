"""The in-sync replicas of a partition as its leader sees them: agreed with the controller, or being changed.

Pure: `next_state` of an immutable `IsrState` and an event; a `LeaderState` holds the current one, `isr_updates` decides
on events. A change that was asked for and not answered yet counts at its safest: a replica being added must already
have what is acknowledged, a replica being removed still must (the maximal ISR of KIP-497).

Kafka: PartitionState, CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr in kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple


class IsrPhase(Enum):
    """Whether a change is under way, and which."""

    COMMITTED = "committed"
    PENDING_EXPAND = "pending expand"
    PENDING_SHRINK = "pending shrink"


class IsrEvent(Enum):
    """What happens to the in-sync replicas."""

    EXPAND = "expand"
    """The leader asks to add replicas."""
    SHRINK = "shrink"
    """The leader asks to remove replicas."""
    COMMIT = "commit"
    """What was asked for has been written; the replicas are those written."""
    REFUSE = "refuse"
    """It certainly was not, and will not be."""


TRANSITIONS = {
    (IsrPhase.COMMITTED, IsrEvent.EXPAND): IsrPhase.PENDING_EXPAND,
    (IsrPhase.COMMITTED, IsrEvent.SHRINK): IsrPhase.PENDING_SHRINK,
    (IsrPhase.PENDING_EXPAND, IsrEvent.COMMIT): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_SHRINK, IsrEvent.COMMIT): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_EXPAND, IsrEvent.REFUSE): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_SHRINK, IsrEvent.REFUSE): IsrPhase.COMMITTED,
}
"""(phase, event) -> phase; an event that is not here for a phase is ignored: one change at a time.

A new leadership begins COMMITTED, with what the controller says, whatever was asked for."""


class IsrState(NamedTuple):
    """committed: the in-sync replicas the cluster agrees on. changing: those to be added or removed."""

    phase: IsrPhase
    committed: frozenset[int]
    changing: frozenset[int] = frozenset()

    @property
    def is_pending(self) -> bool:
        """Whether a change was asked for and not answered."""
        return self.phase is not IsrPhase.COMMITTED

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that may be in sync for somebody: what the high watermark and acks=all wait for."""
        return self.committed | self.changing if self.phase is IsrPhase.PENDING_EXPAND else self.committed

    @property
    def proposed(self) -> frozenset[int]:
        """What they are once the change is committed."""
        if self.phase is IsrPhase.PENDING_EXPAND:
            return self.committed | self.changing
        return self.committed - self.changing


def committed(replicas: Collection[int]) -> IsrState:
    """In-sync replicas with no change under way."""
    return IsrState(IsrPhase.COMMITTED, frozenset(replicas))


def next_state(state: IsrState, event: IsrEvent, replicas: Collection[int] = ()) -> IsrState | None:
    """The state after an event, None when the event does not apply or changes nothing.

    replicas: those to add or remove (EXPAND, SHRINK), or those now in sync (COMMIT).
    """
    phase = TRANSITIONS.get((state.phase, event))
    if phase is None:
        return None
    if event is IsrEvent.EXPAND:
        added = frozenset(replicas) - state.committed
        return IsrState(phase, state.committed, added) if added else None
    if event is IsrEvent.SHRINK:
        removed = frozenset(replicas) & state.committed
        return IsrState(phase, state.committed, removed) if removed else None
    return committed(state.committed if event is IsrEvent.REFUSE else replicas)
