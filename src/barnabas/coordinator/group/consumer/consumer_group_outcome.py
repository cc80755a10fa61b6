"""The decision on a request to a consumer group: an answer, and the changes to carry out (KIP-848).

Made by `consumer.update` and the modules around it under the group's lock, carried out by `ConsumerGroupChanges`. Pure;
an outcome belongs to the thread that made it. Kafka: CoordinatorResult.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import TimerKind
from barnabas.coordinator.runtime.record import CoordinatorRecord

T = TypeVar("T")


class TimerChange(NamedTuple):
    """A deadline to set, or to cancel (delay_ms None).

    only_if_absent: leave a deadline that is set already. member_epoch: the deadline has no effect if the member has
    left this epoch by then.
    """

    kind: TimerKind
    member_id: str
    delay_ms: int | None
    only_if_absent: bool = False
    member_epoch: int | None = None


@dataclass(slots=True)
class ConsumerOutcome(Generic[T]):
    """The decision, before anything has changed: `records` are appended, and then replayed into `group`.

    timers: changed when the records are in the log. regexes: to be resolved. checked_image: the metadata image that the
    group's topics were compared with, None if they were not. is_rebalance: there is a new target assignment. is_new:
    `group` replaces the present membership, and is made by the records alone. downgraded: the classic group that
    replaces the present membership; then the records are not replayed. rebalance_reason: why that group must rebalance,
    None if it need not.
    """

    answer: T
    group: ConsumerGroup
    records: list[CoordinatorRecord] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    regexes: frozenset[str] = frozenset()
    checked_image: object = None
    is_rebalance: bool = False
    is_new: bool = False
    downgraded: ClassicGroup | None = None
    rebalance_reason: str | None = None
