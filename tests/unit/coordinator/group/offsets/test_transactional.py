"""Offsets that are committed in transactions, over a real log: invisible until the marker, fenced, loaded, deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.group.group_loading import PartitionLoader
from barnabas.coordinator.group.group_table import EndedGroupTransaction
from barnabas.coordinator.group.offsets.offset_terms import CommitTerms, OffsetFetchTerms
from barnabas.coordinator.group.offsets.transactional import CommittingProducer
from barnabas.protocol.errors import ErrorCode
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.runtime.lock_order import check_no_lock_held
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_environment import LogManagerConfig
from tests.unit.coordinator.group.offset_harness import GROUP, GroupBroker, to_commit, with_member
from tests.unit.replica.replica_harness import ANOTHER, US
from tests.unit.storage.log_harness import Broker

NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
Place = tuple[str, int]


def commit(
    broker: GroupBroker,
    producer_id: int,
    *offsets: tuple[str, int, int],
    epoch: int = 0,
    group: str = GROUP,
    member: str = "",
    instance: str | None = None,
    generation: int = -1,
    metadata: str = "",
) -> list[Sequence[ErrorCode]]:
    """Commit (topic, partition, offset) in a transaction; the answer appears in what is returned."""
    answers: list[Sequence[ErrorCode]] = []

    def answered(errors: Sequence[ErrorCode]) -> None:
        check_no_lock_held("answering")
        answers.append(errors)

    terms = CommitTerms(group, member, instance, generation)
    wanted = to_commit(*offsets, metadata=metadata)
    broker.transactional.commit_offsets(terms, CommittingProducer(producer_id, epoch), wanted, answered)
    broker.replicas.actions.run_all()
    return answers


def mark(
    broker: GroupBroker, producer_id: int, *, commits: bool, epoch: int = 0, group: str = GROUP
) -> EndedGroupTransaction:
    """Append the marker to the group's partition; what the handler tells when the replicas have it."""
    marker = EndTransactionMarker(not commits, 0, 1_700_000_000_000).batch(producer_id, epoch)
    info = broker.log(group).append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
    return EndedGroupTransaction(producer_id, commits, info.first_offset)


def end(broker: GroupBroker, producer_id: int, *, commits: bool, epoch: int = 0, group: str = GROUP) -> None:
    ended = mark(broker, producer_id, commits=commits, epoch=epoch, group=group)
    broker.transactional.end_transaction(broker.partitions.partition_for(group), ended)


def stable(broker: GroupBroker, *places: Place, group: str = GROUP) -> list[int | ErrorCode]:
    """Each offset as a reader sees it that requires stable ones."""
    wanted = [(topic, [partition]) for topic, partition in places]
    found = broker.offsets.fetch_offsets(OffsetFetchTerms(group, wanted, require_stable=True))
    return [each.error or each.offset for _, offsets in found.topics for each in offsets]


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


def test_offsets_count_when_the_transaction_commits(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1), ("t", 1, 1))
    assert commit(broker, 7, ("t", 0, 5), ("u", 0, 6)) == [[NONE, NONE]]
    assert broker.committed() == {("t", 0): 1, ("t", 1): 1}
    assert stable(broker, ("t", 0), ("t", 1), ("u", 0)) == [UNSTABLE, 1, UNSTABLE]
    end(broker, 7, commits=True)
    assert broker.committed() == {("t", 0): 5, ("t", 1): 1, ("u", 0): 6}
    assert stable(broker, ("t", 0), ("t", 1), ("u", 0)) == [5, 1, 6]
    assert broker.offsets.committed_count == 4


def test_offsets_of_an_aborted_transaction_are_dropped(broker: GroupBroker) -> None:
    broker.commit(("t", 0, 1))
    commit(broker, 7, ("t", 0, 5))
    end(broker, 7, commits=False)
    assert stable(broker, ("t", 0)) == [1]
    end(broker, 7, commits=True)
    assert stable(broker, ("t", 0)) == [1], "a marker without commits changes nothing"


def test_a_transaction_may_commit_for_several_groups(broker: GroupBroker) -> None:
    groups = [f"group-{number}" for number in range(8)]
    for number, group in enumerate(groups):
        assert commit(broker, 7, ("t", 0, number), group=group) == [[NONE]]
        assert commit(broker, 8, ("t", 1, number), group=group) == [[NONE]]
    first = broker.partitions.partition_for(groups[0])
    end(broker, 7, commits=True, group=groups[0])
    for number, group in enumerate(groups):
        is_ended = broker.partitions.partition_for(group) == first
        assert stable(broker, ("t", 0), ("t", 1), group=group) == [number if is_ended else UNSTABLE, UNSTABLE]
    assert 1 < len([group for group in groups if broker.partitions.partition_for(group) == first]) < len(groups)


def test_a_late_marker_leaves_the_next_transaction_alone(broker: GroupBroker) -> None:
    """Its request was repeated, and answered, before the first one came to the groups."""
    commit(broker, 7, ("t", 0, 5))
    first, again = mark(broker, 7, commits=False), mark(broker, 7, commits=False)
    partition = broker.partitions.partition_for(GROUP)
    broker.transactional.end_transaction(partition, again)
    commit(broker, 7, ("t", 0, 9))
    broker.transactional.end_transaction(partition, first)
    assert stable(broker, ("t", 0)) == [UNSTABLE]
    end(broker, 7, commits=True)
    assert stable(broker, ("t", 0)) == [9]


def test_a_later_plain_commit_is_not_undone(broker: GroupBroker) -> None:
    commit(broker, 7, ("t", 0, 5))
    broker.commit(("t", 0, 6))
    end(broker, 7, commits=True)
    assert broker.committed() == {("t", 0): 6}
    assert broker.restarted().committed() == {("t", 0): 6}


def test_old_epochs_of_the_producer_are_fenced(broker: GroupBroker) -> None:
    assert commit(broker, 7, ("t", 0, 1), epoch=2) == [[NONE]]
    assert commit(broker, 7, ("t", 0, 9), epoch=1) == [[ErrorCode.INVALID_PRODUCER_EPOCH]]
    end(broker, 7, commits=True, epoch=2)
    assert broker.committed() == {("t", 0): 1}


def test_only_a_verified_transaction_commits() -> None:
    broker = GroupBroker(Broker(manager_config=LogManagerConfig()))
    assert commit(broker, 7, ("t", 0, 1)) == [[ErrorCode.INVALID_TXN_STATE]]
    assert stable(broker, ("t", 0)) == [-1]
    verification = broker.log().producers.begin_verification(7, 0, -1)
    broker.log().producers.end_verification(7, 0, verification)
    assert commit(broker, 7, ("t", 0, 1)) == [[NONE]]
    assert stable(broker, ("t", 0)) == [UNSTABLE]


def test_members_are_checked_when_they_are_named(broker: GroupBroker) -> None:
    assert commit(broker, 7, ("t", 0, 1), member="m", generation=1) == [[ErrorCode.ILLEGAL_GENERATION]]
    assert broker.table.get(GROUP) is None
    with_member(broker)
    assert commit(broker, 7, ("t", 0, 1), member="m", generation=1) == [[NONE]]
    assert commit(broker, 7, ("t", 0, 2), member="m", generation=2) == [[ErrorCode.ILLEGAL_GENERATION]]
    assert commit(broker, 7, ("t", 0, 2), member="other", generation=1) == [[ErrorCode.UNKNOWN_MEMBER_ID]]
    assert commit(broker, 7, ("t", 0, 2), instance="unknown") == [[ErrorCode.UNKNOWN_MEMBER_ID]]
    assert commit(broker, 7, ("t", 0, 3)) == [[NONE]], "producers before v3 name no member"
    end(broker, 7, commits=True)
    assert broker.committed() == {("t", 0): 3}


def test_groups_elsewhere_and_without_a_name() -> None:
    broker = GroupBroker(lead=False)
    assert commit(broker, 7, ("t", 0, 1)) == [[ErrorCode.NOT_COORDINATOR]]
    assert commit(broker, 7, ("t", 0, 1), group="") == [[ErrorCode.INVALID_GROUP_ID]]


def test_metadata_that_is_too_large_fails_alone() -> None:
    broker = GroupBroker(max_metadata_size=4)
    assert commit(broker, 7, ("t", 0, 1), metadata="abcde") == [[ErrorCode.OFFSET_METADATA_TOO_LARGE]]
    assert stable(broker, ("t", 0)) == [-1]


def test_a_commit_waits_for_the_replicas_and_stays_when_they_do_not_come() -> None:
    broker = GroupBroker(lead=False)
    broker.replicas.brokers_alive(US, ANOTHER)
    broker.lead(isr=(US, ANOTHER))
    answers = commit(broker, 7, ("t", 0, 5))
    assert (answers, stable(broker, ("t", 0))) == ([], [UNSTABLE])
    broker.follow()
    broker.replicas.actions.run_all()
    assert answers == [[NONE]]
    late = commit(broker, 7, ("t", 1, 6))
    broker.replicas.pass_time(60_000)
    assert late == [[ErrorCode.REQUEST_TIMED_OUT]]
    # The records are in the log: the next coordinator lets them count as well when the marker says so.
    end(broker, 7, commits=True)
    assert broker.committed() == {("t", 0): 5, ("t", 1): 6}


def test_a_group_with_an_open_transaction_is_kept_and_its_offsets_can_be_deleted(broker: GroupBroker) -> None:
    commit(broker, 7, ("t", 0, 5), ("t", 1, 5))
    broker.clock.advance(10 * 24 * 3600 * 1000)
    broker.expiry.expire()
    broker.scheduler.tick()
    assert stable(broker, ("t", 0)) == [UNSTABLE]
    answers: list[object] = []
    broker.offsets.delete_offsets(GROUP, [("t", 0)], lambda error, errors: answers.append((error, errors)))
    assert answers == [(NONE, [NONE])]
    assert stable(broker, ("t", 0), ("t", 1)) == [-1, UNSTABLE]
    end(broker, 7, commits=True)
    assert broker.committed() == {("t", 1): 5}


# -- another coordinator


def test_the_next_coordinator_goes_on_with_open_transactions(broker: GroupBroker) -> None:
    commit(broker, 7, ("t", 0, 5))
    commit(broker, 8, ("t", 1, 6))
    again = broker.restarted()
    assert stable(again, ("t", 0), ("t", 1)) == [UNSTABLE, UNSTABLE]
    end(again, 7, commits=True)
    end(again, 8, commits=False)
    assert stable(again, ("t", 0), ("t", 1)) == [5, -1]


def test_a_coordinator_that_is_none_any_more_forgets_them(broker: GroupBroker) -> None:
    commit(broker, 7, ("t", 0, 5))
    partition = broker.partitions.partition_for(GROUP)
    ended = mark(broker, 7, commits=True)
    broker.loader.unload(partition, 1)
    broker.transactional.end_transaction(partition, ended)
    assert broker.environment.open_transactions.groups_of(partition, 7) == set()


@pytest.mark.interpreted
def test_a_marker_that_comes_while_its_partition_is_loaded(
    broker: GroupBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader has looked up the end of the log before the marker is written."""
    commit(broker, 7, ("t", 0, 5))
    commit(broker, 8, ("t", 1, 6))
    partition = broker.partitions.partition_for(GROUP)
    load = PartitionLoader.load

    def interrupted(loader: PartitionLoader, number: int, leader_epoch: int) -> Iterator[None]:
        steps = load(loader, number, leader_epoch)
        if number != partition:
            yield from steps
            return
        yield next(steps)
        coordinator = coordinators[-1]
        coordinator.transactional.end_transaction(partition, mark(coordinator, 7, commits=True))
        yield from steps

    coordinators: list[GroupBroker] = []
    made = GroupBroker.lead

    def leads(coordinator: GroupBroker, **terms: Any) -> None:
        coordinators.append(coordinator)
        made(coordinator, **terms)

    monkeypatch.setattr(PartitionLoader, "load", interrupted)
    monkeypatch.setattr(GroupBroker, "lead", leads)
    again = broker.restarted()
    assert stable(again, ("t", 0), ("t", 1)) == [5, UNSTABLE]


# -- any order


STEPS = st.tuples(
    st.sampled_from(["in transaction", "in transaction", "plain", "commit", "abort", "restart"]),
    st.integers(0, 2),  # producer
    st.integers(0, 2),  # partition
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_offsets_are_those_of_a_plain_reading_of_the_log(steps: list[tuple[str, int, int]]) -> None:
    """The model applies each commit at its place in the log when the transaction commits."""
    broker = GroupBroker()
    counts: dict[Place, tuple[int, int]] = {}  # the place in the log, and the offset
    pending: dict[int, dict[Place, tuple[int, int]]] = {}
    for number, (kind, producer, partition) in enumerate(steps):
        place = ("t", partition)
        if kind == "in transaction":
            commit(broker, producer, ("t", partition, number))
            pending.setdefault(producer, {})[place] = (number, number)
        elif kind == "plain":
            broker.commit(("t", partition, number))
            counts[place] = (number, number)
        elif kind == "restart":
            broker = broker.restarted()
        else:
            end(broker, producer, commits=kind == "commit")
            for key, value in pending.pop(producer, {}).items():
                # A plain commit that lies later in the log stays.
                if kind == "commit" and counts.get(key, (-1, -1))[0] < value[0]:
                    counts[key] = value
        assert broker.committed() == {key: offset for key, (_, offset) in counts.items()}
        unstable = {key for offsets in pending.values() for key in offsets}
        for index in range(3):
            key = ("t", index)
            expected = UNSTABLE if key in unstable else counts.get(key, (-1, -1))[1]
            assert stable(broker, key) == [expected]
