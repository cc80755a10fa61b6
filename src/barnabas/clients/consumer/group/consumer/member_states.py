"""The states of a member whose coordinator assigns its partitions (KIP-848), as one table. Pure.

Read by `ConsumerMembership` under the coordinator channel's lock. docs/member-states.md is drawn from `TRANSITIONS`.
Kafka: MemberState.

A member's life, from the first poll to the close:

    UNSUBSCRIBED -> JOINING        the user polls with a subscription; the next heartbeat has epoch 0 and all fields
    JOINING -> RECONCILING         the answer has a member epoch and an assignment
    RECONCILING -> ACKNOWLEDGING   the consumer's thread has revoked and taken over partitions, in a poll
    ACKNOWLEDGING -> STABLE        the heartbeat that names the owned partitions is sent
    STABLE -> RECONCILING          a later answer has another assignment
    STABLE -> PREPARE_LEAVING      the user closes the consumer; its listener is called
    PREPARE_LEAVING -> LEAVING     the partitions are given up; the heartbeat with epoch -1 or -2 comes next
    LEAVING -> UNSUBSCRIBED        that heartbeat is sent

A coordinator that no longer knows the member takes it to FENCED, a user who does not poll to STALE. In both states the
partitions may have other owners already, no heartbeat is sent, and the next poll of the user gives the partitions up
and goes on to JOINING. FATAL is final.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """The states of the module's docstring, in Kafka's words."""

    UNSUBSCRIBED = "Unsubscribed"
    JOINING = "Joining"
    RECONCILING = "Reconciling"
    ACKNOWLEDGING = "Acknowledging"
    STABLE = "Stable"
    FENCED = "Fenced"
    STALE = "Stale"
    PREPARE_LEAVING = "PrepareLeaving"
    LEAVING = "Leaving"
    FATAL = "Fatal"

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the coordinator has to hear from the member in this state, at each interval."""
        return self in _HEARTBEATS

    @property
    def takes_assignments(self) -> bool:
        """Whether the member follows an assignment that arrives in this state."""
        return self in _TAKES_ASSIGNMENTS

    @property
    def has_lost_partitions(self) -> bool:
        """Whether the partitions that the member still holds may have other owners already."""
        return self in {MemberState.FENCED, MemberState.STALE, MemberState.FATAL}


class MemberEvent(Enum):
    """An event that moves a member to another state."""

    SUBSCRIBED = "the user polls with a subscription"
    ASSIGNED = "an answer has an assignment that differs from the owned partitions"
    CONFIRMED = "an answer has an assignment equal to the owned partitions"
    RECONCILED = "the assigned partitions are owned, all others revoked"
    ACKNOWLEDGED = "a heartbeat with the owned partitions is sent"
    OUTDATED = "that heartbeat is sent, and the assignment has changed meanwhile"
    FENCED = "the coordinator does not know the member or its epoch"
    FAILED = "the coordinator rejects the member for good"
    POLL_EXPIRED = "the user has not polled for max_poll_interval_ms"
    RELEASED = "the partitions are given up, the listener was called"
    LEFT = "the heartbeat that leaves the group is sent, or cannot be"
    UNSUBSCRIBE = "the user ends the subscription or closes the consumer"


_UNSUBSCRIBED = MemberState.UNSUBSCRIBED
_JOINING = MemberState.JOINING
_RECONCILING = MemberState.RECONCILING
_ACKNOWLEDGING = MemberState.ACKNOWLEDGING
_STABLE = MemberState.STABLE
_FENCED = MemberState.FENCED
_STALE = MemberState.STALE
_PREPARE_LEAVING = MemberState.PREPARE_LEAVING
_LEAVING = MemberState.LEAVING
_FATAL = MemberState.FATAL

_TAKES_ASSIGNMENTS: Final = frozenset({_JOINING, _RECONCILING, _ACKNOWLEDGING, _STABLE})
# A member whose listener is busy with the partitions that it gives up still owns them.
_HEARTBEATS: Final = _TAKES_ASSIGNMENTS | {_PREPARE_LEAVING}

_ENDS: Final[Mapping[MemberEvent, MemberState]] = {
    MemberEvent.FENCED: _FENCED,
    MemberEvent.FAILED: _FATAL,
    MemberEvent.POLL_EXPIRED: _STALE,
    MemberEvent.UNSUBSCRIBE: _PREPARE_LEAVING,
}
"""The ends of every state in which the member takes assignments."""

# A pair that is not in the table is a bug, and not an event to ignore. The pairs that change nothing are events that
# one thread causes while the other has taken the member out of the group.
TRANSITIONS: Final[Mapping[MemberState, Mapping[MemberEvent, MemberState]]] = {
    _UNSUBSCRIBED: {
        MemberEvent.SUBSCRIBED: _JOINING,
        MemberEvent.UNSUBSCRIBE: _UNSUBSCRIBED,
        MemberEvent.RELEASED: _UNSUBSCRIBED,
    },
    # No CONFIRMED here: an assignment that differs from the one before has a new number, which the member acknowledges
    # even if it is back where it was.
    _JOINING: {MemberEvent.ASSIGNED: _RECONCILING, **_ENDS},
    _RECONCILING: {
        MemberEvent.ASSIGNED: _RECONCILING,
        MemberEvent.RECONCILED: _ACKNOWLEDGING,
        **_ENDS,
    },
    _ACKNOWLEDGING: {
        MemberEvent.ASSIGNED: _RECONCILING,
        MemberEvent.CONFIRMED: _ACKNOWLEDGING,
        MemberEvent.ACKNOWLEDGED: _STABLE,
        MemberEvent.OUTDATED: _RECONCILING,
        **_ENDS,
    },
    _STABLE: {MemberEvent.ASSIGNED: _RECONCILING, MemberEvent.CONFIRMED: _STABLE, **_ENDS},
    # The partitions of a fenced member are released by the next poll, those of one that unsubscribes by that call.
    _FENCED: {MemberEvent.RELEASED: _JOINING, MemberEvent.UNSUBSCRIBE: _UNSUBSCRIBED},
    _STALE: {MemberEvent.RELEASED: _JOINING, MemberEvent.UNSUBSCRIBE: _UNSUBSCRIBED},
    _PREPARE_LEAVING: {
        MemberEvent.RELEASED: _LEAVING,
        # There is nothing left to leave.
        MemberEvent.FENCED: _UNSUBSCRIBED,
        MemberEvent.FAILED: _FATAL,
    },
    _LEAVING: {MemberEvent.LEFT: _UNSUBSCRIBED},
    _FATAL: {MemberEvent.RELEASED: _FATAL, MemberEvent.UNSUBSCRIBE: _FATAL},
}
"""The next state, by state and event."""


def next_state(state: MemberState, event: MemberEvent) -> MemberState:
    """Return the state after an event. Raises RuntimeError for an event that cannot occur in this state."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise RuntimeError(f"Invalid event {event.name} of a member in state {state.name}")
    return following
