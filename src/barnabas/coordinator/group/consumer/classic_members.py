"""Members of the classic protocol in consumer groups (KIP-848): JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

`ClassicGroupService` hands requests over that turn out to be about a consumer group, on any thread and without any
lock. If the group has become a classic one meanwhile, the request goes back. Owns no lock, as `ConsumerGroupService`.
Kafka: GroupMetadataManager.classicGroupJoin and its siblings, the half about consumer groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import (
    UNKNOWN_MEMBER_ID,
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.classic.classic_group_service import ClassicProtocolRequests
from barnabas.coordinator.group.consumer.classic_requests import heartbeat, join, leave, sync
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_changes import ConsumerFollowUp
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, T
from barnabas.coordinator.group.consumer.consumer_group_service import ConsumerGroupService, new_member_id
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.offsets_topic import CONSUMER_GROUP_ERRORS
from barnabas.protocol.errors import ApiError, ErrorCode


class ConsumerGroupClassicMembers:
    """The service for classic members of consumer groups. Implements ClassicProtocolRequests.

    classic_groups: the implementation for classic groups.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        consumer_groups: ConsumerGroupService,
        classic_groups: ClassicProtocolRequests,
        *,
        make_member_id: Callable[[], str] = new_member_id,
    ) -> None:
        self._environment = environment
        self._consumer_groups = consumer_groups
        self._changes = consumer_groups.changes
        self._classic_groups = classic_groups
        self._make_member_id = make_member_id

    def join_group(self, terms: JoinTerms, on_complete: Callable[[JoinAnswer], None]) -> None:
        """Let a classic member join. Answered when the records of the change are replicated."""
        context, new_id = self._consumer_groups.context(), self._make_member_id()

        def change(membership: ConsumerGroup) -> ConsumerOutcome[JoinAnswer] | None:
            if not membership.has_members:
                return None
            return join(membership, terms, context, new_id)

        try:
            changed = self._change(terms.group_id, change)
            if changed is None and terms.member_id != UNKNOWN_MEMBER_ID:
                self._forget_if_empty(terms.group_id)
        except ApiError as error:
            on_complete(JoinAnswer(error.code, terms.member_id))
            return
        # The two services hand the request back and forth if the group changes its protocol in between. That ends: each
        # time another request has changed the group.
        if changed is None:
            self._classic_groups.join_group(terms, on_complete)
            return
        outcome, written = changed

        def answer(error: ErrorCode) -> None:
            on_complete(outcome.answer if error is ErrorCode.NONE else JoinAnswer(error, terms.member_id))

        self._changes.finish(written, answer)

    def sync_group(self, terms: SyncTerms, on_complete: Callable[[SyncAnswer], None]) -> None:
        """Answer with the classic member's assignment."""
        topics = self._consumer_groups.context().topics
        try:
            changed = self._change(terms.group_id, lambda membership: sync(membership, terms, topics))
        except ApiError as error:
            on_complete(SyncAnswer(error.code))
            return
        if changed is None:
            self._classic_groups.sync_group(terms, on_complete)
        else:
            # Answered without `finish`: a SyncGroup has no records to wait for, as a heartbeat has none.
            on_complete(changed[0].answer)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Restart a classic member's session; REBALANCE_IN_PROGRESS asks it to join again."""
        try:
            changed = self._change(
                group_id, lambda membership: heartbeat(membership, member_id, group_instance_id, generation)
            )
        except ApiError as error:
            return error.code
        if changed is None:
            return self._classic_groups.heartbeat(group_id, member_id, group_instance_id, generation)
        return changed[0].answer

    def leave_group(
        self, group_id: str, members: Sequence[LeavingMember], on_complete: Callable[[LeaveAnswer], None]
    ) -> None:
        """Remove members, at their own or an administrator's request. Answered when the records are replicated."""
        context = self._consumer_groups.context()
        try:
            changed = self._change(group_id, lambda membership: leave(membership, members, context))
        except ApiError as error:
            on_complete(LeaveAnswer(error.code))
            return
        if changed is None:
            self._classic_groups.leave_group(group_id, members, on_complete)
            return
        outcome, written = changed

        def answer(error: ErrorCode) -> None:
            on_complete(outcome.answer if error is ErrorCode.NONE else LeaveAnswer(error))

        self._changes.finish(written, answer)

    def _forget_if_empty(self, group_id: str) -> None:
        """Replace a consumer group without members by a classic one, since a classic member asks to join the group.

        Raises ApiError: UNKNOWN_MEMBER_ID after the replacement, because neither group knows the member's id; or the
        error of the log when it refuses the tombstones.
        """
        environment = self._environment
        with environment.table.locked(group_id) as group:
            membership = None if group is None else group.membership
            if group is None or not isinstance(membership, ConsumerGroup) or membership.has_members:
                return
            stored = environment.log.append(group.partition, membership.tombstones(), CONSUMER_GROUP_ERRORS)
            if stored.position < 0:
                raise ApiError(stored.error)
            group.membership = ClassicGroup(group_id, environment.clock)
            # Nothing of the group is left: the client's next JoinGroup, without a member id, makes a new one.
            if group.offsets.is_empty:
                environment.table.remove(group)
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def _change(
        self, group_id: str, change: Callable[[ConsumerGroup], ConsumerOutcome[T] | None]
    ) -> tuple[ConsumerOutcome[T], ConsumerFollowUp] | None:
        """Decide and write under the group's lock; return None if the request is not about a consumer group.

        Raises ApiError when `change` rejects the request, or the log refuses the records.
        """
        with self._environment.table.locked(group_id) as group:
            if group is None or not isinstance(group.membership, ConsumerGroup):
                return None
            outcome = change(group.membership)
            return None if outcome is None else (outcome, self._changes.write(group, outcome))
