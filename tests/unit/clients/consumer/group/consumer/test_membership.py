"""What a member may take over of its assignment while it does not know what its coordinator has kept."""

from __future__ import annotations

import pytest

from barnabas.clients.consumer.group.consumer.consumer_membership import (
    AssignedPartition,
    ConsumerMembership,
    MemberAssignment,
)
from barnabas.clients.consumer.group.consumer.member_states import MemberState


def partitions(*numbers: int) -> frozenset[AssignedPartition]:
    return frozenset(AssignedPartition(b"t" * 16, number) for number in numbers)


@pytest.fixture
def member() -> ConsumerMembership:
    """A member that owns nothing yet, and is assigned 0 and 1."""
    member = ConsumerMembership(lambda: "member-1")
    member.subscribe()
    member.owned_named()
    member.answered("member-1", 1, partitions(0, 1))
    assert (member.state, member.is_report_unanswered) == (MemberState.RECONCILING, False)
    return member


def owes_an_answer(member: ConsumerMembership) -> bool:
    return member.is_report_unanswered


def take_over(member: ConsumerMembership) -> MemberAssignment:
    assert member.target is not None
    return member.take_over(member.target)


def test_partitions_that_an_unanswered_heartbeat_has_not_named_are_not_taken_over(member: ConsumerMembership) -> None:
    member.owned_named()
    assert owes_an_answer(member)
    assert take_over(member).partitions == partitions()
    member.answered("member-1", 2, None)
    assert not owes_an_answer(member)
    assert take_over(member).partitions == partitions(0, 1)


def test_partitions_that_a_newer_assignment_takes_back_are_not_taken_over(member: ConsumerMembership) -> None:
    first = member.target
    assert first is not None
    member.owned_named()
    member.answered("member-1", 2, partitions(1, 2))
    taken = member.take_over(first)
    assert taken == MemberAssignment(first.number, partitions(1))
    member.reconciled(taken)
    member.heartbeat_sent()
    assert (member.state, member.owned) == (MemberState.RECONCILING, partitions(1)), "2 comes next"


def test_a_heartbeat_names_what_is_taken_over_before_the_listener_has_returned(member: ConsumerMembership) -> None:
    taken = take_over(member)
    assert member.owned == partitions(0, 1), "the listener is called meanwhile"
    member.owned_named()
    assert not owes_an_answer(member), "nothing was left out"
    member.reconciled(taken)
    assert (member.current, member.owned) == (taken, partitions(0, 1))


def test_a_membership_that_has_ended_owes_nothing(member: ConsumerMembership) -> None:
    take_over(member)
    member.answered("member-1", 2, partitions(2))
    member.owned_named()
    assert owes_an_answer(member)
    member.fenced()
    member.released()
    assert (member.owned, member.is_report_unanswered) == (partitions(), False)
