"""What the requests of a consumer group's members come to: an answer, and what is done besides (KIP-848).

Made by `consumer.update` and its siblings; an `Outcome` belongs to the thread that carries it out.
Kafka: CoordinatorResult.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member_deadline import TimerKind
from barnabas.coordinator.group.log.record import GroupRecord

T = TypeVar("T")


class TimerChange(NamedTuple):
    """A timer to be set, or cancelled (delay_ms None).

    only_if_absent: not if it runs already. member_epoch: the member is let off if it has left this epoch by then.
    """

    kind: TimerKind
    member_id: str
    delay_ms: int | None
    only_if_absent: bool = False
    member_epoch: int | None = None


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What a request comes to, before anything has changed: records to be written, and then applied to `group`.

    timers: changed when the records are in the log. regexes: to be resolved. checked_image: the metadata image that the
    group's topics were compared with, None if they were not. is_rebalance: it counts as one. is_new: `group` takes the
    place of what was there, and is made by the records alone. downgraded: what the group becomes instead; then the
    records are only written. rebalance_reason: why that has to rebalance, None if it need not.
    """

    answer: T
    group: ConsumerGroup
    records: list[GroupRecord] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    regexes: frozenset[str] = frozenset()
    checked_image: object = None
    is_rebalance: bool = False
    is_new: bool = False
    downgraded: ClassicGroup | None = None
    rebalance_reason: str | None = None
