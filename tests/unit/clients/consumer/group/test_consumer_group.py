"""The consumer as a member of a group, on a scripted coordinator: what it does about every error, and about time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.clients.consumer.assignors.built_in import RangeAssignor
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.clients.errors import ClientTimeout, CommitFailed, RetriableCommitFailed, WokenUp
from barnabas.clients.values import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import Assignment, decode_subscription
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.scripted_cluster import TP0, TP1, batch
from tests.support.scripted_group import ScriptedGroup
from tests.support.simulated_group import Events, poll_until


def joined(group: ScriptedGroup, listener: RebalanceListener | None = None, **settings: Any) -> Consumer:
    consumer = group.consumer(**settings)
    consumer.subscribe(["t"], listener=listener)
    poll_until([consumer], lambda: consumer.group_metadata().generation_id == group.generation > 0)
    return consumer


def test_joins_with_the_id_it_is_given_and_reads_from_the_committed_offset() -> None:
    group = ScriptedGroup({"t": [0, 0]})
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    group.committed["t", 0] = (1, 0, "")
    consumer = joined(group)
    first, second = group.sent(ApiKey.JOIN_GROUP)
    assert (first.body.member_id, second.body.member_id) == ("", "member-1")
    assert second.body.reason == "need to re-join with the given member-id: member-1"
    assert decode_subscription(second.body.protocols[0].metadata).topics == ("t",)
    assert consumer.assignment() == {TP0, TP1}
    records = consumer.poll(1000)
    assert [record.value for record in records] == [b"b"]
    assert consumer.position(TP1) == 0
    assert group.sent(ApiKey.OFFSET_FETCH)[0].body.require_stable


@pytest.mark.parametrize(
    ("api_key", "error", "new_members"),
    [
        (ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 1),
        (ApiKey.JOIN_GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3),
        (ApiKey.JOIN_GROUP, ErrorCode.NOT_COORDINATOR, 3),
        (ApiKey.JOIN_GROUP, ErrorCode.REBALANCE_IN_PROGRESS, 3),
        (ApiKey.JOIN_GROUP, ErrorCode.UNKNOWN_MEMBER_ID, 3),
        (ApiKey.SYNC_GROUP, ErrorCode.REBALANCE_IN_PROGRESS, 1),
        (ApiKey.SYNC_GROUP, ErrorCode.ILLEGAL_GENERATION, 1),
        (ApiKey.SYNC_GROUP, ErrorCode.UNKNOWN_MEMBER_ID, 3),
        (ApiKey.SYNC_GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE, 1),
        (ApiKey.OFFSET_FETCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
        (ApiKey.OFFSET_FETCH, ErrorCode.NOT_COORDINATOR, 1),
    ],
)
def test_errors_that_pass_are_lived_through(api_key: ApiKey, error: ErrorCode, new_members: int) -> None:
    group = ScriptedGroup({"t": [0]})
    group.group_errors[api_key] = [error, error]
    consumer = joined(group)
    poll_until([consumer], lambda: not group.group_errors[api_key])
    assert consumer.position(TP0) == 0
    ids = [request.body.member_id for request in group.sent(ApiKey.JOIN_GROUP)]
    assert ids.count("") == new_members, "an id is kept unless the coordinator does not know it"


@pytest.mark.parametrize(
    ("api_key", "error"),
    [
        (ApiKey.FIND_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.JOIN_GROUP, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (ApiKey.JOIN_GROUP, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (ApiKey.JOIN_GROUP, ErrorCode.FENCED_INSTANCE_ID),
        (ApiKey.SYNC_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.OFFSET_FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_errors_that_stay_are_raised(api_key: ApiKey, error: ErrorCode) -> None:
    group = ScriptedGroup({"t": [0]})
    group.group_errors[api_key] = [error]
    consumer = group.consumer()
    consumer.subscribe(["t"])
    with pytest.raises(ApiError) as raised:
        poll_until([consumer], lambda: False)
    assert raised.value.code is error
    poll_until([consumer], lambda: consumer.assignment() == {TP0})  # and the next poll tries again


def test_a_rebalance_that_others_begin_is_joined() -> None:
    group, events = ScriptedGroup({"t": [0]}), Events()
    consumer = joined(group, events)
    group.group_errors[ApiKey.HEARTBEAT] = [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS]
    poll_until([consumer], lambda: group.generation == 2 and consumer.group_metadata().generation_id == 2)
    assert events.heard == [("assigned", [TP0]), ("revoked", [TP0]), ("assigned", [TP0])]
    assert group.sent(ApiKey.JOIN_GROUP)[-1].body.reason == "group is already rebalancing"


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_what_a_forgotten_member_owned_is_lost(error: ErrorCode) -> None:
    group, events = ScriptedGroup({"t": [0]}), Events()
    consumer = joined(group, events)
    group.group_errors[ApiKey.HEARTBEAT] = [error]
    poll_until([consumer], lambda: len(events.heard) == 3)
    assert events.heard == [("assigned", [TP0]), ("lost", [TP0]), ("assigned", [TP0])]
    rejoins = [request.body.member_id for request in group.sent(ApiKey.JOIN_GROUP)[2:]]
    assert rejoins == (["", "member-1"] if error is ErrorCode.UNKNOWN_MEMBER_ID else ["member-1"])


def test_a_fenced_static_member_hears_of_it() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group, group_instance_id="me")
    assert len(group.sent(ApiKey.JOIN_GROUP)) == 1
    group.group_errors[ApiKey.HEARTBEAT] = [ErrorCode.FENCED_INSTANCE_ID]
    with pytest.raises(ApiError) as raised:
        poll_until([consumer], lambda: False)
    assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID
    consumer.close()
    assert not group.sent(ApiKey.LEAVE_GROUP), "static members stay"


def test_who_does_not_poll_leaves() -> None:
    group, events = ScriptedGroup({"t": [0]}), Events()
    consumer = joined(group, events, max_poll_interval_ms=10_000, enable_auto_commit=False)
    channel = consumer._coordinator.channel  # type: ignore[union-attr]
    for _ in range(12):
        group.cluster.clock.advance(1_000)
        for _ in range(3):
            channel.run_once()
    assert len(group.sent(ApiKey.HEARTBEAT)) == 3, "the heartbeats went on until then"
    (left,) = group.sent(ApiKey.LEAVE_GROUP)
    assert left.body.members[0].reason == "consumer poll timeout has expired."
    with pytest.raises(CommitFailed, match="not part of an active group"):
        consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    poll_until([consumer], lambda: len(events.heard) == 3)
    assert events.heard[1:] == [("lost", [TP0]), ("assigned", [TP0])]


def test_a_silent_coordinator_is_looked_for_anew() -> None:
    group = ScriptedGroup({"t": [0]}, brokers=2)
    consumer = joined(group, session_timeout_ms=10_000)
    group.silent.add(ApiKey.HEARTBEAT)
    group.coordinator = 1
    poll_until([consumer], lambda: len(group.sent(ApiKey.FIND_COORDINATOR)) == 2, 700)
    group.silent.clear()
    poll_until([consumer], lambda: group.sent(ApiKey.HEARTBEAT)[-1].connection_id == "1")
    assert group.generation == 1, "a member stays one while it looks"


def test_a_lost_connection_fails_what_was_on_it() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group, enable_auto_commit=False)
    group.silent.add(ApiKey.OFFSET_COMMIT)
    outcomes: list[Exception | None] = []
    consumer.commit_async({TP0: OffsetAndMetadata(1)}, lambda offsets, error: outcomes.append(error))
    consumer.poll(40)
    group.group_selector.disconnect("0")
    poll_until([consumer], lambda: outcomes)
    assert isinstance(outcomes[0], RetriableCommitFailed)
    group.silent.clear()
    consumer.commit_sync({TP0: OffsetAndMetadata(2, "again")})
    assert group.committed["t", 0] == (2, -1, "again")


def test_commits_by_itself_every_interval_and_before_a_rebalance_and_at_the_end() -> None:
    group = ScriptedGroup({"t": [0]})
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b", b"c", b"d"])
    consumer = joined(group, max_poll_records=1, auto_commit_interval_ms=5_000)
    poll_until([consumer], lambda: consumer.assignment() and consumer.position(TP0) == 1)
    assert not group.committed
    group.cluster.clock.advance(5_000)
    assert len(consumer.poll(20)) == 1
    consumer.pause([TP0])
    poll_until([consumer], lambda: group.committed)
    assert group.committed["t", 0][0] == 1, "what the poll before had returned"
    consumer.resume([TP0])
    poll_until([consumer], lambda: consumer.position(TP0) == 3)
    consumer.enforce_rebalance("mine")
    poll_until([consumer], lambda: consumer.group_metadata().generation_id == 2)
    assert group.committed["t", 0][0] == 3
    assert group.sent(ApiKey.JOIN_GROUP)[-1].body.reason == "mine"
    poll_until([consumer], lambda: consumer.assignment() and consumer.position(TP0) == 4)
    consumer.close()
    assert group.committed["t", 0][0] == 4


def test_a_consumer_that_an_exception_ends_commits_nothing_more_and_leaves() -> None:
    group, events = ScriptedGroup({"t": [0]}), Events()
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b", b"c"])
    committed: list[object] = []

    def work() -> None:
        with joined(group, events, max_poll_records=1) as consumer:
            poll_until([consumer], lambda: consumer.assignment() and consumer.position(TP0) == 1)
            consumer.commit_async(callback=lambda offsets, error: committed.append((offsets[TP0].offset, error)))
            consumer.poll(1_000)
            assert consumer.position(TP0) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert group.committed["t", 0][0] == 1, "the second record may not have been worked on"
    assert committed == [(1, None)], "the answer to the user's own commit is awaited"
    assert events.heard[-1] == ("revoked", [TP0])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, ApiError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ApiError),
        (ErrorCode.REBALANCE_IN_PROGRESS, ApiError),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailed),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailed),
    ],
)
def test_commits_that_cannot_be_tell_why(error: ErrorCode, expected: type[Exception]) -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group, enable_auto_commit=False)
    group.group_errors[ApiKey.OFFSET_COMMIT] = [error]
    with pytest.raises(expected) as raised:
        consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    if isinstance(raised.value, ApiError):
        assert raised.value.code is error
    is_rejoining = error in {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
    if is_rejoining:
        poll_until([consumer], lambda: consumer.group_metadata().generation_id == 2)
    consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    assert group.generation == 1 + is_rejoining


def test_commits_are_tried_again_until_the_time_is_over() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group, enable_auto_commit=False)
    group.group_errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    assert group.committed["t", 0][0] == 1
    group.silent.add(ApiKey.OFFSET_COMMIT)
    with pytest.raises(ClientTimeout):
        consumer.commit_sync({TP0: OffsetAndMetadata(2)}, timeout_ms=500)


def test_an_assigned_consumer_commits_without_a_generation() -> None:
    group = ScriptedGroup({"t": [0, 0]})
    group.committed["t", 1] = (7, -1, "")
    consumer = group.consumer()
    consumer.assign([TP0, TP1])
    assert consumer.position(TP0) == 0
    assert consumer.position(TP1) == 7
    consumer.commit_sync()
    (request,) = group.sent(ApiKey.OFFSET_COMMIT)
    assert (request.body.generation_id_or_member_epoch, request.body.member_id) == (-1, "")
    assert not group.sent(ApiKey.JOIN_GROUP)


def test_wakeup_ends_one_call_and_the_join_goes_on() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = group.consumer()
    consumer.subscribe(["t"])
    consumer.wakeup()
    with pytest.raises(WokenUp):
        consumer.poll(10_000)
    poll_until([consumer], lambda: consumer.assignment() == {TP0})
    assert group.generation == 1


def test_topics_that_grow_or_match_are_joined_for() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = group.consumer(metadata_max_age_ms=1_000)
    consumer.subscribe(pattern="t.*")
    poll_until([consumer], lambda: consumer.assignment() == {TP0})
    group.cluster.topics["t"] = [0, 0]
    group.cluster.topics["two"] = [0]
    group.cluster.topics["other"] = [0]
    consumer._client.metadata.request_update()
    poll_until([consumer], lambda: consumer.assignment() == {TP0, TP1, TopicPartition("two", 0)})
    assert consumer.subscription() == {"t", "two"}


def test_a_committed_offset_from_before_a_rebalance_is_not_begun_at() -> None:
    group = ScriptedGroup({"t": [0]})
    group.committed["t", 0] = (1, -1, "")
    consumer = group.consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    while not group.sent(ApiKey.OFFSET_FETCH):
        consumer.poll(0)  # the answer has come, and nobody has looked at it
    consumer.enforce_rebalance()
    group.committed["t", 0] = (50, -1, "")  # by another one, who owned the partition in between
    poll_until([consumer], lambda: consumer.group_metadata().generation_id == 2)
    assert consumer.position(TP0) == 50


def test_who_leaves_in_a_rebalance_commits_what_was_read_in_it() -> None:
    group = ScriptedGroup({"t": [0]})
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    events = Events()
    consumer = joined(group, events, partition_assignment_strategy=["cooperative-sticky"], max_poll_records=1)
    poll_until([consumer], lambda: consumer.position(TP0) == 1)
    consumer.enforce_rebalance()
    while len(group.sent(ApiKey.JOIN_GROUP)) < 3:
        consumer.poll(0)
    assert (group.generation, consumer.position(TP0)) == (2, 2), "read on while it joins"
    assert group.committed["t", 0][0] == 1
    consumer.close()
    assert group.committed["t", 0][0] == 2
    assert events.heard[-1] == ("revoked", [TP0]), "not lost: the listener may commit as well"


def test_a_callback_that_fails_keeps_nothing_else_from_its_turn() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group)
    told: list[int] = []

    def fail(offsets: object, error: Exception | None) -> None:
        told.append(1)
        raise ZeroDivisionError

    consumer.commit_async({TP0: OffsetAndMetadata(1)}, fail)
    consumer.commit_async({TP0: OffsetAndMetadata(2)}, lambda offsets, error: told.append(2))
    consumer._client.poll(0)  # both are answered
    consumer.seek(TP0, 3)
    consumer._coordinator.offsets.automatic.commit_revoked({TP0})  # type: ignore[union-attr] # in the middle of a rebalance
    assert not told
    with pytest.raises(ZeroDivisionError):
        consumer.poll(0)
    consumer.poll(0)
    assert told == [1, 2]
    assert group.committed["t", 0][0] == 3


def test_an_assignor_that_fails_does_not_keep_the_assignment_from_being_taken_over() -> None:
    class Failing(RangeAssignor):
        def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
            raise ZeroDivisionError

    consumer = ScriptedGroup({"t": [0]}).consumer(partition_assignment_strategy=[Failing()])
    consumer.subscribe(["t"])
    with pytest.raises(ZeroDivisionError):
        poll_until([consumer], lambda: False)
    assert consumer.assignment() == {TP0}


def test_who_leaves_without_a_generation_says_so_too() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = joined(group, enable_auto_commit=False)
    group.group_errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.ILLEGAL_GENERATION]
    with pytest.raises(CommitFailed):
        consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    consumer.unsubscribe()
    consumer.committed([TP0])  # goes over the same connection
    (left,) = group.sent(ApiKey.LEAVE_GROUP)
    assert left.body.members[0].member_id == "member-1"


def test_who_leaves_before_the_coordinator_is_found_does_not_join_afterwards() -> None:
    group = ScriptedGroup({"t": [0]})
    group.group_errors[ApiKey.FIND_COORDINATOR] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4
    consumer = group.consumer()
    consumer.subscribe(["t"])
    consumer.poll(20)
    consumer.unsubscribe()
    consumer.commit_sync({TP0: OffsetAndMetadata(1)})
    assert group.committed["t", 0][0] == 1, "the coordinator was found"
    assert not group.sent(ApiKey.JOIN_GROUP)


def test_the_listener_of_a_member_that_leaves_may_unsubscribe_too() -> None:
    class Ending(Events):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            consumer.unsubscribe()

    group, events = ScriptedGroup({"t": [0]}), Ending()
    consumer = joined(group, events)
    heard = len(events.heard)
    consumer.unsubscribe()
    consumer.committed([TP0])  # goes over the same connection
    assert events.heard[heard:] == [("revoked", [TP0])]
    assert len(group.sent(ApiKey.LEAVE_GROUP)) == 1
    assert consumer.assignment() == set()


def test_a_close_does_not_wait_for_a_coordinator_that_has_nothing_to_hear() -> None:
    waited = []
    for is_member in (True, False):
        group = ScriptedGroup({"t": [0]})
        group.silent.add(ApiKey.FIND_COORDINATOR)
        consumer = group.consumer()
        if is_member:
            consumer.subscribe(["t"])
        else:
            consumer.assign([TP0])
        consumer.poll(20)
        channel = consumer._coordinator.channel  # type: ignore[union-attr]
        assert channel._waiting, "JoinGroup, or OffsetFetch"
        consumer.close()
        waited.append(channel._is_running())
    assert waited == [False, False]


def test_a_topic_that_may_not_be_read_does_not_stop_the_others() -> None:
    group = ScriptedGroup({"t": [0]})
    group.cluster.logs["t", 0] = batch(0, [b"a"])
    group.cluster.topics["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    consumer = group.consumer()
    consumer.subscribe(["t", "secret"])
    outcomes: list[Any] = []
    for _ in range(100):
        try:
            outcomes += [record.value for record in consumer.poll(20)]
        except ApiError as error:
            outcomes.append(error.code)
    assert outcomes[0] is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert outcomes[-1] == b"a", "a caller who goes on gets what may be read"
    assert len(outcomes) <= 1 + len(group.sent(ApiKey.METADATA)), "once for each answer"


def test_choices_exclude_each_other_and_need_a_group() -> None:
    group = ScriptedGroup({"t": [0]})
    consumer = group.consumer()
    consumer.subscribe(["t"])
    with pytest.raises(RuntimeError, match="mutually exclusive"):
        consumer.assign([TP0])
    with pytest.raises(RuntimeError, match="mutually exclusive"):
        consumer.subscribe(pattern="t")
    consumer.unsubscribe()
    consumer.assign([TP0])
    with pytest.raises(TypeError):
        consumer.subscribe("t")
    alone = ScriptedGroup({"t": [0]}).cluster.client()
    lonely = Consumer("", client=alone)
    for call in (lonely.commit_sync, lonely.commit_async, lonely.group_metadata):
        with pytest.raises(ValueError, match="must provide a valid group_id"):
            call()
