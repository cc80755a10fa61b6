"""The decisions of a classic group: the work that its service does after an event.

`ClassicGroup` and its `ClassicMembers` collect an outcome under the group's lock. `ClassicGroupChanges` appends the
`stores` to the log under the same lock and does the rest without it: no request is answered and no delayed operation
completed under a lock. Pure. (Kafka's GroupCoordinator acts while it holds the group's lock.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.coordinator.group.classic.classic_group_member import Session
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode


class WaitForJoins(NamedTuple):
    """A wait of `delay_ms` for the members to join. `round_number` tells this wait from earlier ones of the group."""

    round_number: int
    delay_ms: int


class WaitForSyncs(NamedTuple):
    """A wait of `delay_ms` for the members of `generation` to ask for their assignments."""

    generation: int
    delay_ms: int


class StoreGroup(NamedTuple):
    """A record to append. The service then calls `on_stored` with the result, under the group's lock again.

    completes_rebalance: the record holds a leader's assignment.
    """

    record: CoordinatorRecord
    on_stored: Callable[[ErrorCode], None]
    completes_rebalance: bool = False


class ClassicOutcome:
    """The work of each kind, in the order in which the group asked for it.

    answers: calls that answer a request each. new_sessions: sessions to watch from now on. ended_sessions: sessions
    that need no watch any more. joins_over, syncs_over: the wait for joins (or syncs) of the group may have ended.
    """

    __slots__ = ("answers", "ended_sessions", "joins_over", "new_sessions", "stores", "syncs_over", "waits")

    def __init__(self) -> None:
        self.answers: list[Callable[[], None]] = []
        self.stores: list[StoreGroup] = []
        self.waits: list[WaitForJoins | WaitForSyncs] = []
        self.new_sessions: list[Session] = []
        self.ended_sessions: list[Session] = []
        self.joins_over = False
        self.syncs_over = False
