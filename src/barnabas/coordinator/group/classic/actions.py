"""What a classic group wants done after something has happened to it.

Collected by `ClassicGroup` under the group's lock; `ClassicGroupService` writes `stores` to the log under it, and
carries out the rest when it has let go: nobody is answered, and no delayed operation completed, under a lock. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.coordinator.group.classic.session import Session
from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.protocol.errors import ErrorCode


class WaitForJoins(NamedTuple):
    """Members have `delay_ms` to join; `round_number` tells this wait from earlier ones of the group."""

    round_number: int
    delay_ms: int


class WaitForSyncs(NamedTuple):
    """The members of `generation` have `delay_ms` to ask for their assignment."""

    generation: int
    delay_ms: int


class StoreGroup(NamedTuple):
    """Append `record`; then, under the group's lock again, tell `on_stored` how that ended.

    completes_rebalance: it is a leader's assignment.
    """

    record: GroupRecord
    on_stored: Callable[[ErrorCode], None]
    completes_rebalance: bool = False


class ClassicActions:
    """A list of each kind.

    answers: calls that answer a request each. joins_over, syncs_over: who waits for the group's joins (or syncs) shall
    look again. sessions_begun, sessions_over: who is to be watched from now on, and who not any more.
    """

    __slots__ = ("answers", "joins_over", "sessions_begun", "sessions_over", "stores", "syncs_over", "waits")

    def __init__(self) -> None:
        self.answers: list[Callable[[], None]] = []
        self.stores: list[StoreGroup] = []
        self.waits: list[WaitForJoins | WaitForSyncs] = []
        self.sessions_begun: list[Session] = []
        self.sessions_over: list[Session] = []
        self.joins_over = False
        self.syncs_over = False
