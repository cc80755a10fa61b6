"""The deadline by which a member of a consumer group must be heard from (KIP-848).

Kept by the `ConsumerGroup`, guarded by the group's lock; set and watched by `ConsumerGroupTimers`. Pure.
Kafka: CoordinatorTimer's keys and entries.
"""

from __future__ import annotations

from enum import Enum

from barnabas.purgatory.timing_wheel import TimerEntry


class TimerKind(Enum):
    """The kind of a deadline; the value is the reason in the log line when the member is removed."""

    SESSION = "the member session expired."
    REBALANCE = "it failed to transition from its epoch in time."
    JOIN = "the classic member failed to join within the rebalance timeout."
    SYNC = "the member failed to sync within timeout."


class MemberDeadline:
    """A deadline that moves with each heartbeat. The timer's entry stays, and is replaced when it fires too early.

    deadline_ns: of the monotonic clock. member_epoch: the deadline has no effect if the member has left this epoch by
    then. entry: the timer's, once there is one.
    """

    __slots__ = ("deadline_ns", "entry", "member_epoch")

    def __init__(self, deadline_ns: int, member_epoch: int | None) -> None:
        self.deadline_ns = deadline_ns
        self.member_epoch = member_epoch
        self.entry: TimerEntry | None = None
