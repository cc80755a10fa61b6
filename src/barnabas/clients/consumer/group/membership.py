"""A member's place in its group: its state, its generation, and whether it has to join again. Pure.

Guarded by the coordinator channel's lock: the user's thread begins and ends rebalances, and meanwhile the channel's
thread handles errors. Kafka: AbstractCoordinator.

    UNJOINED -> PREPARING_REBALANCE (JoinGroup sent) -> COMPLETING_REBALANCE (answered) -> STABLE (SyncGroup answered)

From each state the member falls back to UNJOINED when it leaves, or when the coordinator no longer knows the member or
its generation. From STABLE it goes to PREPARING_REBALANCE when the next rebalance begins.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

logger = logging.getLogger(__name__)

UNKNOWN_GENERATION_ID = -1


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


class Generation(NamedTuple):
    """A generation of the group, with this member's id and the assignor's name. The member id comes first."""

    id: int = UNKNOWN_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows the member in this generation, so that it still owns its partitions."""
        return self.id != UNKNOWN_GENERATION_ID and bool(self.member_id)


NO_GENERATION = Generation()


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
