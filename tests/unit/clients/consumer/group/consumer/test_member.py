"""A member of the consumer protocol on a scripted cluster: its heartbeats field by field, its errors, its deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.subscription_state import RebalanceListener, SubscriptionPattern
from barnabas.clients.errors import CommitFailed
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.client_request import UnsupportedVersion
from tests.support.consumer_group_coordinator import name_of
from tests.support.reconciling_group import INTERVAL_MS, ReconcilingGroup, coordinator_of, joined, state_of
from tests.support.scripted_cluster import TP0, TP1, batch
from tests.support.scripted_selector import all_versions
from tests.support.simulated_group import Events, poll_until

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def fields_of(body: Any) -> dict[str, Any]:
    """What a heartbeat says beside the member's id and epoch."""
    said = {
        "timeout": body.rebalance_timeout_ms if body.rebalance_timeout_ms >= 0 else None,
        "names": body.subscribed_topic_names,
        "regex": body.subscribed_topic_regex,
        "assignor": body.server_assignor,
        "rack": body.rack_id,
        "instance": body.instance_id,
        "owned": None
        if body.topic_partitions is None
        else {name_of(bytes(each.topic_id)): each.partitions for each in body.topic_partitions},
    }
    return {name: value for name, value in said.items() if value is not None}


def lack_patterns(group: ReconcilingGroup) -> None:
    """Let the brokers be older than server patterns."""
    answer = all_versions(*group.cluster.extra)
    for each in answer.api_keys:
        if each.api_key == HEARTBEAT:
            each.max_version = 0
    group.cluster.handlers[ApiKey.API_VERSIONS] = lambda request: answer


# -- heartbeats


def test_a_heartbeat_says_what_has_changed() -> None:
    group = ReconcilingGroup(t=2)
    consumer = joined(group, max_poll_interval_ms=60_000, client_rack="r1", group_remote_assignor="range")
    poll_until([consumer], lambda: len(group.heartbeats()) == 4)
    first, second, third, fourth = group.heartbeats()
    assert [each.member_epoch for each in group.heartbeats()] == [0, 2, 2, 2]
    assert {each.member_id for each in group.heartbeats()} == {"member-1"}
    assert fields_of(first) == {"timeout": 60_000, "names": ["t"], "assignor": "range", "rack": "r1", "owned": {}}
    assert fields_of(second) == {"owned": {"t": [0, 1]}}
    assert fields_of(third) == fields_of(fourth) == {}
    started = group.cluster.clock.milliseconds()
    poll_until([consumer], lambda: len(group.heartbeats()) == 8)
    assert 4 * INTERVAL_MS - 100 <= group.cluster.clock.milliseconds() - started <= 4 * INTERVAL_MS + 400


def test_a_lost_answer_is_followed_by_a_full_heartbeat() -> None:
    group = ReconcilingGroup(t=1)
    consumer = joined(group)
    group.silent.add(HEARTBEAT)
    known = len(group.heartbeats())
    poll_until([consumer], lambda: len(group.heartbeats()) > known)
    group.silent.clear()
    group.selectors["member-1"].disconnect("0")
    poll_until([consumer], lambda: len(group.heartbeats()) > known + 1)
    assert fields_of(group.heartbeats()[-1]) == {"timeout": 300_000, "names": ["t"], "owned": {"t": [0]}}
    assert consumer.assignment() == {TP0}


def test_a_new_subscription_goes_out_at_once() -> None:
    group = ReconcilingGroup(t=1, u=1)
    consumer = joined(group)
    consumer.subscribe(["t", "u"])
    before = group.cluster.clock.milliseconds()
    poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    assert group.cluster.clock.milliseconds() - before < INTERVAL_MS / 2
    assert {"names": ["t", "u"]} in [fields_of(each) for each in group.heartbeats()]


def test_the_members_own_pattern_is_matched_here_and_a_server_pattern_there() -> None:
    group = ReconcilingGroup(ta=1, tb=2, u=1)
    group.regexes["t."] = {"ta", "tb"}
    here, there = group.consumer("here"), group.consumer("there")
    here.subscribe(pattern="u|v")
    there.subscribe(pattern=SubscriptionPattern("t."))
    poll_until([here, there], lambda: len(here.assignment()) == 1 and len(there.assignment()) == 3)
    assert (here.subscription(), there.subscription()) == ({"u"}, set())
    first = {each.member_id: fields_of(each) for each in group.heartbeats() if each.member_epoch == 0}
    assert first["here"] == {"timeout": 300_000, "names": ["u"], "owned": {}}
    assert first["there"] == {"timeout": 300_000, "names": [], "regex": "t.", "owned": {}}
    group.cluster.logs["tb", 1] = batch(0, [b"a"])
    found = []
    for _ in range(20):
        found += there.poll(20)
    assert [(each.topic, each.value) for each in found] == [("tb", b"a")], "its topics are followed by their ids"


def test_a_static_member_that_returns_with_names_does_not_inherit_the_pattern_of_the_last_process() -> None:
    group = ReconcilingGroup(ta=1, u=1)
    group.regexes["t."] = {"ta"}
    last = group.consumer("last", group_instance_id="i")
    last.subscribe(pattern=SubscriptionPattern("t."))
    poll_until([last], lambda: len(last.assignment()) == 1)
    last.close()
    consumer = group.consumer("next", group_instance_id="i")
    consumer.subscribe(["u"])
    poll_until([consumer], lambda: state_of(consumer) is MemberState.STABLE)
    assert consumer.assignment() == {TopicPartition("u", 0)}
    first = next(each for each in group.heartbeats() if each.member_id == "next")
    assert (first.member_epoch, first.subscribed_topic_regex) == (0, "")


def test_a_static_member_asks_to_join_where_there_are_no_patterns() -> None:
    group = ReconcilingGroup(t=1)
    lack_patterns(group)
    consumer = group.consumer(group_instance_id="i")
    consumer.subscribe(["t"])
    poll_until([consumer], group.heartbeats)
    assert group.heartbeats()[0].subscribed_topic_regex is None


def test_a_broker_without_server_patterns_says_so() -> None:
    group = ReconcilingGroup(t=1)
    lack_patterns(group)
    consumer = group.consumer()
    consumer.subscribe(pattern=SubscriptionPattern("t.*"))
    with pytest.raises(UnsupportedVersion, match="must be upgraded to use ConsumerGroupHeartbeat API version >= 1"):
        poll_until([consumer], lambda: False)


def test_a_cluster_without_the_protocol_says_so() -> None:
    group = ReconcilingGroup(t=1)
    group.cluster.extra = tuple(each for each in group.cluster.extra if each is not ConsumerGroupHeartbeatRequest)
    consumer = group.consumer()
    consumer.subscribe(["t"])
    for _ in range(2):
        with pytest.raises(UnsupportedVersion, match="Set group_protocol=classic"):
            poll_until([consumer], lambda: False)


# -- errors


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ],
)
def test_a_member_outlives_its_coordinator(error: ErrorCode) -> None:
    group, events = ReconcilingGroup(t=1), Events()
    group.group_errors[HEARTBEAT] = [error, error, ErrorCode.NONE, ErrorCode.NONE, error]
    consumer = joined(group, events)
    poll_until([consumer], lambda: not group.group_errors[HEARTBEAT])
    poll_until([consumer], lambda: state_of(consumer) is MemberState.STABLE)
    assert events.heard == [("assigned", [TP0])]
    lookups = len(group.cluster.sent(ApiKey.FIND_COORDINATOR))
    assert (lookups == 1) is (error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_loses_its_partitions_and_joins_again(error: ErrorCode) -> None:
    group, events = ReconcilingGroup(t=2), Events()
    consumer = joined(group, events)
    group.expire("member-1")
    group.group_errors[HEARTBEAT] = [error]
    poll_until([consumer], lambda: len(events.heard) == 3)
    assert events.heard == [("assigned", [TP0, TP1]), ("lost", [TP0, TP1]), ("assigned", [TP0, TP1])]
    rejoin = [each for each in group.heartbeats() if each.member_epoch == 0][-1]
    assert rejoin.member_id == "member-1"
    assert fields_of(rejoin) == {"timeout": 300_000, "names": ["t"], "owned": {}}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_member_that_is_rejected_says_so_in_every_poll(error: ErrorCode) -> None:
    group, events = ReconcilingGroup(t=1), Events()
    consumer = joined(group, events)
    group.group_errors[HEARTBEAT] = [error]
    known = len(group.heartbeats())
    for _ in range(2):
        with pytest.raises(ApiError, match="scripted Group: g") as raised:
            poll_until([consumer], lambda: False)
        assert raised.value.code is error
    assert events.heard == [("assigned", [TP0]), ("lost", [TP0])]
    assert consumer.assignment() == set()
    consumer.close()
    assert len(group.heartbeats()) == known + 1, "the last heartbeat was the rejected one"


def test_a_missing_permission_for_a_topic_is_told_and_lived_through() -> None:
    group = ReconcilingGroup(t=1)
    consumer = joined(group)
    group.group_errors[HEARTBEAT] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError) as raised:
        poll_until([consumer], lambda: False)
    assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    poll_until([consumer], lambda: fields_of(group.heartbeats()[-1]).get("owned") == {"t": [0]})
    assert consumer.assignment() == {TP0}


def test_a_forbidden_coordinator_is_told_and_asked_again() -> None:
    group = ReconcilingGroup(t=1)
    group.group_errors[ApiKey.FIND_COORDINATOR] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    consumer = group.consumer()
    consumer.subscribe(["t"])
    with pytest.raises(ApiError):
        poll_until([consumer], lambda: False)
    poll_until([consumer], lambda: consumer.assignment() == {TP0})


# -- the user's pace


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("me", -2)])
def test_who_does_not_poll_leaves_until_the_next_poll(instance: str | None, epoch: int) -> None:
    group, events = ReconcilingGroup(t=1), Events()
    consumer = joined(group, events, max_poll_interval_ms=20_000, enable_auto_commit=False, group_instance_id=instance)
    known = len(group.heartbeats())
    channel = coordinator_of(consumer).channel
    for _ in range(40):
        group.cluster.clock.advance(1_000)
        for _ in range(3):
            channel.run_once()
    epochs = [each.member_epoch for each in group.heartbeats()[known:]]
    assert epochs == [2, 2, 2, epoch], "the heartbeats went on for 20 seconds, and then no more"
    assert state_of(consumer) is MemberState.STALE
    with pytest.raises(CommitFailed, match="not part of an active group"):
        consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    poll_until([consumer], lambda: len(events.heard) == 3)
    assert events.heard[1:] == [("lost", [TP0]), ("assigned", [TP0])]


def test_the_member_id_is_chosen_once_and_by_the_member() -> None:
    group = ReconcilingGroup(t=1)
    consumer = group.consumer("")
    consumer.subscribe(["t"])
    poll_until([consumer], consumer.assignment)
    consumer.unsubscribe()
    consumer.subscribe(["t"])
    poll_until([consumer], consumer.assignment)
    (member_id,) = {each.member_id for each in group.heartbeats()}
    assert len(member_id) == 22
    assert [each.member_epoch for each in group.heartbeats() if each.member_epoch <= 0] == [0, -1, 0]


# -- leaving


@pytest.mark.parametrize(
    ("instance", "leave_group", "expected"),
    [(None, True, [-1]), ("me", True, [-2]), (None, False, []), ("me", False, [-2])],
)
def test_a_closing_member_tells_its_coordinator(instance: str | None, leave_group: bool, expected: list[int]) -> None:
    group, events = ReconcilingGroup(t=1), Events()
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    consumer = joined(group, events, group_instance_id=instance)
    poll_until([consumer], lambda: consumer.position(TP0) == 2)
    consumer.close(leave_group=leave_group)
    assert [each.member_epoch for each in group.heartbeats() if each.member_epoch < 0] == expected
    assert group.committed == {("t", 0): 2}
    assert events.heard[1:] == ([("revoked", [TP0])] if expected else [])


@pytest.mark.parametrize(
    ("outer", "inner"), [("close", "close"), ("unsubscribe", "close"), ("unsubscribe", "unsubscribe")]
)
def test_the_listener_of_a_member_that_leaves_may_end_the_consumer(inner: str, outer: str) -> None:
    class Ending(Events):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            getattr(consumer, inner)()

    group, events = ReconcilingGroup(t=1), Ending()
    consumer = joined(group, events)
    getattr(consumer, outer)()
    coordinator_of(consumer).channel.run_once()
    assert [each.member_epoch for each in group.heartbeats() if each.member_epoch < 0] == [-1]
    assert not group.coordinator.group.members, "the others need not wait for its session to end"
    assert events.heard == [("assigned", [TP0]), ("revoked", [TP0])]
    assert (state_of(consumer), consumer.assignment()) == (MemberState.UNSUBSCRIBED, set())


def test_a_listener_that_is_interrupted_does_not_keep_the_member_in_the_group() -> None:
    class Interrupted(RebalanceListener):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            raise KeyboardInterrupt

    group = ReconcilingGroup(t=1)
    consumer = joined(group, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert not group.coordinator.group.members


@pytest.mark.parametrize("answered", [True, False])
def test_a_member_that_leaves_while_it_joins(answered: bool) -> None:
    group = ReconcilingGroup(t=1)
    group.silent.add(HEARTBEAT if answered else ApiKey.FIND_COORDINATOR)
    consumer = group.consumer()
    consumer.subscribe(["t"])
    for _ in range(5):
        consumer.poll(20)
    assert state_of(consumer) is MemberState.JOINING
    consumer.close()
    assert [each.member_epoch for each in group.heartbeats()] == ([0, -1] if answered else [])
    assert not group.coordinator.group.members


def test_a_member_whose_first_answer_was_lost_leaves_too() -> None:
    group = ReconcilingGroup(t=1)
    group.silent.add(HEARTBEAT)
    consumer = group.consumer()
    consumer.subscribe(["t"])
    for _ in range(5):
        consumer.poll(20)
    channel = coordinator_of(consumer).channel
    group.selectors["member-1"].disconnect("0")
    channel.run_once()
    lookups = len(group.cluster.sent(ApiKey.FIND_COORDINATOR))
    while len(group.cluster.sent(ApiKey.FIND_COORDINATOR)) == lookups or channel.coordinator is None:
        group.cluster.clock.advance(10)
        channel.run_once()
    assert [each.member_epoch for each in group.heartbeats()] == [0], "the next one waits for this moment"
    consumer.close()
    assert [each.member_epoch for each in group.heartbeats()] == [0, -1]
    assert not group.coordinator.group.members


# -- settings


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"session_timeout_ms": 30_000}, "session_timeout_ms cannot be set when group_protocol=CONSUMER"),
        (
            {"heartbeat_interval_ms": 100, "partition_assignment_strategy": ["range"]},
            "partition_assignment_strategy, heartbeat_interval_ms cannot be set when group_protocol=CONSUMER",
        ),
        (
            {"group_protocol": "classic", "group_remote_assignor": "range"},
            "group_remote_assignor cannot be set when group_protocol=CLASSIC",
        ),
        ({"group_protocol": "new"}, "group_protocol must be classic or consumer, not 'new'"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ConsumerConfig(**{"group_id": "g", "group_protocol": "consumer", **settings})


def test_the_classic_protocol_has_no_server_patterns() -> None:
    group = ReconcilingGroup(t=1)
    consumer = Consumer("", client=group.cluster.client(), group_id="g")
    with pytest.raises(RuntimeError, match="RE2/J pattern is not supported when using the CLASSIC protocol"):
        consumer.subscribe(pattern=SubscriptionPattern("t"))
