"""Where a member stands in its group: its state, its generation, and whether it has to join again. Pure.

Guarded by the coordinator channel's lock: the user's thread begins and ends rebalances, the channel's thread hears
of errors meanwhile. Kafka: the fields of AbstractCoordinator.

    UNJOINED -> PREPARING_REBALANCE (JoinGroup sent) -> COMPLETING_REBALANCE (answered) -> STABLE (SyncGroup answered)
    and from each of them back to UNJOINED, when the coordinator does not know the member or its generation any more,
    or the member leaves; from STABLE to PREPARING_REBALANCE when the next rebalance begins.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

logger = logging.getLogger(__name__)

UNKNOWN_GENERATION_ID = -1


class MembershipState(Enum):
    """See the module's text."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"

    @property
    def has_joined(self) -> bool:
        """Whether the member belongs to a generation, and has to send heartbeats."""
        return self in {MembershipState.COMPLETING_REBALANCE, MembershipState.STABLE}


class Generation(NamedTuple):
    """Which generation of the group, as whom, under which assignor. A member has an id before it has a generation."""

    id: int = UNKNOWN_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the coordinator can tell who this is, so that what it owns is still its own."""
        return self.id != UNKNOWN_GENERATION_ID and bool(self.member_id)


NO_GENERATION = Generation()


class GroupMembership:
    """See the module's text."""

    def __init__(self) -> None:
        self.state = MembershipState.UNJOINED
        self.generation = NO_GENERATION
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_prepare = True
        """Whether what is owned has to be given away, or counted as lost, before the next JoinGroup."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance has begun and not ended."""
        return self.state in {MembershipState.PREPARING_REBALANCE, MembershipState.COMPLETING_REBALANCE}

    def preparing(self) -> None:
        """JoinGroup is sent."""
        self.state = MembershipState.PREPARING_REBALANCE

    def completing(self, generation: Generation) -> None:
        """JoinGroup was answered."""
        logger.info("Successfully joined group with generation %s", generation)
        self.state = MembershipState.COMPLETING_REBALANCE
        self.generation = generation

    def stable(self) -> None:
        """SyncGroup was answered."""
        logger.info("Successfully synced group in generation %s", self.generation)
        self.state = MembershipState.STABLE
        self.rejoin_needed = False
        self.rejoin_reason = ""

    def take_member_id(self, member_id: str) -> None:
        """The coordinator wants to be asked again, by this id."""
        self.generation = Generation(member_id=member_id)
        self.request_rejoin(f"need to re-join with the given member-id: {member_id}")

    def reset(self, reason: str, *, keep_member_id: bool = False) -> None:
        """The member, or only its generation, is no longer part of the group."""
        logger.info("Resetting generation%s due to: %s", "" if keep_member_id else " and member id", reason)
        self.state = MembershipState.UNJOINED
        self.generation = Generation(member_id=self.generation.member_id) if keep_member_id else NO_GENERATION
        self.needs_prepare = True
        self.request_rejoin(reason)

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next occasion."""
        logger.info("Request joining group due to: %s", reason)
        self.rejoin_reason = reason
        self.rejoin_needed = True
