"""Syncs, heartbeats, leaves and the life of their coordinator: as Kafka 3.9's GroupCoordinator does."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.coordinator.group.classic.classic_group_member import LeavingMember
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.offsets_topic import GroupMetadataValue, group_key, group_value
from barnabas.coordinator.group.restore import loaded_classic_group
from barnabas.coordinator.runtime.record import CoordinatorRecord, decode_record, encode_record
from barnabas.protocol.consumer_protocol import Subscription, encode_subscription
from barnabas.protocol.errors import ErrorCode
from tests.support.classic_coordinator import ClassicCoordinator
from tests.support.mock_clock import MockClock


def rebalancing(coordinator: ClassicCoordinator) -> tuple[str, str]:
    """A group of two, generation 3, whose members have not asked for their assignments."""
    leader, follower = coordinator.stable_group("a", "b")
    coordinator.join(leader)
    coordinator.join(follower)
    return leader, follower


def test_followers_wait_for_the_leader_and_each_gets_its_part() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = rebalancing(coordinator)
    waiting = coordinator.sync(follower, 3)
    coordinator.log.holds_back = True
    leading = coordinator.sync(leader, 3, {leader: b"all", "nobody": b"some"})
    assert waiting.is_waiting
    assert coordinator.state == "CompletingRebalance"
    coordinator.log.settle_all()
    assert (leading.sync.assignment, waiting.sync.assignment) == (b"all", b"")
    assert leading.sync[1:3] == ("consumer", "range")
    assert coordinator.sync(leader, 3).sync.assignment == b"all"
    assert coordinator.rebalances_completed == 2  # with the one before


def test_an_assignment_that_cannot_be_stored_makes_the_group_begin_again() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = rebalancing(coordinator)
    waiting = coordinator.sync(follower, 3)
    coordinator.log.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    leading = coordinator.sync(leader, 3, {leader: b"all"})
    assert waiting.sync.error is leading.sync.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.heartbeat(leader, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_repeats_itself_does_not_have_two_assignments_stored() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = rebalancing(coordinator)
    coordinator.log.holds_back = True
    before = len(coordinator.log.records)
    first = coordinator.sync(leader, 3, {leader: b"first", follower: b"first"})
    second = coordinator.sync(leader, 3, {leader: b"second", follower: b"second"})
    assert first.sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(coordinator.log.records) == before + 1
    coordinator.log.settle_all()
    assert second.sync.assignment == b"first"


@pytest.mark.parametrize(
    ("member", "generation", "terms", "error"),
    [
        ("nobody", 3, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("leader", 2, {}, ErrorCode.ILLEGAL_GENERATION),
        ("leader", 4, {}, ErrorCode.ILLEGAL_GENERATION),
        ("leader", 3, {"instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("leader", 3, {"protocol_type": "connect", "protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("leader", 3, {"protocol_type": "consumer", "protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_syncs_that_do_not_fit_are_refused(
    member: str, generation: int, terms: dict[str, Any], error: ErrorCode
) -> None:
    coordinator = ClassicCoordinator()
    leader, _ = rebalancing(coordinator)
    member_id = leader if member == "leader" else member
    assert coordinator.sync(member_id, generation, **terms).sync.error is error


def test_a_sync_in_the_middle_of_a_rebalance_is_told_of_it() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = coordinator.stable_group("a", "b")
    coordinator.join(leader)
    assert coordinator.sync(follower, 2).sync.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_whoever_does_not_ask_for_its_assignment_in_time_is_given_up() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = rebalancing(coordinator)
    coordinator.sync(leader, 3, {leader: b"all"})
    for _ in range(8):
        assert coordinator.heartbeat(leader, 3) is ErrorCode.NONE
        assert coordinator.heartbeat(follower, 3) is ErrorCode.NONE
        coordinator.advance(7_000)
    coordinator.heartbeat(leader, 3)
    coordinator.advance(4_000)
    assert coordinator.heartbeat(follower, 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(leader, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_moves_a_deadline_and_no_timer() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group("a")
    coordinator.advance(1)
    entries = len(coordinator.timer)
    for _ in range(20):
        coordinator.advance(9_000)
        assert coordinator.heartbeat(member, 1) is ErrorCode.NONE
        assert len(coordinator.timer) == entries == coordinator.heartbeats.delayed == 1
    coordinator.advance(9_999)
    assert member in coordinator.group.members.by_id
    coordinator.advance(1)
    assert coordinator.state == "Empty"
    assert len(coordinator.timer) == 0


def test_a_member_that_asks_for_less_time_is_given_up_earlier() -> None:
    coordinator = ClassicCoordinator()
    (member,) = coordinator.stable_group("a")
    coordinator.join(member, session_timeout_ms=30_000)
    coordinator.sync(member, 2)
    coordinator.join(member, session_timeout_ms=6_000)
    coordinator.sync(member, 3)
    coordinator.advance(6_000)
    assert coordinator.state == "Empty"


def test_members_that_wait_need_no_heartbeats() -> None:
    coordinator = ClassicCoordinator()
    leader, follower = rebalancing(coordinator)
    waiting = coordinator.sync(follower, 3)
    for _ in range(5):
        coordinator.advance(9_000)
        coordinator.heartbeat(leader, 3)
    assert waiting.is_waiting
    coordinator.sync(leader, 3, {follower: b"late"})
    assert waiting.sync.assignment == b"late"
    coordinator.advance(9_999)
    assert coordinator.state == "Stable"


def test_members_leave_and_the_last_one_leaves_an_empty_group() -> None:
    coordinator = ClassicCoordinator()
    first, second = coordinator.stable_group("a", "b")
    answer = coordinator.leave(LeavingMember(first), LeavingMember("nobody"), LeavingMember(first))
    assert [each.error.name for each in answer.members] == ["NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"]
    assert coordinator.state == "PreparingRebalance"
    coordinator.leave(LeavingMember(second))
    assert coordinator.state == "Empty"
    assert coordinator.group.generation == 3
    stored = decode_record(GroupMetadataValue, coordinator.log.records[-1].value or b"")
    assert (stored.generation, stored.members, stored.protocol, stored.leader) == (3, [], None, None)
    assert stored.current_state_timestamp == coordinator.clock.milliseconds()


def test_a_promised_place_can_be_left() -> None:
    coordinator = ClassicCoordinator()
    (leader,) = coordinator.stable_group("a")
    promised = coordinator.join(needs_known_member_id=True).join.member_id
    again = coordinator.join(leader)
    assert coordinator.leave(LeavingMember(promised)).members[0].error is ErrorCode.NONE
    assert again.join.generation == 2


class TestCoordinator:
    def test_that_does_not_serve_the_group(self) -> None:
        coordinator = ClassicCoordinator()
        for error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            coordinator.partitions.error = error
            assert coordinator.join().join.error is error
            assert coordinator.sync("m", 1).sync.error is error
            assert coordinator.heartbeat("m", 1) is error
            assert coordinator.leave(LeavingMember("m")) == (error, ())

    def test_that_still_loads_the_group(self) -> None:
        coordinator = ClassicCoordinator()
        coordinator.partitions.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert coordinator.join().join.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert coordinator.sync("m", 1).sync.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert coordinator.heartbeat("m", 1) is ErrorCode.NONE
        assert coordinator.leave(LeavingMember("m")).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def test_that_loads_for_long_does_not_give_up_those_whose_groups_it_has_read(self) -> None:
        coordinator = ClassicCoordinator()
        (member,) = coordinator.stable_group("a")
        coordinator.unload()
        coordinator.partitions.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.load()
        for _ in range(5):
            coordinator.advance(9_000)
            assert coordinator.heartbeat(member, 1) is ErrorCode.NONE
        coordinator.partitions.error = ErrorCode.NONE
        assert coordinator.heartbeat(member, 1) is ErrorCode.NONE

    @pytest.mark.parametrize("how", ["unload", "shutdown"])
    def test_that_goes_away_answers_whoever_waits(self, how: str) -> None:
        coordinator = ClassicCoordinator()
        _, follower = rebalancing(coordinator)
        syncing = coordinator.sync(follower, 3)
        getattr(coordinator, how)()
        assert syncing.sync.error is ErrorCode.NOT_COORDINATOR
        assert len(coordinator.timer) == coordinator.heartbeats.watched == coordinator.rebalances.watched == 0

    def test_that_comes_after_knows_the_members_and_their_sessions_begin_anew(self) -> None:
        coordinator = ClassicCoordinator()
        first, second = coordinator.stable_group("a", "b")
        joining = coordinator.join(first)
        coordinator.unload()
        assert joining.join.error is ErrorCode.NOT_COORDINATOR
        coordinator.advance(60_000)
        coordinator.load()
        coordinator.advance(9_999)
        assert coordinator.heartbeat(first, 2) is ErrorCode.NONE
        assert coordinator.sync(second, 2).sync.assignment == f"of {second}".encode()
        coordinator.advance(10_000)
        assert coordinator.state == "Empty"

    def test_a_record_that_is_stored_late_changes_nothing_any_more(self) -> None:
        coordinator = ClassicCoordinator()
        leader, _ = rebalancing(coordinator)
        coordinator.log.holds_back = True
        leading = coordinator.sync(leader, 3, {})
        coordinator.unload()
        assert leading.sync.error is ErrorCode.NOT_COORDINATOR
        coordinator.log.settle_all()


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_of_the_record_are_read(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        current_state_timestamp=123 if version >= 2 else -1,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id="m",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="/h",
                rebalance_timeout=9 if version >= 1 else -1,
                session_timeout=8,
                subscription=encode_subscription(Subscription(("topic",))),
                assignment=b"mine",
            )
        ],
    )
    group = loaded_classic_group(group_key("group"), encode_record(value, version), MockClock())
    (member,) = group.members.by_id.values()
    assert (group.state, group.generation, group.kind, group.protocol_name) == (
        ClassicState.STABLE,
        7,
        "consumer",
        "range",
    )
    assert group.state_since_ms == (123 if version >= 2 else None)
    assert (member.terms.session_timeout_ms, member.terms.rebalance_timeout_ms) == (8, 9 if version >= 1 else 8)
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert group.members.static_ids == ({"i": "m"} if version >= 3 else {})
    assert (group.members.leader_id, member.assignment) == ("m", b"mine")
    assert group.is_subscribed_to("topic")
    assert not group.is_subscribed_to("another")
    assert not group.keeps_all_offsets


@pytest.mark.parametrize("leader", [None, "gone"])
def test_a_group_whose_record_names_no_leader_of_its_own_can_rebalance(leader: str | None) -> None:
    member = GroupMetadataValue.MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1000,
        session_timeout=10_000,
        subscription=b"topics",
        assignment=b"",
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader=leader, members=[member]
    )
    coordinator = ClassicCoordinator()
    coordinator.log.records.append(CoordinatorRecord(group_key("group"), group_value(value)))
    coordinator.load()
    joining = coordinator.join("m", "i", protocols=(("range", b"others"),))
    coordinator.advance(1000)
    assert (joining.join.error, joining.join.generation, joining.join.leader) == (ErrorCode.NONE, 8, "m")


class TestOffsets:
    def test_a_group_without_members_takes_commits_of_nobody_only(self) -> None:
        group = ClassicCoordinator().table.get_or_add("group").membership
        check = group.check_offset_commit
        assert check("", None, -1, is_transactional=False) is ErrorCode.NONE
        assert check("m", None, 1, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (group.empty_since_ms, group.keeps_all_offsets, group.tombstones()) == (None, False, [])

    def test_a_group_with_members_takes_commits_of_the_present_generation(self) -> None:
        coordinator = ClassicCoordinator()
        leader, follower = coordinator.stable_group("a", "b")
        check = coordinator.group.check_offset_commit
        assert check(leader, None, 2, is_transactional=False) is ErrorCode.NONE
        assert check(leader, None, 1, is_transactional=False) is ErrorCode.ILLEGAL_GENERATION
        assert check(leader, "one", 2, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
        assert check("", None, -1, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
        assert check("", None, -1, is_transactional=True) is ErrorCode.NONE
        coordinator.join(leader)
        assert check(follower, None, 2, is_transactional=False) is ErrorCode.NONE
        coordinator.join(follower)
        assert check(follower, None, 3, is_transactional=False) is ErrorCode.REBALANCE_IN_PROGRESS
        assert check(follower, None, 3, is_transactional=True) is ErrorCode.NONE
        coordinator.group.end(ErrorCode.NOT_COORDINATOR)
        assert check(follower, None, 3, is_transactional=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    def test_they_may_expire_once_it_is_empty_or_known_what_it_reads(self) -> None:
        coordinator = ClassicCoordinator()
        metadata = encode_subscription(Subscription(("read",)))
        member = coordinator.join(protocols=(("range", metadata),)).join.member_id
        group = coordinator.group
        assert (group.keeps_all_offsets, group.is_subscribed_to("read"), group.is_subscribed_to("x")) == (
            True,
            True,
            False,
        )
        coordinator.sync(member, 1)
        assert not group.keeps_all_offsets
        coordinator.leave(LeavingMember(member))
        assert group.empty_since_ms == coordinator.clock.milliseconds()
        assert not group.is_subscribed_to("read")
        assert [each.value for each in group.tombstones()] == [None]

    def test_of_members_that_nobody_can_read_none_expire(self) -> None:
        coordinator = ClassicCoordinator()
        coordinator.stable_group("a")
        assert coordinator.group.is_subscribed_to("anything")
        assert coordinator.group.keeps_all_offsets
