"""Commits, fetches and deletions of offsets, over a real log with and without other replicas."""

from __future__ import annotations

import pytest

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.offsets import offset_service
from barnabas.coordinator.group.offsets.offset_terms import CommitTerms, FetchedOffset, OffsetFetchTerms
from barnabas.coordinator.group.offsets_topic import CommittedOffset, OffsetCommitKey, committed_offset
from barnabas.coordinator.runtime.record import decode_record
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND
from barnabas.runtime.lock_order import check_no_lock_held
from tests.unit.coordinator.group.offset_harness import GROUP, GroupBroker, to_commit, with_member
from tests.unit.replica.replica_harness import ANOTHER, US

NONE = ErrorCode.NONE


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


def test_a_commit_is_in_the_log_and_can_be_fetched(broker: GroupBroker) -> None:
    assert broker.commit(("t", 1, 7), ("u", 0, 8), metadata="here") == [[NONE, NONE]]
    assert broker.committed() == {("t", 1): 7, ("u", 0): 8}
    now_ms = broker.clock.milliseconds()
    keys = [decode_record(OffsetCommitKey, key) for key, _ in broker.records()]
    assert [(key.group, key.topic, key.partition) for key in keys] == [(GROUP, "t", 1), (GROUP, "u", 0)]
    assert [committed_offset(value or b"") for _, value in broker.records()] == [
        (7, -1, "here", now_ms, -1),
        (8, -1, "here", now_ms, -1),
    ]
    assert broker.offsets.committed_count == 2


def test_fetch_answers_in_the_order_of_the_question_and_knows_what_is_not_committed(broker: GroupBroker) -> None:
    broker.commit(("t", 1, 7))
    found = broker.offsets.fetch_offsets(OffsetFetchTerms(GROUP, [("x", [3]), ("t", [2, 1])]))
    assert found == (NONE, [("x", [FetchedOffset(3)]), ("t", [FetchedOffset(2), FetchedOffset(1, 7)])])
    unknown = broker.offsets.fetch_offsets(OffsetFetchTerms("nobody", [("t", [0])]))
    assert unknown == (NONE, [("t", [FetchedOffset(0)])])
    assert broker.offsets.fetch_offsets(OffsetFetchTerms("nobody", None)) == (NONE, [])


def test_what_was_committed_is_decoded_without_the_lock(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(value: bytes) -> CommittedOffset:
        check_no_lock_held("decoding an offset")
        return committed_offset(value)

    broker.commit(("t", 1, 7))
    monkeypatch.setattr(offset_service, "committed_offset", decoded)
    assert broker.committed() == {("t", 1): 7}
    found = broker.offsets.fetch_offsets(OffsetFetchTerms(GROUP, [("t", [1])], require_stable=True))
    assert found == (NONE, [("t", [FetchedOffset(1, 7)])])


def test_who_does_not_coordinate_says_so() -> None:
    broker = GroupBroker(lead=False)
    assert broker.commit(("t", 0, 1)) == [[ErrorCode.NOT_COORDINATOR]]
    assert broker.offsets.fetch_offsets(OffsetFetchTerms(GROUP, None)).error is ErrorCode.NOT_COORDINATOR
    broker.partitions.stop()
    assert broker.commit(("t", 0, 1)) == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]


def test_metadata_has_a_limit_in_utf_16_units() -> None:
    broker = GroupBroker(max_metadata_size=4)
    refused, fine = ErrorCode.OFFSET_METADATA_TOO_LARGE, NONE
    assert broker.commit(("t", 0, 1), metadata="abcde") == [[refused]]
    assert broker.commit(("t", 0, 1), metadata="\N{SNOWMAN}" * 4) == [[fine]]
    assert broker.commit(("t", 0, 1), metadata="\N{GRINNING FACE}" * 3) == [[refused]]
    answers: list[object] = []
    offsets = [*to_commit(("t", 0, 5), metadata="abcde"), *to_commit(("t", 1, 6), metadata="ab")]
    assert broker.offsets.commit_offsets(CommitTerms(GROUP, "", None, -1), offsets, answers.append) == [refused, fine]
    assert answers == []
    assert broker.committed() == {("t", 0): 1, ("t", 1): 6}


def test_metadata_that_no_record_can_hold_is_refused_whatever_the_setting() -> None:
    broker = GroupBroker(max_metadata_size=1_000_000)
    assert broker.commit(("t", 0, 1), metadata="ü" * 20_000) == [[ErrorCode.OFFSET_METADATA_TOO_LARGE]]
    assert broker.commit(("t", 0, 1), metadata="u" * 20_000) == [[NONE]]


def test_members_commit_in_their_generation_only(broker: GroupBroker) -> None:
    assert broker.commit(("t", 0, 1), member="m", generation=1) == [[ErrorCode.ILLEGAL_GENERATION]]
    assert broker.table.get(GROUP) is None
    with_member(broker)
    assert broker.commit(("t", 0, 1), member="m", generation=1) == [[NONE]]
    assert broker.commit(("t", 0, 2), member="m", generation=2) == [[ErrorCode.ILLEGAL_GENERATION]]
    assert broker.commit(("t", 0, 2), member="other", generation=1) == [[ErrorCode.UNKNOWN_MEMBER_ID]]
    assert broker.commit(("t", 0, 2)) == [[ErrorCode.UNKNOWN_MEMBER_ID]]
    assert broker.committed() == {("t", 0): 1}


def test_a_commit_is_a_heartbeat(broker: GroupBroker) -> None:
    with_member(broker)
    group = broker.table.get(GROUP)
    assert group is not None
    assert isinstance(group.membership, ClassicGroup)
    session = group.membership.members.by_id["m"].session
    before_ns = session.expires_ns
    broker.clock.advance(9_000)
    broker.commit(("t", 0, 1), member="m", generation=2)
    assert session.expires_ns == before_ns
    broker.commit(("t", 0, 1), member="m", generation=1)
    assert session.expires_ns == before_ns + 9_000 * NANOSECONDS_PER_MILLISECOND


def test_a_commit_is_seen_when_all_replicas_have_it() -> None:
    broker = GroupBroker(lead=False)
    broker.lead(isr=(US, ANOTHER))
    first = broker.commit(("t", 0, 1))
    second = broker.commit(("t", 0, 2), ("u", 0, 2))
    assert (first, second) == ([], [])
    assert broker.committed() == {}
    group = broker.table.get(GROUP)
    assert group is not None
    assert not group.offsets.is_empty
    assert group.offsets.is_waiting("t", 0)
    broker.follow()
    assert (first, second) == ([[NONE]], [[NONE, NONE]])
    assert broker.committed() == {("t", 0): 2, ("u", 0): 2}
    assert not group.offsets.is_waiting("t", 0)


def test_a_commit_that_replicas_do_not_get_in_time_has_not_happened() -> None:
    broker = GroupBroker(lead=False, commit_timeout_ms=100)
    broker.lead(isr=(US, ANOTHER))
    answer = broker.commit(("t", 0, 1))
    broker.replicas.pass_time(101)
    assert answer == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert broker.committed() == {}


def test_a_leader_that_is_one_no_more_tells_who_waits() -> None:
    broker = GroupBroker(lead=False)
    broker.lead(isr=(US, ANOTHER))
    answer = broker.commit(("t", 0, 1))
    broker.replicas.lead(
        GROUP_METADATA_TOPIC, broker.partitions.partition_for(GROUP), leader=ANOTHER, leader_epoch=1, isr=(US, ANOTHER)
    )
    assert answer == [[ErrorCode.NOT_COORDINATOR]]


def test_what_the_log_refuses_is_not_committed(broker: GroupBroker) -> None:
    broker.replicas.stop(GROUP_METADATA_TOPIC, broker.partitions.partition_for(GROUP))
    assert broker.commit(("t", 0, 1)) == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]
    assert broker.committed() == {}


def test_one_acknowledgement_does_not_wait_for_replicas() -> None:
    broker = GroupBroker(lead=False, commit_required_acks=1)
    broker.lead(isr=(US, ANOTHER))
    assert broker.commit(("t", 0, 1)) == [[NONE]]
    assert broker.committed() == {("t", 0): 1}


def test_a_retention_without_end(broker: GroupBroker) -> None:
    """Found by fuzzing."""
    assert broker.commit(("t", 0, 1), retention_ms=2**63 - 1) == [[NONE]]


def test_an_offset_with_a_retention_of_its_own_is_written_in_the_version_that_can_say_it(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), retention_ms=1000)
    ((_, value),) = broker.records()
    now_ms = broker.clock.milliseconds()
    assert value is not None
    assert value[:2] == b"\x00\x01"
    assert committed_offset(value) == (1, -1, "", now_ms, now_ms + 1000)


def test_offsets_are_deleted_with_tombstones_and_the_group_with_the_last(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), ("t", 1, 2))
    answers: list[object] = []

    def answered(*answer: object) -> None:
        answers.append(answer)

    broker.offsets.delete_offsets(GROUP, [("t", 0), ("t", 5)], answered)
    assert answers == [(NONE, [NONE, NONE])]
    assert broker.committed() == {("t", 1): 2}
    assert [value is None for _, value in broker.records()] == [False, False, True]
    broker.offsets.delete_offsets(GROUP, [("t", 1)], answered)
    assert broker.table.get(GROUP) is None
    broker.offsets.delete_offsets(GROUP, [("t", 1)], answered)
    assert answers[2] == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_offsets_of_topics_that_members_read_stay(broker: GroupBroker) -> None:
    member = with_member(broker)
    broker.commit(("read", 0, 1), ("other", 0, 1), member=member, generation=1)
    answers: list[object] = []
    broker.offsets.delete_offsets(GROUP, [("read", 0), ("other", 0)], lambda *answer: answers.append(answer))
    assert answers == [(NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE])]
    assert broker.committed() == {("read", 0): 1}


def test_nothing_is_deleted_while_members_of_another_kind_are_there(broker: GroupBroker) -> None:
    with_member(broker)
    group = broker.table.get(GROUP)
    assert group is not None
    membership = group.membership
    assert isinstance(membership, ClassicGroup)
    membership.kind = "connect"
    answers: list[object] = []
    broker.offsets.delete_offsets(GROUP, [("t", 0)], lambda *answer: answers.append(answer))
    assert answers == [(ErrorCode.NON_EMPTY_GROUP, [])]


def test_an_open_transaction_makes_its_partitions_unstable(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), ("t", 1, 1))
    group = broker.table.get(GROUP)
    assert group is not None
    group.offsets.put_transactional(9, {"t": {0: group.offsets.of_topic("t")[0]}}, 100)
    stable = OffsetFetchTerms(GROUP, [("t", [0, 1])], require_stable=True)
    unstable = FetchedOffset(0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert broker.offsets.fetch_offsets(stable).topics == [("t", [unstable, FetchedOffset(1, 1)])]
    assert broker.committed() == {("t", 0): 1, ("t", 1): 1}


def test_a_deletion_that_lies_behind_a_waiting_commit_in_the_log_counts() -> None:
    broker = GroupBroker(lead=False)
    broker.lead(isr=(US, ANOTHER))
    broker.commit(("t", 0, 1), ("t", 1, 1))
    broker.follow()
    waiting = broker.commit(("t", 0, 2))
    answers: list[object] = []
    broker.offsets.delete_offsets(GROUP, [("t", 0)], lambda *answer: answers.append(answer))
    later = broker.commit(("t", 1, 3))
    broker.follow()
    assert (waiting, answers, later) == ([[NONE]], [(NONE, [NONE])], [[NONE]])
    assert broker.committed() == {("t", 1): 3}
    assert broker.restarted().committed() == {("t", 1): 3}
