"""Random lives of consumers in one group of the consumer protocol (KIP-848), on the broker's own ConsumerGroup.

Whatever happens: no partition is owned by two members whose sessions last; no offset is committed that was not
processed. When nothing happens any more, every partition has one owner, and every record was read.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.consumer.group.consumer.member_states import TRANSITIONS, MemberEvent, MemberState, next_state
from barnabas.clients.consumer.subscription_state import SubscriptionPattern
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.simulation.group_members import PATTERNS, GroupLife, GroupMember, live_all
from tests.support.reconciling_group import ReconcilingGroup, coordinator_of

LIVES, MORE_LIVES, LIVES_PER_TEST = 60, 2_000, 20


class ReconcilingMember(GroupMember):
    """A consumer whose coordinator divides the partitions."""

    fenced_joins = -1
    """The membership that the coordinator has ended."""

    @property
    def is_in_session(self) -> bool:
        membership = coordinator_of(self.consumer)._membership
        return membership.joins != self.fenced_joins and not membership.state.has_lost_partitions

    @property
    def is_settled(self) -> bool:
        return coordinator_of(self.consumer)._membership.state is MemberState.STABLE

    def subscribe_pattern(self, pattern: str) -> None:
        self.consumer.subscribe(pattern=SubscriptionPattern(pattern), listener=self)

    def is_removed_by(self, error: ApiError) -> bool:
        """A static member whose join was carried out and not answered: its session keeps its place, as in Kafka."""
        return error.code is ErrorCode.UNRELEASED_INSTANCE_ID and self.consumer.config.group_instance_id is not None

    def expire(self) -> None:
        self.fenced_joins = coordinator_of(self.consumer)._membership.joins
        self.life.group.expire(self.member_id)


class ReconcilingLife(GroupLife[ReconcilingGroup]):
    """One life of a group of the consumer protocol."""

    heartbeat_api = ApiKey.CONSUMER_GROUP_HEARTBEAT
    fencing_errors = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
    fragile_apis = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT)

    def new_group(self) -> ReconcilingGroup:
        group = ReconcilingGroup(foo=3, bar=1)
        group.regexes = dict(PATTERNS)
        return group

    def new_member(self, name: str, **settings: Any) -> GroupMember:
        return ReconcilingMember(self, name, **settings)

    def is_static_place_free(self) -> bool:
        """Whether the static member of the group has left for a while, or for good."""
        if self.has_static_member:
            return False
        known = self.group.coordinator.group.static_member("static")
        return known is None or known.member_epoch == -2

    def check_owners(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for member in self.members:
            assert isinstance(member, ReconcilingMember)
            if member.is_in_session:
                for partition in member.consumer.assignment():
                    assert partition not in owners, f"{partition}: {owners[partition]} and {member.member_id}"
                    owners[partition] = member.member_id

    def let_time_pass(self) -> None:
        """End the sessions of members that closed, of those too whose last heartbeat was lost."""
        for member_id in self.group.coordinator.group.members.keys() - {each.member_id for each in self.members}:
            self.group.expire(member_id)


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_lives(first: int) -> None:
    live_all(ReconcilingLife, first, LIVES_PER_TEST)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LIVES, LIVES + MORE_LIVES, LIVES_PER_TEST))
def test_more_lives(first: int) -> None:
    live_all(ReconcilingLife, first, LIVES_PER_TEST)


def test_a_member_does_not_take_over_what_it_has_not_named() -> None:
    """A full heartbeat gets lost while the member has an assignment to take over, and the coordinator gives it away.

    Java's member takes the assignment over all the same, and is fenced at its next heartbeat.
    """
    live_all(ReconcilingLife, 2_851, 1)


# -- the table


def test_every_state_is_reached_and_left() -> None:
    reached = {following for row in TRANSITIONS.values() for following in row.values()}
    assert set(TRANSITIONS) == reached == set(MemberState)
    for state, row in TRANSITIONS.items():
        assert state is MemberState.FATAL or any(following is not state for following in row.values())


def test_a_member_can_always_leave_and_then_owns_nothing() -> None:
    """From each state there is a way out that needs nothing of the coordinator."""
    for first in MemberState:
        state = first
        for event in (MemberEvent.UNSUBSCRIBE, MemberEvent.RELEASED, MemberEvent.LEFT):
            if event in TRANSITIONS[state]:
                state = next_state(state, event)
        assert state in {MemberState.UNSUBSCRIBED, MemberState.FATAL}


def test_an_event_that_cannot_be_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="Invalid event RECONCILED of a member in state STABLE"):
        next_state(MemberState.STABLE, MemberEvent.RECONCILED)
