"""A member's place in its group: its state, its generation, and whether it has to join again. Pure.

Guarded by the coordinator channel's lock: the user's thread begins and ends rebalances, and the channel's
thread handles errors. Kafka: AbstractCoordinator.

    UNJOINED -> PREPARING_REBALANCE (JoinGroup sent) -> COMPLETING_REBALANCE (answered) -> STABLE (SyncGroup answered)

From each state the member falls back to UNJOINED when it leaves, or when the coordinator no longer knows the member or
its generation. From STABLE it goes to PREPARING_REBALANCE when the next rebalance begins.
"""

from __future__ import annotations

import logging
from enum import Enum

from barnabas.clients.consumer.group.committing_member import NO_GENERATION, NOT_PART_OF_GROUP, REBALANCED, Generation
from barnabas.clients.consumer.group.coordinator_answers import Reaction, reaction_to
from barnabas.clients.errors import CommitFailed
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_UNDERGOING_REBALANCE = (
    "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition assignment. You"
    " can try completing the rebalance by calling poll() and then retry the operation."
)
_GROUP_REBALANCES = (
    "Offset commit cannot be completed since the consumer group is executing a rebalance at the moment. You can try"
    " completing the rebalance by calling poll() and then retry commit again"
)
_STALE_GENERATION = (
    "Offset commit cannot be completed since the consumer member's generation is already stale, meaning it has already"
    " participated another rebalance and got a new generation. You can try completing the rebalance by calling poll()"
    " and then retry commit again"
)


class MembershipState(Enum):
    """The states of the module's docstring. Kafka: MemberState."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"

    @property
    def has_joined(self) -> bool:
        """Whether the member belongs to a generation, and has to send heartbeats."""
        return self in {MembershipState.COMPLETING_REBALANCE, MembershipState.STABLE}


class GroupMembership:
    """The state of one member, its generation, and its reason to join again."""

    def __init__(self) -> None:
        self.state = MembershipState.UNJOINED
        self.generation = NO_GENERATION
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_prepare = True
        """Whether the owned partitions have to be revoked, or counted as lost, before the next JoinGroup."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance has begun and not ended."""
        return self.state in {MembershipState.PREPARING_REBALANCE, MembershipState.COMPLETING_REBALANCE}

    def preparing(self) -> None:
        """Note that JoinGroup is sent."""
        self.state = MembershipState.PREPARING_REBALANCE

    def completing(self, generation: Generation) -> None:
        """Take the generation out of the answer to JoinGroup."""
        logger.info("Successfully joined group with generation %s", generation)
        self.state = MembershipState.COMPLETING_REBALANCE
        self.generation = generation

    def stable(self) -> None:
        """Note that SyncGroup was answered: the rebalance is over."""
        logger.info("Successfully synced group in generation %s", self.generation)
        self.state = MembershipState.STABLE
        self.rejoin_needed = False
        self.rejoin_reason = ""

    def take_member_id(self, member_id: str) -> None:
        """Take the id under which the coordinator wants the member to join again (KIP-394)."""
        self.generation = Generation(member_id=member_id)
        self.request_rejoin(f"need to re-join with the given member-id: {member_id}")

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """Forget the generation, and unless `keep_member_id` the member id: the coordinator no longer knows them."""
        logger.info("Resetting generation%s due to: %s", "" if keep_member_id else " and member id", reason)
        self.state = MembershipState.UNJOINED
        # The member keeps its id for a coordinator that has only started another generation. A coordinator that does
        # not know the id would answer each JoinGroup that carries it with UNKNOWN_MEMBER_ID.
        self.generation = Generation(member_id=self.generation.member_id) if keep_member_id else NO_GENERATION
        self.needs_prepare = True
        self.request_rejoin(reason)

    def request_rejoin(self, reason: str) -> None:
        """Make the next `poll` of the consumer join the group again."""
        logger.info("Request joining group due to: %s", reason)
        self.rejoin_reason = reason
        self.rejoin_needed = True

    # -- commits

    @property
    def reading_generation(self) -> None:
        """None: the classic protocol lets everyone read committed offsets."""
        return None

    def commit_refusal(self, *, at_last: bool) -> Exception | None:
        """Return the error of a commit that cannot be sent now, or None if the member may commit."""
        # During a rebalance the coordinator rejects commits of the old generation, once all members have joined. Only
        # the last commit of a closing consumer is sent all the same: it may arrive before that.
        if self.state is MembershipState.STABLE or (at_last and self.generation.is_known):
            return None
        if self.is_rebalancing:
            return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, _UNDERGOING_REBALANCE)
        return CommitFailed(NOT_PART_OF_GROUP)

    def commit_failure(self, error: ErrorCode, sent: Generation | None) -> Exception | None:
        """React to an error of OffsetCommit, and return the error for the caller; None if the error is no member's."""
        reaction = reaction_to(ApiKey.OFFSET_COMMIT, error)
        # A commit may be answered after the member has joined again. Its error is then about the old generation, and
        # must not reset the new one.
        is_stale = sent is not None and self.generation != sent
        if reaction is Reaction.REJOIN:
            self.request_rejoin("offset commit failed since group is already rebalancing")
            return ApiError(error, _GROUP_REBALANCES)
        if reaction not in {Reaction.FORGET_MEMBER, Reaction.FORGET_GENERATION} and not (
            error is ErrorCode.FENCED_INSTANCE_ID and is_stale
        ):
            return None
        # The member is in a rebalance already: its user may commit again in the new generation. Outside of one, the
        # commit has failed for good.
        if is_stale and self.state is MembershipState.PREPARING_REBALANCE:
            return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, _STALE_GENERATION)
        if reaction is not Reaction.FAIL and not is_stale:
            keep = reaction is Reaction.FORGET_GENERATION
            self.reset(f"encountered {error.name} from OFFSET_COMMIT response", keep_member_id=keep)
        return CommitFailed(REBALANCED)
