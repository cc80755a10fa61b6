"""Loading and giving up partitions of `__consumer_offsets`, over a real log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.coordinator.group import group_loading
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_loading import PartitionReplay
from barnabas.coordinator.group.offsets.offset_terms import OffsetFetchTerms
from barnabas.coordinator.group.offsets_topic import (
    GroupMetadataValue,
    group_key,
    group_value,
    offset_key,
    offset_key_prefix,
    offset_value,
)
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.log_append_info import AppendOrigin
from tests.unit.coordinator.group.offset_harness import GROUP, PARTITIONS, GroupBroker, RecordedService
from tests.unit.replica.replica_harness import ANOTHER, US


def commit_record(topic: str, partition: int, offset: int | None, errors: str = "strict") -> tuple[bytes, bytes | None]:
    key = offset_key(offset_key_prefix(GROUP), topic.encode(errors=errors), partition)
    return key, None if offset is None else offset_value(offset, -1, "", 1_700_000_000_000)


def write(
    broker: GroupBroker,
    *records: tuple[bytes, bytes | None],
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
) -> None:
    """Append a batch to the log of GROUP's partition, as a coordinator did."""
    builder = RecordBatchBuilder(
        codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        is_transactional=producer_id >= 0,
    )
    for key, value in records:
        builder.append(1_700_000_000_000, key, value)
    broker.log().append_as_leader(builder.build(), 0, origin=AppendOrigin.COORDINATOR)


def end_transaction(broker: GroupBroker, producer_id: int, *, abort: bool) -> None:
    marker = EndTransactionMarker(abort, 0, 1_700_000_000_000)
    broker.log().append_as_leader(marker.batch(producer_id, 0), 0, origin=AppendOrigin.COORDINATOR)


def test_what_was_committed_is_there_after_a_restart() -> None:
    broker = GroupBroker()
    groups = [f"group-{number}" for number in range(60)]
    for number, group in enumerate(groups):
        broker.commit(("t", 0, number), ("u", 1, number), group=group)
        broker.commit(("t", 0, number + 1), group=group)
    again = broker.restarted()
    for number, group in enumerate(groups):
        assert again.committed(group) == {("t", 0): number + 1, ("u", 1): number}
    assert sorted(again.memberships.restored_ids) == sorted(groups)
    assert len(again.table) == len(groups)
    assert {times.partition for times in again.partition_loader.load_times} == set(range(PARTITIONS))


def test_tombstones_count_and_compressed_batches_are_read() -> None:
    broker = GroupBroker()
    write(broker, commit_record("t", 0, 1), commit_record("t", 1, 1), commit_record("u", 0, 1), codec=Codec.LZ4)
    write(broker, commit_record("t", 0, None))
    write(broker, commit_record("u", 0, None), commit_record("u", 0, 5), codec=Codec.GZIP)
    assert broker.restarted().committed() == {("t", 1): 1, ("u", 0): 5}


def test_transactions_count_when_they_have_ended_well() -> None:
    broker = GroupBroker()
    write(broker, commit_record("t", 0, 1))
    write(broker, commit_record("t", 0, 2), commit_record("t", 1, 2), producer_id=7, sequence=0)
    write(broker, commit_record("t", 0, 3), commit_record("t", 2, 3), producer_id=8, sequence=0)
    end_transaction(broker, 7, abort=False)
    end_transaction(broker, 8, abort=True)
    again = broker.restarted()
    assert again.committed() == {("t", 0): 2, ("t", 1): 2}
    write(broker, commit_record("t", 4, 4), commit_record("t", 5, 4), producer_id=9, sequence=0)
    write(broker, commit_record("t", 5, 5))
    again = again.restarted()
    assert again.committed() == {("t", 0): 2, ("t", 1): 2, ("t", 5): 5}
    stable = again.offsets.fetch_offsets(OffsetFetchTerms(GROUP, [("t", [0, 4])], require_stable=True))
    assert [each.error for each in stable.topics[0][1]] == [ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    with again.table.locked(GROUP) as group:
        assert group is not None
        group.offsets.end_transaction(9, is_committed=True)
    assert again.committed() == {("t", 0): 2, ("t", 1): 2, ("t", 4): 4, ("t", 5): 5}


def test_the_commit_that_lies_later_in_the_log_counts_however_transactions_end() -> None:
    broker = GroupBroker()
    write(broker, commit_record("t", 0, 1), producer_id=7, sequence=0)
    write(broker, commit_record("t", 0, 2), producer_id=8, sequence=0)
    end_transaction(broker, 8, abort=False)
    end_transaction(broker, 7, abort=False)
    assert broker.restarted().committed() == {("t", 0): 2}


def test_members_and_generation_come_back() -> None:
    broker = GroupBroker()
    group = ClassicGroup(GROUP, broker.clock)
    group.kind, group.generation = "consumer", 5
    write(broker, group.record({}))
    write(broker, commit_record("t", 0, 1))
    again = broker.restarted()
    found = again.table.get(GROUP)
    assert found is not None
    assert isinstance(found.membership, ClassicGroup)
    assert (found.membership.generation, found.membership.protocol_type) == (5, "consumer")
    assert again.committed() == {("t", 0): 1}
    write(broker, CoordinatorRecord(group_key(GROUP), None))
    again = again.restarted()
    found = again.table.get(GROUP)
    assert found is not None
    assert isinstance(found.membership, ClassicGroup)
    assert found.membership.generation == 0


def test_what_cannot_be_read_costs_only_itself() -> None:
    broker = GroupBroker()
    write(broker, commit_record("t", 0, 1))
    write(broker, (group_key(GROUP), b"\x00\x03nonsense"))
    write(broker, (commit_record("t", 1, 1)[0], b"\x00\x63 of version 99"))
    write(broker, (b"\x00\x63 of an unknown kind", b"\x00\x00"))
    key, value = commit_record("\udcff", 1, 1, errors="surrogateescape")  # bytes that are no UTF-8
    write(broker, (key, value))
    write(broker, commit_record("t", 2, 1))
    assert broker.restarted().committed() == {("t", 0): 1, ("t", 2): 1}


def test_what_was_read_before_a_failure_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingReplay(PartitionReplay):
        def replay(self, buffer: bytes) -> Iterator[int]:
            yield from super().replay(buffer)
            raise CorruptRecord("no more")

    broker = GroupBroker()
    broker.commit(("t", 0, 1))
    monkeypatch.setattr(group_loading, "PartitionReplay", FailingReplay)
    assert broker.restarted().committed() == {("t", 0): 1}


def test_a_group_that_has_a_member_twice_costs_only_itself() -> None:
    broker = GroupBroker()
    other = next(
        f"g{n}" for n in range(9) if broker.partitions.partition_for(f"g{n}") == broker.partitions.partition_for(GROUP)
    )
    broker.commit(("t", 0, 1), group=other)
    member = GroupMetadataValue.MemberMetadata(member_id="m", group_instance_id="i", session_timeout=10_000)
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", members=[member, member])
    write(broker, (group_key(GROUP), group_value(value)))
    assert broker.restarted().committed(other) == {("t", 0): 1}


def test_a_group_that_cannot_be_taken_over_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def restored(self: RecordedService, group: Group) -> None:
        raise RuntimeError(group.group_id)

    broker = GroupBroker()
    groups = [f"group-{number}" for number in range(60)]
    for group in groups:
        broker.commit(("t", 0, 1), group=group)
    monkeypatch.setattr(RecordedService, "restored", restored)
    again = broker.restarted()
    assert {again.partitions.check(group) for group in groups} == {ErrorCode.NONE}
    assert again.committed("group-1") == {("t", 0): 1}


def test_while_a_partition_is_loaded_its_groups_say_so_and_others_are_served() -> None:
    broker = GroupBroker()
    broker.commit(("t", 0, 1))
    partition = broker.partitions.partition_for(GROUP)
    broker.loader.unload(partition, 1)
    assert broker.memberships.unloaded_ids == [GROUP]
    assert broker.partitions.check(GROUP) is ErrorCode.NOT_COORDINATOR
    broker.loader.load(partition, 2)
    assert broker.partitions.check(GROUP) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.commit(("t", 0, 9)) == [[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]]
    assert broker.offsets.fetch_offsets(OffsetFetchTerms(GROUP, None)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    other = next(f"g{n}" for n in range(9) if broker.partitions.partition_for(f"g{n}") != partition)
    assert broker.commit(("t", 0, 1), group=other) == [[ErrorCode.NONE]]
    broker.scheduler.tick()
    assert broker.committed() == {("t", 0): 1}


def test_orders_that_overtake_each_other() -> None:
    broker = GroupBroker()
    broker.commit(("t", 0, 1))
    partition = broker.partitions.partition_for(GROUP)
    broker.loader.unload(partition, 5)
    broker.loader.load(partition, 4)
    assert broker.partitions.check(GROUP) is ErrorCode.NOT_COORDINATOR
    broker.loader.load(partition, 6)
    broker.loader.unload(partition, 5)
    broker.scheduler.tick()
    assert broker.partitions.check(GROUP) is ErrorCode.NONE
    broker.loader.load(partition, 3)
    assert broker.committed() == {("t", 0): 1}
    broker.loader.load(partition, 8)
    assert broker.memberships.unloaded_ids == [GROUP, GROUP]
    broker.scheduler.tick()
    assert broker.committed() == {("t", 0): 1}


def test_a_partition_that_is_given_up_while_it_is_loaded_leaves_no_group() -> None:
    broker = GroupBroker()
    for number in range(100):
        broker.commit(("t", 0, 1), group=f"group-{number}")
    for partition in range(PARTITIONS):
        broker.loader.unload(partition, 1)
    broker.loader.load(0, 2)
    work = broker.partition_loader.load(0, 2)
    next(work)
    while not len(broker.table):
        next(work)
    broker.loader.unload(0, 3)
    assert list(work) == []
    assert len(broker.table) == 0
    assert broker.partitions.check("group-1") is ErrorCode.NOT_COORDINATOR


def test_leadership_tells_the_coordinator() -> None:
    broker = GroupBroker(lead=False)
    told: list[object] = []
    broker.replicas.manager.orders.listeners.add(told.extend)
    broker.replicas.lead(GROUP_METADATA_TOPIC, 1, isr=(US, ANOTHER))
    broker.replicas.lead(GROUP_METADATA_TOPIC, 1, isr=(US, ANOTHER), leader_epoch=1)
    broker.replicas.lead(GROUP_METADATA_TOPIC, 1, isr=(US, ANOTHER), leader=ANOTHER, leader_epoch=2)
    broker.replicas.stop(GROUP_METADATA_TOPIC, 1, leader_epoch=-2)
    key = (GROUP_METADATA_TOPIC, 1)
    assert told == [(key, True, 0), (key, False, 2), (key, False, None)]
