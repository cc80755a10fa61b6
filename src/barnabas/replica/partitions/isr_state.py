"""The in-sync replicas of a partition as its leader sees them: agreed with the controller, or being changed.

Pure: `next_state` of an immutable `IsrState` and an event. A `LeaderState` holds the current one; `isr_updates` sends
events. While a change is pending, the leader does not know whether the controller has written it. Until the answer
comes it therefore waits for every replica that may be in sync: a replica being added must already have what is
acknowledged, and a replica being removed still must (the maximal ISR of KIP-497):

    agreed {1, 2}, adding 3      acks=all waits for 1, 2 and 3
    agreed {1, 2, 3}, removing 3 acks=all waits for 1, 2 and 3

Kafka: PartitionState, CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr in kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class IsrPhase(Enum):
    """Whether a change is pending, and which."""

    COMMITTED = "committed"
    PENDING_EXPAND = "pending expand"
    PENDING_SHRINK = "pending shrink"


class IsrEvent(Enum):
    """An event that may change the in-sync replicas."""

    EXPAND = "expand"
    """The leader asks to add replicas."""
    SHRINK = "shrink"
    """The leader asks to remove replicas."""
    COMMIT = "commit"
    """The change has been written; the replicas are those written."""
    REFUSE = "refuse"
    """The change was certainly not written, and will not be."""


TRANSITIONS = {
    (IsrPhase.COMMITTED, IsrEvent.EXPAND): IsrPhase.PENDING_EXPAND,
    (IsrPhase.COMMITTED, IsrEvent.SHRINK): IsrPhase.PENDING_SHRINK,
    (IsrPhase.PENDING_EXPAND, IsrEvent.COMMIT): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_SHRINK, IsrEvent.COMMIT): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_EXPAND, IsrEvent.REFUSE): IsrPhase.COMMITTED,
    (IsrPhase.PENDING_SHRINK, IsrEvent.REFUSE): IsrPhase.COMMITTED,
}
"""(phase, event) -> phase. An event that has no line for a phase is ignored: there is one change at a time.

A new leadership begins COMMITTED with the replicas that the controller names, whatever change was pending."""


class IsrState(NamedTuple):
    """The in-sync replicas. committed: those the cluster agrees on. changing: those to be added or removed.

    broker_epochs: of the followers when the change was proposed, where they had said one in a fetch. A follower that
    has returned since has another epoch, and perhaps another disk.
    """

    phase: IsrPhase
    committed: frozenset[int]
    changing: frozenset[int] = frozenset()
    broker_epochs: Mapping[int, int] = MappingProxyType({})

    @property
    def is_pending(self) -> bool:
        """Whether a change was proposed and is not answered."""
        return self.phase is not IsrPhase.COMMITTED

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that may be in sync for the controller: the high watermark and acks=all wait for all of them."""
        return self.committed | self.changing if self.phase is IsrPhase.PENDING_EXPAND else self.committed

    @property
    def proposed(self) -> frozenset[int]:
        """The in-sync replicas once the change is committed."""
        if self.phase is IsrPhase.PENDING_EXPAND:
            return self.committed | self.changing
        return self.committed - self.changing


def committed(replicas: Collection[int]) -> IsrState:
    """Return in-sync replicas with no change pending."""
    return IsrState(IsrPhase.COMMITTED, frozenset(replicas))


def next_state(state: IsrState, event: IsrEvent, replicas: Collection[int] = ()) -> IsrState | None:
    """Return the state after an event, or None when the event does not apply or changes nothing.

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
