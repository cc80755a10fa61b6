"""Consumer groups (KIP-848): ConsumerGroupHeartbeat, the deadlines of members, and resolved regular expressions.

Called by the handlers and the loader on any thread, by the timer's executor, and by the resolver of regular expressions
on a scheduler thread. A call looks the group up, has the pure modules decide under the group's lock, has
`ConsumerGroupChanges` write the outcome, and answers without the lock. Owns no lock.
Kafka: GroupCoordinatorService and GroupMetadataManager, the parts about consumer groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from barnabas.coordinator.group.assignors.assignor import ConsumerGroupPartitionAssignor
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.classic_requests import fence
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_changes import (
    REMOVAL_RETRY_MS,
    ClassicSuccession,
    ConsumerFollowUp,
    ConsumerGroupChanges,
    ConsumerGroupTimers,
)
from barnabas.coordinator.group.consumer.consumer_group_member import (
    HeartbeatAnswer,
    HeartbeatTerms,
    MemberDeadline,
    ReconciliationState,
    TimerKind,
)
from barnabas.coordinator.group.consumer.consumer_group_outcome import ConsumerOutcome, TimerChange
from barnabas.coordinator.group.consumer.heartbeat import check_heartbeat, heartbeat, is_leave, leave
from barnabas.coordinator.group.consumer.migration import upgraded
from barnabas.coordinator.group.consumer.topics.group_topics import ClusterTopics, ResolvedRegularExpression
from barnabas.coordinator.group.consumer.topics.hash import TopicHashes
from barnabas.coordinator.group.consumer.topics.regex_resolver import TopicRegexResolver
from barnabas.coordinator.group.consumer.update import ConsumerGroupUpdate, UpdateContext
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.uuid import random_uuid, uuid_to_string

logger: Final = logging.getLogger(__name__)

_NONE: Final = ErrorCode.NONE
MANY_MEMBERS: Final = 20
MANY_TOPICS: Final = 20
MANY_PARTITIONS: Final = 500
"""Above one of these three limits a group is not assigned on a network thread."""
HeartbeatReply = Callable[[HeartbeatAnswer], None]


def new_member_id() -> str:
    """Return an id for a member that has none, in Kafka's form."""
    return uuid_to_string(random_uuid())


class ConsumerGroupService:
    """The service of consumer groups. Implements MembershipService.

    assignors: by name, the first is the default. check_regex: raises ApiError: INVALID_REGULAR_EXPRESSION.
    classic_groups: the service of classic groups. count_rebalance: called for each new target assignment.
    """

    def __init__(
        self,
        environment: GroupEnvironment,
        assignors: Mapping[str, ConsumerGroupPartitionAssignor],
        resolver: TopicRegexResolver,
        check_regex: Callable[[str], None],
        classic_groups: ClassicSuccession,
        *,
        count_rebalance: Callable[[], None] = lambda: None,
        make_member_id: Callable[[], str] = new_member_id,
    ) -> None:
        self._environment = environment
        self._partitions = environment.partitions
        self._table = environment.table
        self._metadata = environment.metadata
        self._settings = environment.config.consumer
        self._assignors = assignors
        self._resolver = resolver
        self._check_regex = check_regex
        self._make_member_id = make_member_id
        self._hashes = TopicHashes()
        self._newest_topics_version = 0
        self._timers = ConsumerGroupTimers(environment.clock, environment.timer, self._deadline_expired)
        self.changes = ConsumerGroupChanges(environment, self._timers, classic_groups, count_rebalance)
        environment.metadata.subscribe(self._metadata_changed)
        # Read after the subscription, so that no newer topic is missed.
        self._first_topics_version = environment.metadata.image.version

    # -- requests

    def heartbeat(self, terms: HeartbeatTerms, on_complete: HeartbeatReply) -> None:
        """Let a member join, stay or leave. Answered at once, or when the records of the change are replicated."""
        try:
            check_heartbeat(terms, self._assignors)
            refused = self._environment.partitions.check(terms.group_id)
            if refused is not ErrorCode.NONE:
                raise ApiError(refused)
            if not terms.member_id:  # version 0: the coordinator makes the id
                terms = terms._replace(member_id=self._make_member_id())
            outcome, written = self._change(terms)
        except ApiError as error:
            on_complete(HeartbeatAnswer(error.code, error.message))
            return

        def answer(error: ErrorCode) -> None:
            answer = outcome.answer
            on_complete(answer if error is ErrorCode.NONE else HeartbeatAnswer(error, error.message))

        self.changes.finish(written, answer)
        # After the answer, which does not wait for this: the members learn of the topics by later heartbeats.
        if outcome.regexes and not self._resolver.is_resolving(terms.group_id):
            on_resolved = partial(self._regexes_resolved, terms.group_id)
            self._resolver.resolve(terms.group_id, outcome.regexes, terms.may_describe, on_resolved)

    def quiet_heartbeat(
        self,
        group_id: str,
        member_id: str,
        member_epoch: int,
        instance_id: str | None,
        client_id: str,
        client_host: str,
    ) -> int | None:
        """Restart the session of a member without news, for which there are none either.

        Nearly every heartbeat is such a one: with one look at the group it does what `heartbeat` would do. Return the
        interval of its answer, in milliseconds, which beside it repeats id and epoch; None: `heartbeat` is needed.
        """
        if self._partitions.check(group_id) is not _NONE:
            return None
        with self._table.locked(group_id) as group:
            membership = None if group is None else group.membership
            if (
                isinstance(membership, ConsumerGroup)
                and membership.is_quiet(
                    member_id, member_epoch, instance_id, client_id, client_host, self._metadata.image
                )
                and self._timers.prolong_session(membership, member_id, self._settings.session_timeout_ms)
            ):
                return self._settings.heartbeat_interval_ms
        return None

    def may_take_long(self, terms: HeartbeatTerms) -> bool:
        """Return whether the heartbeat may have to assign a large group, or to compile an expression.

        The group is read without its lock, so the result is a guess: it decides which thread takes the request.
        """
        if terms.subscribed_topic_regex:
            return True  # to compile one takes up to 30 ms
        image = self._environment.metadata.image
        group = self._environment.table.get(terms.group_id)
        membership = None if group is None else group.membership
        if _take_long_to_assign(terms.subscribed_topic_names or (), image):
            return True
        if isinstance(membership, ClassicGroup):
            return len(membership.members) > MANY_MEMBERS  # the group is to be upgraded
        if not isinstance(membership, ConsumerGroup):
            return False
        is_quiet = not terms.is_full and terms.member_epoch > 0 and terms.subscribed_topic_names is None
        is_current = membership.checked_image is image and membership.group_epoch <= membership.assignment_epoch
        return not (is_quiet and is_current) and (
            len(membership.members) > MANY_MEMBERS
            or len(membership.topics.by_name) + len(membership.topics.by_regex) > MANY_TOPICS
            or membership.target.size > MANY_PARTITIONS
        )

    def context(self) -> UpdateContext:
        """Return the present inputs of the pure modules."""
        environment = self._environment
        return UpdateContext(
            ClusterTopics(environment.metadata.image, self._hashes),
            environment.config,
            environment.clock,
            self._assignors,
            environment.clock.milliseconds(),
            max(self._first_topics_version, self._newest_topics_version),
            self._check_regex,
        )

    # -- MembershipService

    def restored(self, group: Group) -> None:
        """Set the deadlines of the members of a group that was loaded."""
        membership = group.membership
        if not isinstance(membership, ConsumerGroup):
            return
        timeout_ms = self._environment.config.consumer.session_timeout_ms
        with group.lock:
            for member in membership.members.values():
                session_ms = timeout_ms if member.classic is None else member.classic.session_timeout_ms
                self._timers.change(group, membership, TimerChange(TimerKind.SESSION, member.member_id, session_ms))
                if member.state is ReconciliationState.UNREVOKED_PARTITIONS and member.classic is None:
                    change = TimerChange(
                        TimerKind.REBALANCE,
                        member.member_id,
                        member.rebalance_timeout_ms,
                        member_epoch=member.member_epoch,
                    )
                    self._timers.change(group, membership, change)
        logger.info("Loaded consumer group %s with %d members.", group.group_id, len(membership.members))

    def unloaded(self, group: Group) -> None:
        """Cancel the deadlines of a group that moved to another broker; no request of its members waits."""
        membership = group.membership
        if not isinstance(membership, ConsumerGroup):
            return
        with group.lock:
            self._timers.end_all(membership)
        logger.info("[GroupId=%s] Unloaded group metadata for group epoch %d.", group.group_id, membership.group_epoch)

    # -- the outcome of a request

    def _change(self, terms: HeartbeatTerms) -> tuple[ConsumerOutcome[HeartbeatAnswer], ConsumerFollowUp]:
        """Decide and write under the group's lock.

        Raises ApiError: GROUP_ID_NOT_FOUND when a member that does not join names an unknown group, the error of
        `heartbeat` or `leave` when the group rejects the member, or the error of the log when it refuses the records.
        """
        table = self._environment.table
        joins = terms.member_epoch == 0
        with table.locked_or_new(terms.group_id) if joins else table.locked(terms.group_id) as group:
            if group is None:
                kind = "Group" if is_leave(terms) else "Consumer group"
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {terms.group_id} not found.")
            try:
                outcome = self._outcome(group, terms)
                return outcome, self.changes.write(group, outcome)
            except ApiError:
                if joins:
                    self._forget_if_new(group)
                raise

    def _outcome(self, group: Group, terms: HeartbeatTerms) -> ConsumerOutcome[HeartbeatAnswer]:
        """Return the decision of the group, which a classic group makes as the consumer group that it becomes.

        Raises ApiError: GROUP_ID_NOT_FOUND when a classic group cannot become a consumer group, or the error with which
        the group rejects the member.
        """
        context = self.context()
        membership = group.membership
        if isinstance(membership, ConsumerGroup):
            if is_leave(terms):
                return self._leave(membership, terms, context)
            return heartbeat(membership, terms, context)
        if terms.member_epoch != 0 or not isinstance(membership, ClassicGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {terms.group_id} is not a consumer group.")
        records: list[CoordinatorRecord]
        if membership.has_members:
            consumer, records = upgraded(membership, self._environment.config, context.topics)
        else:
            consumer, records = ConsumerGroup(terms.group_id), membership.tombstones()
        # The sessions of a classic group end with it (`ClassicSuccession.replaced`), so its members get new ones.
        sessions = [
            TimerChange(TimerKind.SESSION, member.member_id, member.classic.session_timeout_ms)
            for member in consumer.members.values()
            if member.classic is not None
        ]
        # A classic group is upgraded by the first member of the new protocol. The new group exists on paper only until
        # its records are in the log: `write` makes it again by their replay, and puts it in the place of the old one.
        outcome = heartbeat(consumer, terms, context)
        outcome.records = [*records, *outcome.records]
        outcome.timers = [*sessions, *outcome.timers]
        outcome.is_new = True
        return outcome

    def _leave(
        self, membership: ConsumerGroup, terms: HeartbeatTerms, context: UpdateContext
    ) -> ConsumerOutcome[HeartbeatAnswer]:
        member, outcome = leave(membership, terms)
        if outcome is not None:
            return outcome
        answer = HeartbeatAnswer(ErrorCode.NONE, None, terms.member_id, terms.member_epoch)
        return fence(membership, [member], answer, context)

    def _forget_if_new(self, group: Group) -> None:
        """Remove a group that was made for a rejected join. The caller holds its lock."""
        membership = group.membership
        # A group that has records in the log stays: the next coordinator would load it.
        if not membership.has_members and group.offsets.is_empty and not membership.tombstones():
            self._environment.table.remove(group)

    # -- deadlines, expressions, metadata

    def _deadline_expired(
        self, group: Group, membership: ConsumerGroup, kind: TimerKind, member_id: str, deadline: MemberDeadline
    ) -> None:
        """Remove a member whose deadline has passed."""
        with group.lock:
            if not self._timers.take_expired(group, membership, kind, member_id, deadline):
                return
            member = membership.members.get(member_id)
            if member is None or deadline.member_epoch not in {None, member.member_epoch}:
                return
            logger.info(
                "[GroupId %s] Member %s fenced from the group because %s", group.group_id, member_id, kind.value
            )
            # If the log refuses the records, the member stays, with a short deadline for the next attempt.
            try:
                outcome = fence(membership, [member], None, self.context())
                written = self.changes.write(group, outcome)
            except ApiError as error:
                logger.warning("[GroupId %s] Member %s is fenced later: %s", group.group_id, member_id, error)
                retry = TimerChange(kind, member_id, REMOVAL_RETRY_MS, member_epoch=deadline.member_epoch)
                self._timers.change(group, membership, retry)
                return
        self.changes.finish(written, lambda _error: None)

    def _regexes_resolved(self, group_id: str, resolved: Mapping[str, ResolvedRegularExpression]) -> None:
        """Write the topics that a group's expressions match. The members learn of them by their next heartbeats."""
        with self._environment.table.locked(group_id) as group:
            if group is None or not isinstance(group.membership, ConsumerGroup):
                return
            update = ConsumerGroupUpdate(group.membership, self.context())
            update.resolve_regexes(resolved)
            try:
                written = self.changes.write(group, update.outcome(None))
            except ApiError as error:
                logger.warning("[GroupId %s] Couldn't update regular expression due to: %s", group_id, error)
                return
        self.changes.finish(written, lambda _error: None)
        # A scheduler thread does not run the queued actions by itself (`GroupEnvironment.actions`).
        self._environment.actions.run_all()

    def _metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        # Only a new topic can match an expression that it did not match before. A deleted one changes the hash of the
        # group's topics, which each heartbeat after the change of the image compares.
        if old.topics is not new.topics and not new.topics.keys() <= old.topics.keys():
            self._newest_topics_version = new.version


def _take_long_to_assign(topics: Collection[str], image: MetadataImage) -> bool:
    """Return whether these topics take long to assign."""
    if len(topics) > MANY_TOPICS:
        return True
    found = (image.topics.get(name) for name in topics)
    return sum(len(topic.partitions) for topic in found if topic is not None) > MANY_PARTITIONS
