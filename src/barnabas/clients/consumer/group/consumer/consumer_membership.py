"""A member of a consumer group: its state, its epoch, the partitions that it owns and those that it should own. Pure.

Guarded by the coordinator channel's lock. The channel's thread takes answers in; the consumer's thread joins, reports
what it has reconciled, and leaves. `member_states` has the table of the states.

`target` is the coordinator's newest assignment, `current` what the member owns and says that it owns. While they
differ, the member reconciles. The consumer's thread takes a target, works on it for as long as a commit and the user's
listener take, and reports it; meanwhile the target may change, and the member may be fenced and join again:

    answer: assignment 1 = {0, 1}     target 1, RECONCILING     the consumer's thread takes target 1
    answer: assignment 2 = {0}        target 2, RECONCILING
    the consumer's thread reports 1   current 1, ACKNOWLEDGING
    heartbeat with {0, 1}             current 1 != target 2: RECONCILING, and the next poll takes target 2

A heartbeat that names the owned partitions lets the coordinator give all others of the target away at once, and its
answer says so. Until it is answered, the member takes no partition over (Java's consumer does, and two members then own
it until the next heartbeat):

    answer: assignment 1 = {0}        target 1, RECONCILING; the connection is lost
    heartbeat with {}, not answered   the coordinator may have assigned {} and given 0 to another member
    the consumer's thread asks        nothing may be taken over yet
    heartbeat with {}, answered       target 1 or 2, whichever the coordinator has; the next poll takes it

`joins` counts the times that the member has joined or left. An answer, or a report, that belongs to an earlier count is
about a membership that has ended, and must not touch the present one.

Kafka: AbstractMembershipManager, ConsumerMembershipManager, TopicIdPartition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.clients.consumer.group.committing_member import NO_GENERATION, NOT_PART_OF_GROUP, REBALANCED, Generation
from barnabas.clients.consumer.group.consumer.member_states import MemberEvent, MemberState, next_state
from barnabas.clients.errors import CommitFailed
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

logger = logging.getLogger(__name__)

JOIN_EPOCH = 0


class AssignedPartition(NamedTuple):
    """One partition as the coordinator names it: by the 16 bytes of its topic's id."""

    topic_id: bytes
    partition: int


class MemberAssignment(NamedTuple):
    """A set of partitions, and its `number` among the assignments that one member was given.

    Passed between the channel's thread, which reads assignments from answers, and the consumer's thread, which carries
    them out. Two assignments with the same partitions and different numbers differ: the second one has to be
    acknowledged too.
    """

    number: int
    partitions: frozenset[AssignedPartition]


def read_assignment(assignment: ConsumerGroupHeartbeatResponse.Assignment) -> frozenset[AssignedPartition]:
    """Return the partitions in an answer to ConsumerGroupHeartbeat."""
    return frozenset(
        AssignedPartition(bytes(topic.topic_id), partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def owned_topics(partitions: Iterable[AssignedPartition]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    """Return partitions as a heartbeat carries them."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=found)
        for topic_id, found in by_topic.items()
    ]


class ConsumerMembership:
    """One member. `member_id` is its own choice, made before it first joins, and kept until the consumer ends."""

    def __init__(
        self,
        make_member_id: Callable[[], str],
        on_transition: Callable[[MemberState, MemberState], None] | None = None,
    ) -> None:
        """on_transition: called with the state before and the state after, under the channel's lock."""
        self.state = MemberState.UNSUBSCRIBED
        self.member_id = ""
        self.member_epoch = JOIN_EPOCH
        self.joins = 0
        """How often the member has joined or left."""
        self.target: MemberAssignment | None = None
        self.current: MemberAssignment | None = None
        self.is_report_unanswered = False
        """Whether the coordinator may have given partitions of the target away because the member did not name them."""
        self._taken: frozenset[AssignedPartition] = frozenset()
        """The partitions that the consumer's thread has taken over, and has not reported yet."""
        self._make_member_id = make_member_id
        self._on_transition = on_transition

    @property
    def owned(self) -> frozenset[AssignedPartition]:
        """The partitions that the member says it owns."""
        return self._taken if self.current is None else self.current.partitions | self._taken

    def is_reconciling(self, joins: int) -> bool:
        """Return whether the member still has to reconcile, in the membership with that number of `joins`."""
        return self.state is MemberState.RECONCILING and self.joins == joins

    # -- the consumer's thread

    def subscribe(self) -> None:
        """Join the group with the next heartbeat."""
        if not self.member_id:
            self.member_id = self._make_member_id()
        self._apply(MemberEvent.SUBSCRIBED)
        self._end_membership()

    def take_over(self, assignment: MemberAssignment) -> MemberAssignment:
        """Own this assignment from now on, except the partitions that have to wait. Returns what the member owns.

        A newer assignment may have taken partitions back, or a heartbeat without them may be unanswered.
        """
        assert self.target is not None
        allowed = self.owned if self.is_report_unanswered else self.owned | self.target.partitions
        self._taken = assignment.partitions & allowed
        return MemberAssignment(assignment.number, self._taken)

    def reconciled(self, assignment: MemberAssignment) -> None:
        """Note that the member owns exactly this assignment now; the next heartbeat acknowledges it."""
        self.current = assignment
        self._taken = frozenset()
        self._apply(MemberEvent.RECONCILED)

    def released(self) -> None:
        """Note that the partitions are given up: of a member that was fenced, is stale or fatal, or leaves."""
        if self.state.has_lost_partitions:
            self._end_membership()
        self._apply(MemberEvent.RELEASED)

    def unsubscribe(self) -> None:
        """Begin to leave: the partitions have to be given up first."""
        self._apply(MemberEvent.UNSUBSCRIBE)

    # -- either thread

    def left(self) -> None:
        """Note that the heartbeat that leaves the group was sent, or cannot be sent."""
        self._apply(MemberEvent.LEFT)
        self._end_membership()

    # -- the channel's thread

    def owned_named(self) -> None:
        """Note that a heartbeat names the owned partitions."""
        self.is_report_unanswered = self.target is not None and not self.target.partitions <= self.owned

    def heartbeat_sent(self) -> None:
        """Note that a heartbeat with the owned partitions is on its way."""
        if self.state is MemberState.ACKNOWLEDGING:
            is_current = self.current == self.target
            self._apply(MemberEvent.ACKNOWLEDGED if is_current else MemberEvent.OUTDATED)

    def answered(self, member_id: str, member_epoch: int, assigned: frozenset[AssignedPartition] | None) -> None:
        """Take an answer in. `assigned` is None if the assignment is the same as before."""
        if not self.state.sends_heartbeats:
            return
        self.is_report_unanswered = False
        self.member_id = member_id
        self.member_epoch = member_epoch
        if assigned is None or not self.state.takes_assignments:
            return
        if self.target is None or self.target.partitions != assigned:
            self.target = MemberAssignment(0 if self.target is None else self.target.number + 1, assigned)
        self._apply(MemberEvent.CONFIRMED if self.current == self.target else MemberEvent.ASSIGNED)

    def fenced(self) -> None:
        """Note that the coordinator does not know the member, or not in this epoch."""
        self.member_epoch = JOIN_EPOCH
        self._apply(MemberEvent.FENCED)

    def failed(self) -> None:
        """Note that the coordinator rejects the member for good."""
        self.member_epoch = JOIN_EPOCH
        self._apply(MemberEvent.FAILED)

    def poll_expired(self) -> None:
        """Note that the member leaves because its user does not poll."""
        self.member_epoch = JOIN_EPOCH
        self._apply(MemberEvent.POLL_EXPIRED)

    # -- commits

    @property
    def generation(self) -> Generation:
        """The member's id and epoch."""
        return Generation(self.member_epoch, self.member_id) if self.member_epoch > 0 else NO_GENERATION

    @property
    def reading_generation(self) -> Generation | None:
        """The member's id and epoch, or None while it is no member."""
        return self.generation if self.generation.is_known else None

    def commit_refusal(self, *, at_last: bool) -> Exception | None:
        """Return the error of a commit that cannot be sent because the consumer is no member, or None."""
        return None if self.generation.is_known else CommitFailed(NOT_PART_OF_GROUP)

    def commit_failure(self, error: ErrorCode, sent: Generation | None) -> Exception | None:
        """Return the error for the caller; None if the error is no member's.

        The membership stays as it is: only the answer to a heartbeat may end it. STALE_MEMBER_EPOCH is returned as it
        is, because the caller commits again with the member's new epoch.
        """
        if error is ErrorCode.UNKNOWN_MEMBER_ID and sent is not None:
            return CommitFailed(REBALANCED)
        return None

    # -- steps

    def _apply(self, event: MemberEvent) -> None:
        following = next_state(self.state, event)
        if following is not self.state:
            logger.info(
                "Member %s with epoch %d transitioned from %s to %s.",
                self.member_id,
                self.member_epoch,
                self.state.name,
                following.name,
            )
            if self._on_transition is not None:
                self._on_transition(self.state, following)
        self.state = following

    def _end_membership(self) -> None:
        """Forget everything of a membership that has ended or has not begun, except the member's id."""
        self.joins += 1
        self.member_epoch = JOIN_EPOCH
        self.target = self.current = None
        self.is_report_unanswered = False
        self._taken = frozenset()
