"""Groups as administrators see them: what they are told, and what a deletion leaves in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.coordinator.group.assignors.server_assignors import assignors_named
from barnabas.coordinator.group.classic.classic_group_member import LeavingMember
from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ClassicMetadata, ConsumerGroupMember
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_admin_service import DescribedGroup, GroupAdminService
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.offsets_topic import group_key, offset_key, offset_key_prefix, offset_value
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from barnabas.runtime.lock_order import check_no_lock_held
from tests.support.classic_coordinator import GROUP, ClassicCoordinator

ORDERS, GONE = bytes([1]) * 16, bytes([2]) * 16


class Append:
    """Records whose replicas answer when the test says so."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error
        self.position = 0 if error is ErrorCode.NONE else -1
        self.settle: Callable[[ErrorCode], None] = lambda error: None

    def when_replicated(self, on_stored: Callable[[ErrorCode], None]) -> None:
        check_no_lock_held("waiting for replicas")
        if self.position < 0:
            on_stored(self.error)
        self.settle = on_stored


class Log:
    """Keeps batches; refuses those after `room` of them."""

    def __init__(self) -> None:
        self.batches: list[list[CoordinatorRecord]] = []
        self.appends: list[Append] = []
        self.room = 1000

    def append(self, partition: int, records: Sequence[CoordinatorRecord], purpose: Any) -> Append:
        fits = len(self.batches) < self.room
        if fits:
            self.batches.append(list(records))
        self.appends.append(Append(ErrorCode.NONE if fits else ErrorCode.NOT_COORDINATOR))
        return self.appends[-1]


class Broker:
    """The service, with groups of both protocols around it."""

    def __init__(self) -> None:
        self.classic = ClassicCoordinator()
        self.table = self.classic.table
        self.partitions = self.classic.partitions
        self.log = Log()
        environment: Any = SimpleNamespace(
            config=GroupCoordinatorConfig(),
            partitions=self.partitions.real,
            table=self.table,
            log=self.log,
            metadata=SimpleNamespace(image=SimpleNamespace(topic_names={ORDERS: "orders"})),
        )
        self.removed: list[str] = []
        self.service = GroupAdminService(environment, self._is_removed)

    def add(self, group_id: str, *committed: tuple[str, int]) -> Group:
        group = self.table.get_or_add(group_id)
        for topic, partition in committed:
            group.offsets.put_all({topic: {partition: offset_value(5, -1, "", 0)}}, 0)
        return group

    def add_consumer_group(self, group_id: str) -> ConsumerGroup:
        membership = ConsumerGroup(group_id)
        self.table.add_loaded([Group(group_id, 0, membership, CommittedOffsets())])
        return membership

    def listed(self, *states: str, types: Sequence[str] = ()) -> dict[str, tuple[str, str, str]]:
        error, groups = self.service.list_groups(states, types)
        assert error is ErrorCode.NONE
        return {each.group_id: (each.group_state, each.group_type, each.protocol_type) for each in groups}

    def describe(self, group_id: str, *, tells_missing: bool = True) -> DescribedGroup:
        (described,) = self.service.describe_groups([group_id], tells_missing=tells_missing)
        assert described.group_id == group_id
        return described

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
        (described,) = self.service.describe_consumer_groups([group_id])
        assert described.group_id == group_id
        return described

    def delete(self, *group_ids: str) -> list[Mapping[str, ErrorCode]]:
        told: list[Mapping[str, ErrorCode]] = []
        self.service.delete_groups(group_ids, told.append)
        return told

    def _is_removed(self, group: Group) -> None:
        check_no_lock_held("telling of a removed group")
        assert group.is_removed
        self.removed.append(group.group_id)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_list(broker: Broker) -> None:
    broker.classic.stable_group("a")
    broker.add("offsets only", ("t", 0))
    broker.add_consumer_group("new")
    everything = {
        GROUP: ("Stable", "classic", "consumer"),
        "offsets only": ("Empty", "classic", ""),
        "new": ("Empty", "consumer", "consumer"),
    }
    assert broker.listed() == everything
    assert broker.listed("stable ").keys() == {GROUP}, "states are compared in Kafka's lax way"
    assert broker.listed("Empty", types=["Consumer"]).keys() == {"new"}
    assert broker.listed("Stable", "Empty", types=["classic", "consumer"]) == everything
    assert broker.listed(types=["share"]) == broker.listed("NoSuchState") == {}
    broker.partitions.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    error, some = broker.service.list_groups([], [])
    assert (error, len(some)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3)
    broker.partitions.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.service.list_groups([], []) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_describe_a_stable_group(broker: Broker) -> None:
    (member_id,) = broker.classic.stable_group("a", static=True)
    group = broker.describe(GROUP)
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        ErrorCode.NONE,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
        member_id,
        "a",
        "a",
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (b"topics", f"of {member_id}".encode())


def test_a_group_that_rebalances_says_nothing_of_assignments(broker: Broker) -> None:
    broker.classic.stable_group("a")
    broker.classic.join(client_id="b")
    group = broker.describe(GROUP)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert {(member.member_metadata, member.member_assignment) for member in group.members} == {(b"", b"")}


def test_describe_what_is_no_classic_group_here(broker: Broker) -> None:
    broker.add_consumer_group("new")
    for group_id, words in (("none", "Group none not found."), ("new", "Group new is not a classic group.")):
        group = broker.describe(group_id)
        assert (group.error_code, group.error_message, group.group_state) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            words,
            "Dead",
        )
        assert broker.describe(group_id, tells_missing=False) == DescribedGroup(group_id=group_id, group_state="Dead")
    broker.partitions.error = ErrorCode.NOT_COORDINATOR
    assert broker.describe(GROUP) == DescribedGroup(group_id=GROUP, error_code=ErrorCode.NOT_COORDINATOR)


def test_describe_a_consumer_group(broker: Broker) -> None:
    group = broker.add_consumer_group("new")
    group.group_epoch, group.target.epoch = 7, 6
    group.put_member(
        ConsumerGroupMember(
            "m",
            member_epoch=6,
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=frozenset({"orders", "missing"}),
            subscribed_topic_regex="or.*",
            assigned_partitions={ORDERS: {1: 6}, GONE: {0: 6}},
            partitions_pending_revocation={ORDERS: {0: 5}},
        )
    )
    group.put_member(ConsumerGroupMember("old", classic=ClassicMetadata(6000, ())))
    group.target.put("m", {ORDERS: [2, 1]})
    described = broker.describe_consumer("new")
    assert (described.error_code, described.group_state, described.group_epoch, described.assignment_epoch) == (
        ErrorCode.NONE,
        "Assigning",
        7,
        6,
    )
    default, *_ = assignors_named(GroupCoordinatorConfig().consumer.assignors)
    assert described.assignor_name == default
    member, old = described.members
    told = ConsumerGroupDescribeResponse.TopicPartitions
    assert member.assignment.topic_partitions == [told(ORDERS, "orders", [0, 1])], "what it gives up it still has"
    assert member.target_assignment.topic_partitions == [told(ORDERS, "orders", [1, 2])]
    assert (member.member_epoch, member.instance_id, member.rack_id, member.client_id, member.client_host) == (
        6,
        "i",
        "r",
        "c",
        "/h",
    )
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["missing", "orders"], "or.*")
    assert (member.member_type, old.member_type) == (1, 0)


def test_describe_what_is_no_consumer_group_here(broker: Broker) -> None:
    broker.add("classic")
    for group_id, words in (("none", "not found."), ("classic", "is not a consumer group.")):
        group = broker.describe_consumer(group_id)
        assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {words}")
    assert broker.describe_consumer("").error_code == ErrorCode.INVALID_GROUP_ID
    broker.partitions.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.describe_consumer("classic").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_deleted_group_leaves_nothing_in_the_log(broker: Broker) -> None:
    (member_id,) = broker.classic.stable_group("a")
    group = broker.add(GROUP, ("t", 0), ("u", 3))
    group.offsets.put_transactional(9, {"open": {1: b""}}, 5)
    group.offsets.begin_waiting({"t": {0: b""}, "late": {2: b""}})
    assert broker.delete(GROUP, "none") == [{GROUP: ErrorCode.NON_EMPTY_GROUP, "none": ErrorCode.GROUP_ID_NOT_FOUND}]
    assert not broker.log.batches
    broker.classic.service.leave_group(GROUP, [LeavingMember(member_id)], lambda answer: None)
    assert broker.listed()[GROUP][0] == "Empty"
    told = broker.delete(GROUP, GROUP)
    assert told == [], "the replicas do not have it yet"
    assert broker.removed == [GROUP]
    assert broker.listed() == {}
    prefix = offset_key_prefix(GROUP)
    (records,) = broker.log.batches
    assert set(records) == {
        *(
            CoordinatorRecord(offset_key(prefix, topic, partition), None)
            for topic, partition in ((b"t", 0), (b"u", 3), (b"open", 1), (b"late", 2))
        ),
        CoordinatorRecord(group_key(GROUP), None),
    }
    assert records[-1] == CoordinatorRecord(group_key(GROUP), None), "until the last of it is written, there is a group"
    broker.log.appends[-1].settle(ErrorCode.NONE)
    assert told == [{GROUP: ErrorCode.NONE}]


def test_several_deletions_are_answered_when_all_are_over(broker: Broker) -> None:
    broker.add("a", ("t", 0))
    broker.add("b", ("t", 0))
    broker.add("never stored")
    told = broker.delete("a", "b", "never stored")
    assert told == []
    assert sorted(broker.removed) == ["a", "b", "never stored"]
    one, other = broker.log.appends
    other.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert told == []
    one.settle(ErrorCode.NONE)
    assert told == [{"a": ErrorCode.NONE, "b": ErrorCode.COORDINATOR_NOT_AVAILABLE, "never stored": ErrorCode.NONE}]
    assert broker.delete() == [{}]


def test_the_log_refuses(broker: Broker) -> None:
    broker.add("a", ("t", 0))
    broker.log.room = 0
    assert broker.delete("a") == [{"a": ErrorCode.NOT_COORDINATOR}]
    assert not broker.removed
    assert broker.listed().keys() == {"a"}, "it can be deleted later"


def test_many_offsets_go_in_several_batches(broker: Broker) -> None:
    broker.add("a", *((f"{'t' * 200}{number}", 0) for number in range(3000)))
    broker.delete("a")
    assert len(broker.log.batches) > 1
    assert sum(map(len, broker.log.batches)) == 3000
    assert all(sum(len(record.key) for record in batch) < 300_000 for batch in broker.log.batches)
