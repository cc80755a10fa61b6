"""What members of consumer groups ask for, what they are answered, and what is done besides (KIP-848).

Made by the handlers (terms) and by `consumer_group_update` and its siblings (answers, outcomes); immutable but for an
`Outcome`, which belongs to the thread that carries it out. Kafka: ConsumerGroupHeartbeat{Request,Response}Data,
CoordinatorResult.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import PartitionEpochs
from barnabas.coordinator.group.consumer.member_deadline import TimerKind
from barnabas.coordinator.group.group_record import GroupRecord
from barnabas.protocol.errors import ErrorCode

T = TypeVar("T")
MayDescribe: TypeAlias = Callable[[Collection[str]], AbstractSet[str]]


class HeartbeatTerms(NamedTuple):
    """A ConsumerGroupHeartbeat. None (and -1 for the timeout, ms): as the member said before.

    needs_member_id: the member has to name itself, since v1. owned: topic id -> partitions. may_describe: which of some
    topics the member is allowed to see, for regular expressions.
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Collection[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Mapping[bytes, AbstractSet[int]] | None = None
    needs_member_id: bool = False
    may_describe: MayDescribe = frozenset

    @property
    def is_full(self) -> bool:
        """Whether everything is said: so does a member that joins, or that has missed an answer."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


class HeartbeatAnswer(NamedTuple):
    """assignment: None when it is the one that the member knows."""

    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: PartitionEpochs | None = None


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
