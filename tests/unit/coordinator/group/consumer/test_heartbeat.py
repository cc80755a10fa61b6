"""ConsumerGroupHeartbeat as Kafka 4.3's GroupMetadataManager answers it: epochs, fencing, static members, regexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from barnabas.coordinator.group.consumer.consumer_group_member import HeartbeatTerms, ReconciliationState, TimerKind
from barnabas.coordinator.group.consumer.heartbeat import check_heartbeat, heartbeat
from barnabas.coordinator.group.consumer.replay import restore_consumer_groups
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.support.consumer_group_coordinator import ASSIGNORS, ConsumerGroupCoordinator, topic_id, topics_of


@pytest.fixture
def coordinator() -> ConsumerGroupCoordinator:
    return ConsumerGroupCoordinator()


@contextmanager
def refused(code: ErrorCode, text: str = "") -> Iterator[None]:
    with pytest.raises(ApiError) as raised:
        yield
    assert raised.value.code is code
    assert text in raised.value.message


def test_the_first_member_gets_everything(coordinator: ConsumerGroupCoordinator) -> None:
    answer = coordinator.join("a")
    assert answer.member_epoch == 2
    assert answer.assignment == {topic_id("foo"): dict.fromkeys(range(6), 2)}
    assert answer.heartbeat_interval_ms == 5000
    assert coordinator.group.state_name == "Stable"


def test_an_ordinary_heartbeat_writes_nothing_and_tells_nothing(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    answer = coordinator.beat("a", 2)
    assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 2, None)
    assert coordinator.last is not None
    assert not coordinator.last.records
    assert [change.kind for change in coordinator.last.timers] == [TimerKind.SESSION]


def test_a_full_request_is_told_everything_again(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    answer = coordinator.beat("a", 2, {}, rebalance_timeout_ms=5000, subscribed_topic_names=("foo",))
    assert answer.assignment is not None


def test_partitions_are_given_up_before_they_are_given_to_another(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    assert coordinator.join("b").assignment == {}
    told = coordinator.beat("a", 2)
    assert told.member_epoch == 2
    assert coordinator.group.members["a"].state is ReconciliationState.UNREVOKED_PARTITIONS
    kept = coordinator.owned("a")
    assert len(kept["foo"]) == 3
    coordinator.beat("a", 2, {"foo": set(range(6))})
    assert coordinator.beat("b", 3).assignment is None, "a still owns everything"
    assert coordinator.beat("a", 2, kept).member_epoch == 3
    got = coordinator.beat("b", 3)
    assert got.assignment == {topic_id("foo"): dict.fromkeys(set(range(6)) - kept["foo"], 3)}
    assert coordinator.group.state_name == "Stable"


def test_who_does_not_give_up_in_time_is_watched(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.beat("a", 2)
    assert coordinator.last is not None
    change = coordinator.last.timers[0]
    assert (change.kind, change.delay_ms, change.member_epoch) == (TimerKind.REBALANCE, 5000, 2)


def test_epochs_are_fenced(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.settle("a", "b")
    assert coordinator.group.members["a"].member_epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "greater member epoch (4)"):
        coordinator.beat("a", 4)
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "smaller member epoch (1)"):
        coordinator.beat("a", 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID, "Member c is not a member of group group."):
        coordinator.beat("c", 1)


def test_the_previous_epoch_will_do_when_an_answer_was_lost(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.beat("a", 2)
    kept = coordinator.owned("a")
    assert coordinator.beat("a", 2, kept).member_epoch == 3
    assert coordinator.beat("a", 2, kept).member_epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.beat("a", 2, {"foo": set(range(6))})
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        coordinator.beat("a", 2)


def test_a_static_member_comes_back_to_what_it_had(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a", instance_id="one")
    coordinator.join("b", instance_id="two")
    coordinator.settle("a", "b")
    had, epoch = coordinator.owned("a"), coordinator.group.group_epoch
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID, "owned by a member"):
        coordinator.join("a2", instance_id="one")
    coordinator.leave("a", -2, "one")
    assert coordinator.group.members["a"].member_epoch == -2
    assert coordinator.beat("b", 3).assignment is None
    answer = coordinator.join("a2", instance_id="one")
    assert answer.member_epoch == coordinator.group.group_epoch == epoch
    assert coordinator.owned("a2") == had
    assert set(coordinator.group.members) == {"a2", "b"}
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        coordinator.beat("a", 3, instance_id="one")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID, "Instance id three is unknown."):
        coordinator.beat("a", 3, instance_id="three")


def test_a_member_that_becomes_another_instance_leaves_none_behind(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a", instance_id="one")
    coordinator.join("a", instance_id="two")
    assert coordinator.group.static_members == {"two": "a"}
    coordinator.leave("a", -1, "two")
    assert coordinator.join("b", instance_id="one").error is ErrorCode.NONE


def test_nobody_takes_the_place_of_two_members(coordinator: ConsumerGroupCoordinator) -> None:
    """The target of one of them would be nobody's."""
    coordinator.join("a", instance_id="one")
    coordinator.join("b")
    coordinator.leave("a", -2, "one")
    with refused(ErrorCode.INVALID_REQUEST, "another member"):
        coordinator.join("b", instance_id="one")


def test_a_group_without_members_keeps_no_metadata(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    group = coordinator.group
    assert [group.checked_image, group.target.size] == [coordinator.image, 6]
    coordinator.leave("a")
    assert [group.checked_image, group.target.size] == [None, 0]


def test_a_member_that_leaves_makes_room(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.settle("a", "b")
    coordinator.leave("a")
    assert coordinator.group.state_name == "Assigning"
    coordinator.settle("b")
    assert coordinator.owned("b") == {"foo": set(range(6))}
    coordinator.leave("b")
    assert (coordinator.group.state_name, coordinator.group.has_members) == ("Empty", False)
    assert not coordinator.group.target.owners


def test_topics_that_change_are_assigned(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a", "foo", "later")
    coordinator.image = topics_of(foo=8, other=3)
    assert coordinator.beat("a", 2).member_epoch == 3
    assert coordinator.owned("a") == {"foo": set(range(8))}
    coordinator.image = topics_of(foo=8, later=2)
    assert coordinator.beat("a", 3).member_epoch == 4
    coordinator.image = replace(coordinator.image, version=9)
    coordinator.beat("a", 4)
    assert coordinator.last is not None
    assert not coordinator.last.records, "another image of the same topics"
    coordinator.image = topics_of(later=2)
    coordinator.beat("a", 4)
    coordinator.settle("a")
    assert coordinator.owned("a") == {"later": {0, 1}}


def test_what_is_not_subscribed_any_more_is_given_up_at_once() -> None:
    coordinator = ConsumerGroupCoordinator(foo=2, bar=2)
    coordinator.join("a", "foo", "bar")
    answer = coordinator.beat("a", 2, {"foo": {0, 1}, "bar": {0, 1}}, subscribed_topic_names=("bar",))
    assert answer.assignment == {topic_id("bar"): {0: 2, 1: 2}}
    assert coordinator.group.members["a"].state is ReconciliationState.UNREVOKED_PARTITIONS
    assert coordinator.beat("a", 2, {"bar": {0, 1}}).member_epoch == 3


def test_the_assignor_that_most_ask_for() -> None:
    coordinator = ConsumerGroupCoordinator(foo=3, bar=3)
    coordinator.join("a", "foo", "bar", server_assignor="range")
    assert coordinator.group.preferred_assignor() == "range"
    coordinator.join("b", "foo", "bar", server_assignor="range")
    coordinator.join("c", "foo", "bar", server_assignor="uniform")
    coordinator.settle("a", "b", "c")
    assert [coordinator.owned(member) for member in "abc"] == [{"foo": {n}, "bar": {n}} for n in range(3)]
    with refused(ErrorCode.UNSUPPORTED_ASSIGNOR, "Supported assignors: uniform, range."):
        coordinator.join("d", server_assignor="mine")


def test_a_full_group_takes_nobody_else(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.config = replace(coordinator.config, max_size=1)
    coordinator.join("a")
    coordinator.join("a")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "maximum capacity of 1 members"):
        coordinator.join("b")


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": "\t"}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {b"": frozenset()}}, "TopicPartitions must be empty when (re-)joining."),
        ({"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_requests_that_no_group_could_take(terms: dict[str, Any], text: str) -> None:
    good = HeartbeatTerms(
        "g", "m", 0, rebalance_timeout_ms=1, subscribed_topic_names=(), owned={}, needs_member_id=True
    )
    check_heartbeat(good, ASSIGNORS)
    with refused(ErrorCode.INVALID_REQUEST, text):
        check_heartbeat(good._replace(**terms), ASSIGNORS)


def test_regular_expressions_are_resolved_apart() -> None:
    coordinator = ConsumerGroupCoordinator(foo=2, fox=2, bar=2)
    assert coordinator.join("a", subscribed_topic_regex="fo.").assignment == {}
    assert coordinator.last is not None
    assert coordinator.last.regexes == {"fo."}
    assert coordinator.group.state_name == "Stable", "what matches is not known yet"
    coordinator.resolve(**{"fo.": {"foo", "fox"}, "gone": {"bar"}})
    assert set(coordinator.group.topics.resolved) == {"fo."}
    coordinator.beat("a", 1)
    assert coordinator.owned("a") == {"foo": {0, 1}, "fox": {0, 1}}
    assert coordinator.last is not None
    assert not coordinator.last.regexes
    coordinator.newest_topics_version = 2
    coordinator.beat("a", 2)
    assert not coordinator.last.regexes, "not more often than every ten seconds"
    coordinator.now_ms += 10_001
    coordinator.beat("a", 2)
    assert coordinator.last.regexes == {"fo."}
    coordinator.join("b", subscribed_topic_regex="fo.")
    assert coordinator.group.topics.members_by_regex == {"fo.": 2}
    coordinator.leave("a")
    coordinator.leave("b")
    assert not coordinator.group.topics.resolved


def test_a_regular_expression_that_is_none(coordinator: ConsumerGroupCoordinator) -> None:
    def check(regex: str) -> None:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION)

    terms = HeartbeatTerms("group", "a", 0, rebalance_timeout_ms=1, subscribed_topic_regex="(", owned={})
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        heartbeat(coordinator.group, terms, coordinator.context(check))


def test_offsets_are_committed_at_the_members_epoch(coordinator: ConsumerGroupCoordinator) -> None:
    group = coordinator.group
    assert group.check_offset_commit("", None, -1, is_transactional=False) is ErrorCode.NONE
    coordinator.join("a")
    assert group.check_offset_commit("", None, -1, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_offset_commit("", None, -1, is_transactional=True) is ErrorCode.NONE
    assert group.check_offset_commit("a", None, 2, is_transactional=False) is ErrorCode.NONE
    assert group.check_offset_commit("a", None, 3, is_transactional=False) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_offset_fetch(None, -1) is ErrorCode.NONE
    assert group.check_offset_fetch("b", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_offset_fetch("a", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.is_subscribed_to("foo")
    assert group.deletion_error() is ErrorCode.NON_EMPTY_GROUP


def test_a_loaded_group_is_the_group_that_was_stored() -> None:
    coordinator = ConsumerGroupCoordinator(foo=5, fox=2)
    coordinator.join("a", "foo", instance_id="one", rack_id="r", server_assignor="range")
    coordinator.join("b", subscribed_topic_regex="f.*")
    coordinator.resolve(**{"f.*": {"foo", "fox"}})
    coordinator.beat("a", 2)
    coordinator.beat("b", coordinator.group.members["b"].member_epoch)
    for order in (sorted(coordinator.log.items()), sorted(coordinator.log.items(), reverse=True)):
        *_, groups = restore_consumer_groups(order)
        loaded, stored = groups["group"], coordinator.group
        for name in ("members", "static_members", "group_epoch", "assignment_epoch"):
            assert getattr(loaded, name) == getattr(stored, name), name
        for name in ("by_member", "owners", "size"):
            assert getattr(loaded.target, name) == getattr(stored.target, name), name
        assert loaded.metadata_hash == stored.metadata_hash
        assert loaded.topics.names() == {"foo", "fox"}
        assert loaded.topics.resolved["f.*"].version == -1
        for number in range(5):
            key = topic_id("foo"), number
            assert loaded.partition_epoch(*key) == stored.partition_epoch(*key)


def test_tombstones_leave_nothing(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a", instance_id="one")
    coordinator.join("b", subscribed_topic_regex="f.*")
    coordinator.resolve(**{"f.*": {"foo"}})
    for key, value in coordinator.group.tombstones():
        assert value is None
        coordinator.log.pop(key, None)
    assert not coordinator.log


def test_a_member_in_a_state_of_a_later_release_begins_anew(coordinator: ConsumerGroupCoordinator) -> None:
    coordinator.join("a")
    coordinator.group.put_member(replace(coordinator.group.members["a"], state=ReconciliationState.UNKNOWN))
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "unknown state"):
        coordinator.beat("a", 2)
    coordinator.join("a")
    assert coordinator.group.members["a"].state is ReconciliationState.STABLE


def test_a_regular_expression_that_comes_to_match_nothing_leaves_its_topics_to_others() -> None:
    coordinator = ConsumerGroupCoordinator(foo=4)
    coordinator.join("a")
    coordinator.join("b")
    coordinator.settle("a", "b")
    coordinator.beat("b", 3, coordinator.owned("b"), subscribed_topic_names=(), subscribed_topic_regex="none")
    coordinator.resolve(none=set())
    coordinator.settle("a", "b", "a")
    assert coordinator.owned("a") == {"foo": {0, 1, 2, 3}}


def test_a_member_that_has_not_heard_of_its_new_epoch_commits_what_it_keeps(
    coordinator: ConsumerGroupCoordinator,
) -> None:
    coordinator.join("a")
    coordinator.join("b")
    coordinator.settle("a", "b")
    foo, group = topic_id("foo"), coordinator.group
    kept, lost = min(coordinator.owned("a")["foo"]), min(coordinator.owned("b")["foo"])

    def check(member: str, epoch: int, *partitions: int, names_epochs: bool = True) -> ErrorCode:
        return group.check_members_commit(member, epoch, [(foo, n) for n in partitions], names_epochs=names_epochs)

    assert check("a", 3, kept, lost) is ErrorCode.NONE
    assert check("a", 2, kept) is ErrorCode.NONE
    assert check("a", 2, kept, lost) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", 1, kept) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("a", 4, kept) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("b", 2, lost) is ErrorCode.STALE_MEMBER_EPOCH, "it got that in epoch 3"
    assert check("c", 3, kept) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("a", 3, kept, names_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
