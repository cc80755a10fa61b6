"""Carries out what requests to consumer groups come to: records into the log, then into the group; timers, answers.

Used by `ConsumerGroupService` and `ConsumerGroupClassicMembers`. `write` is called under the group's lock, so that a
group's records lie in the order of its changes; what the local log refuses has not happened. `finish` is called without
it: answers wait for the replicas. Owns no state. Kafka: CoordinatorRuntime's write events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.replay import replay
from barnabas.coordinator.group.consumer.terms import Outcome, T
from barnabas.coordinator.group.consumer.timers import ConsumerGroupTimers
from barnabas.coordinator.group.environment import GroupEnvironment
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.log.record import GroupRecord
from barnabas.coordinator.group.log.schemas import GROUP_KIND, version_of
from barnabas.coordinator.group.log.writer import StoredAppend, StoredFor
from barnabas.protocol.errors import ApiError, ErrorCode


class ClassicSuccession(Protocol):
    """Of the service of classic groups: what it does when groups change their protocol. Both without any lock."""

    def replaced(self, group: Group, old: ClassicGroup) -> None:
        """The group was `old`, and is a consumer group now."""

    def adopted(self, group: Group, reason: str | None) -> None:
        """The group was a consumer group, and is a classic one now; reason: why it has to rebalance, if it has to."""


class Written:
    """What `write` leaves to `finish`. old: the classic group whose place was taken."""

    __slots__ = ("group", "old", "outcome_downgrades", "rebalance_reason", "stored")

    def __init__(self, group: Group, stored: StoredAppend | None) -> None:
        self.group = group
        self.stored = stored
        self.old: ClassicGroup | None = None
        self.outcome_downgrades = False
        self.rebalance_reason: str | None = None


class ConsumerGroupChanges:
    """See the module."""

    def __init__(
        self,
        environment: GroupEnvironment,
        timers: ConsumerGroupTimers,
        classic_groups: ClassicSuccession,
        count_rebalance: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._timers = timers
        self._classic_groups = classic_groups
        self._count_rebalance = count_rebalance

    def write(self, group: Group, outcome: Outcome[T]) -> Written:
        """Append the outcome's records, and let it happen. Under the group's lock.

        Raises ApiError when the local log refuses: nothing has happened then.
        """
        written = Written(group, self._append(group, outcome.records))
        if outcome.is_rebalance:
            self._count_rebalance()
        if outcome.downgraded is not None:
            self._timers.end_all(outcome.group)
            group.membership = outcome.downgraded
            written.outcome_downgrades = True
            written.rebalance_reason = outcome.rebalance_reason
            return written
        membership = outcome.group
        if outcome.is_new:
            if isinstance(group.membership, ClassicGroup):
                written.old = group.membership
            membership = group.membership = ConsumerGroup(group.group_id)
        for key, value in outcome.records:
            if version_of(key) != GROUP_KIND:
                replay(membership, key, value)
        for change in outcome.timers:
            self._timers.change(group, membership, change)
        if outcome.checked_image is not None:
            membership.checked_image = outcome.checked_image
        return written

    def finish(self, written: Written, on_done: Callable[[ErrorCode], None]) -> None:
        """Tell the classic groups, and `on_done` when the replicas have the records. Without any lock."""
        if written.old is not None:
            self._classic_groups.replaced(written.group, written.old)
        if written.outcome_downgrades:
            self._classic_groups.adopted(written.group, written.rebalance_reason)
        if written.stored is None:
            on_done(ErrorCode.NONE)
        else:
            written.stored.when_replicated(on_done)

    def _append(self, group: Group, records: list[GroupRecord]) -> StoredAppend | None:
        if not records:
            return None
        stored = self._environment.log.append(group.partition, records, StoredFor.CONSUMER_GROUP)
        if stored.position < 0:
            raise ApiError(stored.error)
        return stored
