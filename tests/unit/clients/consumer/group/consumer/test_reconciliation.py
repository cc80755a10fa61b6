"""What a member does to reach its assignment: commits, calls the listener, waits for metadata, gives way to news."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.subscription_state import RebalanceListener, SubscriptionPattern
from barnabas.clients.errors import CommitFailed, RetriableCommitFailed
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.consumer_group_coordinator import topic_id
from tests.support.reconciling_group import INTERVAL_MS, ReconcilingGroup, coordinator_of, joined, state_of
from tests.support.scripted_cluster import TP0, TP1, batch
from tests.support.simulated_group import Events, poll_until


def second_member(group: ReconcilingGroup) -> Consumer:
    consumer = group.consumer("member-2")
    consumer.subscribe(["t"])
    return consumer


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """The values of the next records."""
    values: list[bytes | None] = []
    for _ in range(500):
        values += [record.value for record in consumer.poll(20)]
        if len(values) >= count:
            return values
    raise AssertionError(f"{len(values)} records came, not {count}")


def test_partitions_move_one_owner_at_a_time_and_their_offsets_with_them() -> None:
    group, events = ReconcilingGroup(t=2), Events()
    for partition in (0, 1):
        group.cluster.logs["t", partition] = batch(0, [b"a", b"b", b"c"])
    first = joined(group, events)
    assert len(read(first, 6)) == 6
    assert not group.committed
    second = second_member(group)
    poll_until([first, second], lambda: len(second.assignment()) == 1)
    assert events.heard == [("assigned", [TP0, TP1]), ("revoked", [TP1]), ("assigned", [])]
    assert group.committed["t", 1] == 3, "committed before it was revoked"
    poll_until([second], lambda: second.position(TP1) == 3)


def test_no_record_is_returned_between_the_commit_and_the_revocation() -> None:
    group = ReconcilingGroup(t=2)
    first = joined(group, max_poll_records=1, enable_auto_commit=True)
    group.silent.add(ApiKey.OFFSET_COMMIT)
    second = second_member(group)
    poll_until([first], lambda: first.position(TP0) == first.position(TP1) == 0)
    group.cluster.logs["t", 1] = batch(0, [b"a", b"b"])
    poll_until([first, second], lambda: group.cluster.sent(ApiKey.OFFSET_COMMIT))
    committed = group.committed["t", 1]
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    kept = [record.partition for _ in range(10) for record in first.poll(20)]
    assert kept == [0, 0], "what stays is read on"
    assert (state_of(first), first.assignment()) == (MemberState.RECONCILING, {TP0, TP1})
    group.silent.clear()
    group.selectors["member-1"].disconnect("0")
    poll_until([first, second], lambda: second.assignment() == {TP1})
    poll_until([second], lambda: second.position(TP1) >= committed)


def test_a_commit_with_a_stale_epoch_is_repeated_with_the_new_one() -> None:
    group = ReconcilingGroup(t=1)
    consumer = joined(group, enable_auto_commit=False)
    group.group_errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH]
    outcomes: list[Exception | None] = []
    consumer.commit_async({TP0: OffsetAndMetadata(1)}, lambda offsets, error: outcomes.append(error))
    poll_until([consumer], lambda: outcomes)
    assert isinstance(outcomes[0], RetriableCommitFailed)
    consumer.commit_sync({TP0: OffsetAndMetadata(2)})
    assert group.committed["t", 0] == 2
    sent = group.cluster.sent(ApiKey.OFFSET_COMMIT)[-1].body
    assert (sent.member_id, sent.generation_id_or_member_epoch) == ("member-1", 2)
    group.group_errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.UNKNOWN_MEMBER_ID]
    with pytest.raises(CommitFailed):
        consumer.commit_sync({TP0: OffsetAndMetadata(3)})
    assert state_of(consumer) is MemberState.STABLE, "only a heartbeat fences"
    assert consumer.group_metadata()[:3] == ("g", 2, "member-1")


def test_committed_offsets_are_read_as_a_member() -> None:
    group = ReconcilingGroup(t=1)
    group.committed["t", 0] = 7
    group.group_errors[ApiKey.OFFSET_FETCH] = [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID]
    consumer = joined(group)
    assert consumer.position(TP0) == 7
    (asked,) = group.cluster.sent(ApiKey.OFFSET_FETCH)[-1].body.groups
    assert (asked.member_id, asked.member_epoch) == ("member-1", 2)


def test_a_topic_that_metadata_lacks_is_waited_for() -> None:
    group, events = ReconcilingGroup(t=1), Events()
    consumer = joined(group, events)
    group.change_topics(told=False, t=1, u=1)
    consumer.subscribe(["t", "u"], listener=events)
    poll_until([consumer], lambda: state_of(consumer) is MemberState.RECONCILING)
    updates = len(group.cluster.sent(ApiKey.METADATA))
    known, started = len(group.heartbeats()), group.cluster.clock.milliseconds()
    for _ in range(30):
        consumer.poll(20)
    assert consumer.assignment() == {TP0}
    intervals = (group.cluster.clock.milliseconds() - started) / INTERVAL_MS
    assert len(group.heartbeats()) - known <= intervals + 2, "waiting for metadata is no loop of heartbeats"
    assert len(group.cluster.sent(ApiKey.METADATA)) > updates
    group.tell_topics()
    poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    assert events.heard == [("assigned", [TP0]), ("assigned", [TopicPartition("u", 0)])]
    poll_until([consumer], lambda: state_of(consumer) is MemberState.STABLE)


def test_a_new_assignment_takes_the_place_of_one_that_waits() -> None:
    group, events = ReconcilingGroup(t=2), Events()
    first = joined(group, events)
    group.silent.add(ApiKey.OFFSET_COMMIT)
    poll_until([first], lambda: first.position(TP0) == first.position(TP1) == 0)
    second = second_member(group)
    poll_until([first, second], lambda: group.cluster.sent(ApiKey.OFFSET_COMMIT))
    second.close()
    group.silent.clear()
    group.selectors["member-1"].disconnect("0")
    poll_until([first], lambda: state_of(first) is MemberState.STABLE and len(first.assignment()) == 2)
    group.cluster.logs["t", 1] = batch(0, [b"a"])
    poll_until([first], lambda: first.position(TP1) == 1)


def test_a_member_that_is_fenced_while_it_commits_loses_everything() -> None:
    group, events = ReconcilingGroup(t=2), Events()
    first = joined(group, events)
    poll_until([first], lambda: first.position(TP0) == first.position(TP1) == 0)
    group.silent.add(ApiKey.OFFSET_COMMIT)
    second = second_member(group)
    poll_until([first, second], lambda: group.cluster.sent(ApiKey.OFFSET_COMMIT))
    group.expire("member-1")
    poll_until([first, second], lambda: ("lost", [TP0, TP1]) in events.heard)
    group.silent.clear()
    group.selectors["member-1"].disconnect("0")
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 1)
    assert [kind for kind, partitions in events.heard if partitions] == ["assigned", "lost", "assigned"]


class Failing(Events):
    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        super().on_partitions_revoked(partitions)
        raise LookupError("mine")


def test_the_listeners_error_is_raised_when_the_partitions_are_in_order() -> None:
    group, events = ReconcilingGroup(t=2), Failing()
    first = joined(group, events)
    second = second_member(group)
    with pytest.raises(LookupError, match="mine"):
        poll_until([first, second], lambda: False)
    assert first.assignment() == {TP0}
    poll_until([first, second], lambda: second.assignment() == {TP1})
    assert events.heard == [("assigned", [TP0, TP1]), ("revoked", [TP1]), ("assigned", [])]
    with pytest.raises(LookupError, match="mine"):
        first.close()
    poll_until([second], lambda: len(second.assignment()) == 2)


def test_the_listener_may_end_the_subscription() -> None:
    class Leaving(RebalanceListener):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            first.unsubscribe()

    group = ReconcilingGroup(t=2)
    first = joined(group, Leaving())
    second = second_member(group)
    poll_until([second, first], lambda: not first.subscription())
    coordinator_of(first).channel.run_once()
    poll_until([second], second.assignment)
    assert first.assignment() == set()
    assert second.assignment() == {TP0, TP1}
    assert list(group.coordinator.group.members) == ["member-2"]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    group, events = ReconcilingGroup(t=1), Events()
    group.regexes["t.*"] = {"t"}
    group.cluster.logs["t", 0] = batch(0, [b"a", b"b"])
    consumer = group.consumer(enable_auto_commit=False)
    consumer.subscribe(pattern=SubscriptionPattern("t.*"), listener=events)
    poll_until([consumer], lambda: consumer.assignment() and consumer.position(TP0) == 2)
    known = len(events.heard)
    # The coordinator knows the new topic by its id only; in metadata it has the name of the old one.
    group.change_topics(told=False, t2=1)
    group.regexes["t.*"] = {"t2"}
    group.topic_ids["t"] = topic_id("t2")
    poll_until([consumer], lambda: ("revoked", [TP0]) in events.heard and consumer.assignment())
    assert [each for each in events.heard[known:] if each[1]] == [("revoked", [TP0]), ("assigned", [TP0])]
    group.cluster.logs["t", 0] = batch(0, [b"c"])
    assert read(consumer, 1) == [b"c"]


def test_heartbeats_go_on_while_the_listener_works() -> None:
    class Slow(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            for _ in range(30):
                group.cluster.clock.advance(1_000)
                coordinator_of(consumer).channel.run_once()

    group = ReconcilingGroup(t=1)
    consumer = group.consumer()
    consumer.subscribe(["t"], listener=Slow())
    poll_until([consumer], lambda: state_of(consumer) is MemberState.STABLE)
    owned = [each.topic_partitions for each in group.heartbeats()]
    assert len(owned) >= 6
    assert [each is not None for each in owned[1:-1]] == [False] * (len(owned) - 2), "it owns nothing until then"
