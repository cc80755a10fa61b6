"""Who may join a classic group, what a join waits for, and how it is answered: as Kafka 3.9's GroupCoordinator does."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.coordinator.group.classic.classic_group_member import LeavingMember
from barnabas.protocol.errors import ErrorCode
from tests.support.classic_coordinator import ClassicCoordinator

BOTH = (("range", b"r"), ("roundrobin", b"rr"))
MINUTE_MS = 60_000


def test_a_new_dynamic_member_is_told_its_id_first_and_forgotten_if_it_does_not_come_back() -> None:
    coordinator = ClassicCoordinator()
    first = coordinator.join(needs_known_member_id=True).join
    assert (first.error, first.generation) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert first.member_id.startswith("client-")
    assert coordinator.state == "Empty"
    assert not coordinator.group.members.by_id
    second = coordinator.join(needs_known_member_id=True).join
    assert coordinator.join(second.member_id, needs_known_member_id=True).join.generation == 1
    coordinator.advance(9_999)
    assert coordinator.heartbeat(second.member_id, 1) is ErrorCode.NONE
    coordinator.advance(1)
    assert coordinator.join(first.member_id).join.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(coordinator.group.members.by_id) == [second.member_id]


def test_joins_wait_for_promised_places_but_not_longer_than_their_session() -> None:
    coordinator = ClassicCoordinator()
    (leader,) = coordinator.stable_group("a")
    promised = coordinator.join(needs_known_member_id=True, session_timeout_ms=6_000).join.member_id
    again = coordinator.join(leader)
    assert again.is_waiting
    coordinator.advance(5_999)
    assert again.is_waiting
    coordinator.advance(1)
    assert again.join.generation == 2
    assert coordinator.join(promised).join.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_names_a_member_that_is_not_there_is_told_so() -> None:
    coordinator = ClassicCoordinator()
    assert coordinator.join("nobody").join.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.table.get("group") is None
    coordinator.stable_group("a")
    answer = coordinator.join("nobody").join
    assert (answer.error, answer.member_id, answer.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody", "")


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_impossible_terms_are_refused(terms: dict[str, Any], error: ErrorCode) -> None:
    assert ClassicCoordinator().join(**terms).join.error is error


def test_members_need_a_protocol_in_common() -> None:
    coordinator = ClassicCoordinator()
    coordinator.join(protocols=BOTH)
    assert coordinator.join(protocols=(("sticky", b""),)).join.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.join(protocol_type="connect").join.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_chosen_by_vote_of_those_that_all_can() -> None:
    coordinator = ClassicCoordinator(initial_rebalance_delay_ms=100)
    joins = [
        coordinator.join(protocols=BOTH),
        coordinator.join(protocols=(("sticky", b"s"), ("roundrobin", b"2"), ("range", b"2"))),
        coordinator.join(protocols=(("roundrobin", b"3"), ("range", b"3"))),
    ]
    coordinator.advance(200)
    assert {each.join.protocol_name for each in joins} == {"roundrobin"}
    leader = joins[0].join
    assert leader.leader == leader.member_id
    assert [each.metadata for each in leader.members] == [b"rr", b"2", b"3"]
    assert all(each.join.members == () for each in joins[1:])


def test_an_empty_group_waits_for_more_members_and_again_while_they_come() -> None:
    coordinator = ClassicCoordinator(initial_rebalance_delay_ms=3_000)
    joins = [coordinator.join(rebalance_timeout_ms=7_000)]
    coordinator.advance(2_999)
    joins.append(coordinator.join(rebalance_timeout_ms=7_000))
    coordinator.advance(2_999)  # the second wait: 3 s of the 4 s that are left
    joins.append(coordinator.join(rebalance_timeout_ms=7_000))
    assert all(each.is_waiting for each in joins)
    coordinator.advance(1_001)  # the third: one second, the rest
    assert joins[0].is_waiting
    coordinator.advance(1_001)
    assert [each.join.generation for each in joins] == [1, 1, 1]


def test_members_that_do_not_join_again_in_time_are_members_no_more() -> None:
    coordinator = ClassicCoordinator()
    first, second = coordinator.stable_group("a", "b")
    again = coordinator.join(first, rebalance_timeout_ms=MINUTE_MS)
    for _ in range(7):  # it lives, but does not join
        assert coordinator.heartbeat(second, 2) is ErrorCode.REBALANCE_IN_PROGRESS
        coordinator.advance(8_000)
    coordinator.advance(4_000)
    assert [each.member_id for each in again.join.members] == [first]
    assert coordinator.heartbeat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_if_the_leader_does_not_join_again_another_one_leads() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group("a", "b")
    again = coordinator.join(follower, protocols=(("range", b"new"),))
    coordinator.advance(MINUTE_MS)
    assert again.join.leader == follower
    assert coordinator.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_waits_too_long_is_given_up() -> None:
    coordinator = ClassicCoordinator()
    (first,) = coordinator.stable_group("a")
    new = coordinator.join(rebalance_timeout_ms=10 * MINUTE_MS)
    for _ in range(60):
        coordinator.advance(5_000)
        coordinator.heartbeat(first, 1)
    answer = new.join
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert list(coordinator.group.members.by_id) == [first]


def test_a_member_that_has_nothing_new_to_say_is_told_its_generation_again() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group("a", "b")
    answer = coordinator.join(follower).join
    assert (answer.error, answer.generation, answer.leader, answer.members) == (ErrorCode.NONE, 2, leader, ())
    assert coordinator.state == "Stable"
    assert coordinator.join(follower, protocols=(("range", b"other"),)).is_waiting
    assert coordinator.state == "PreparingRebalance"


def test_a_leader_that_joins_again_wants_a_rebalance_but_not_while_it_assigns() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group("a", "b")
    joins = [coordinator.join(leader), coordinator.join(follower)]
    assert [each.join.generation for each in joins] == [3, 3]
    answer = coordinator.join(leader).join
    assert (answer.generation, len(answer.members)) == (3, 2)
    assert coordinator.state == "CompletingRebalance"


def test_a_join_that_is_repeated_answers_the_first_so_that_it_does_not_wait_forever() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group("a", "b")
    first = coordinator.join(leader)
    second = coordinator.join(leader)
    assert first.join.error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.join(follower)
    assert second.join.generation == 3


class TestLargestSize:
    def test_of_a_group_that_works(self) -> None:
        coordinator = ClassicCoordinator(max_size=2)
        first, _ = coordinator.stable_group("a", "b")
        answer = coordinator.join().join
        assert (answer.error, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert coordinator.state == "Stable"
        assert coordinator.join(first).is_waiting

    def test_the_last_to_join_are_turned_out_when_there_are_too_many(self) -> None:
        coordinator = ClassicCoordinator()
        ids = coordinator.stable_group("a", "b", "c")
        coordinator.unload()
        small = ClassicCoordinator(max_size=2)
        small.log.records = coordinator.log.records
        small.load()
        assert small.state == "PreparingRebalance"
        joins = [small.join(each) for each in ids]
        assert [each.join.error for each in joins] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ]
        assert list(small.group.members.by_id) == ids[:2]


class TestStaticMembers:
    def test_a_restarted_member_keeps_its_assignment_and_nobody_rebalances(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b", static=True)
        answer = coordinator.join(instance="b").join
        assert (answer.error, answer.generation, answer.leader, answer.skip_assignment) == (
            ErrorCode.NONE,
            2,
            leader,
            False,
        )
        assert coordinator.state == "Stable"
        assert coordinator.sync(answer.member_id, 2, instance="b").sync.assignment == f"of {follower}".encode()
        assert coordinator.heartbeat(follower, 2, "b") is ErrorCode.FENCED_INSTANCE_ID
        assert coordinator.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
        coordinator.unload()
        coordinator.load()  # its new id was stored
        assert coordinator.heartbeat(answer.member_id, 2, "b") is ErrorCode.NONE

    def test_a_restarted_leader_is_told_to_assign_nothing_or_that_it_does_not_lead(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b", static=True)
        old = coordinator.join(instance="a").join
        assert (old.leader, old.members, old.skip_assignment) == (leader, (), False)
        new = coordinator.join(instance="a", can_skip_assignment=True).join
        assert (new.leader, new.skip_assignment) == (new.member_id, True)
        assert {each.member_id for each in new.members} == {new.member_id, follower}

    def test_one_that_comes_with_another_protocol_makes_the_group_rebalance(self) -> None:
        coordinator = ClassicCoordinator()
        joins = [coordinator.join(instance="a", protocols=BOTH)]
        coordinator.sync(joins[0].join.member_id, 1)
        restarted = coordinator.join(instance="a", protocols=(("roundrobin", b""), ("range", b""))).join
        assert (restarted.generation, restarted.protocol_name) == (2, "roundrobin")

    def test_the_one_before_it_is_fenced_while_it_waits(self) -> None:
        coordinator = ClassicCoordinator()
        coordinator.stable_group("a", "b", static=True)
        first = coordinator.join(instance="c")
        second = coordinator.join(instance="c")
        assert first.join.error is ErrorCode.FENCED_INSTANCE_ID
        assert second.is_waiting

    def test_while_the_leader_assigns_everybody_begins_again(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b", static=True)
        assert coordinator.join(leader, "a").is_waiting
        assert coordinator.join(follower, "b").join.generation == 3
        waiting = coordinator.sync(follower, 3, instance="b")
        replacement = coordinator.join(instance="b")
        assert waiting.sync.error is ErrorCode.FENCED_INSTANCE_ID
        assert replacement.is_waiting
        assert coordinator.sync(leader, 3, instance="a").sync.error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_absent_ones_stay_until_their_session_is_over(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b", static=True)
        member = coordinator.group.members.by_id[follower]
        member.terms = member.terms._replace(rebalance_timeout_ms=5_000)
        again = coordinator.join(leader, "a", rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
        coordinator.advance(5_000)
        assert [each.group_instance_id for each in again.join.members] == ["a", "b"]

    def test_if_its_new_id_cannot_be_stored_it_is_as_if_it_had_not_come(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b", static=True)
        coordinator.log.refusal = ErrorCode.NOT_COORDINATOR
        answer = coordinator.join(instance="b", session_timeout_ms=30_000, protocols=(("range", b"new"),)).join
        assert (answer.error, answer.member_id, answer.leader) == (ErrorCode.NOT_COORDINATOR, "", leader)
        assert coordinator.heartbeat(follower, 2, "b") is ErrorCode.NONE
        member = coordinator.group.members.by_id[follower]
        assert (member.terms.session_timeout_ms, member.terms.protocols) == (10_000, (("range", b"topics"),))
        coordinator.advance(10_000)
        assert coordinator.heartbeat(follower, 2, "b") is ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_administrator_removes_one_by_its_name(self) -> None:
        coordinator = ClassicCoordinator()
        coordinator.stable_group("a", "b", static=True)
        answer = coordinator.leave(LeavingMember("", "b"), LeavingMember("", "nobody"), LeavingMember("wrong", "a"))
        assert [each.error for each in answer.members] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
        ]
        assert coordinator.state == "PreparingRebalance"
