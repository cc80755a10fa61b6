"""Which partition a group belongs to, and which partitions this broker answers for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader, CpuReadings
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions, java_hash
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", 0),  # Java: Integer.MIN_VALUE
        ("\N{GRINNING FACE}", 1772899),
        ("consumer-group-\N{SNOWMAN}", 147492702),
    ],
)
def test_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_long_ids_are_not_remembered() -> None:
    group_id = "g" * 20_000
    held = sys.getrefcount(group_id)
    assert java_hash(group_id) == java_hash(group_id)
    assert sys.getrefcount(group_id) == held


def announce(metadata: MetadataCache, partitions: int, leader: int = 0) -> None:
    states = [
        UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=number, leader=leader, isr=[0], replicas=[0])
        for number in range(partitions)
    ]
    topic = UpdateMetadataRequest.UpdateMetadataTopicState(GROUP_METADATA_TOPIC, bytes(16), states)
    metadata.update_metadata(UpdateMetadataRequest(controller_id=0, topic_states=[topic]))


def test_groups_stay_where_they_are_when_the_topic_grows() -> None:
    metadata = MetadataCache(0)
    partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, metadata, 50)
    assert partitions.partition_for("group") == 98629247 % 50
    announce(metadata, 7)
    assert partitions.partition_for("group") == 98629247 % 7
    announce(metadata, 20)
    assert partitions.partition_for("group") == 98629247 % 7
    assert CoordinatorPartitions(GROUP_METADATA_TOPIC, metadata, 50).partition_for("group") == 98629247 % 20
    announce(metadata, 20, leader=-2)
    assert partitions.partition_for("group") == 98629247 % 50


def test_stages() -> None:
    partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, MetadataCache(0), 1)
    assert partitions.check("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    partitions.start()
    assert partitions.check("g") is ErrorCode.NOT_COORDINATOR
    assert partitions.begin_loading(0, 3)
    assert not partitions.begin_loading(0, 3)
    assert partitions.check("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert partitions.is_loading
    assert not partitions.end_loading(0, 2)
    assert partitions.end_loading(0, 3)
    assert (partitions.check("g"), partitions.active) == (ErrorCode.NONE, [0])
    assert not partitions.resign(0, 2)
    assert partitions.resign(0, 4)
    assert partitions.check("g") is ErrorCode.NOT_COORDINATOR
    assert not partitions.begin_loading(0, 4)
    assert not partitions.resign(0, None)
    assert partitions.begin_loading(0, 0)  # of a topic made anew


class Loading:
    """Loads partitions 0 to 2; the loading of 1 fails in a way that nobody expects."""

    def __init__(self, partitions: CoordinatorPartitions) -> None:
        self.record_count = 0
        self.begun: list[int] = []
        self._partitions = partitions

    def load(self, partition: int, leader_epoch: int) -> Iterator[None]:
        self.begun.append(partition)
        yield
        if partition == 1:
            raise ZeroDivisionError
        self._partitions.end_loading(partition, leader_epoch)

    def drop(self, partition: int) -> int:
        return 0


def test_a_failure_and_a_second_order_leave_the_other_partitions_alone() -> None:
    """An order that comes again begins nothing anew, and a thread that ended would never load the others."""
    partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, MetadataCache(0), 3)
    loading, threads = Loading(partitions), list[Callable[[], None]]()
    loader = CoordinatorLoader(partitions, loading, start=threads.append, readings=lambda: CpuReadings(0, 0, 0))
    for partition in (0, 1, 1, 2, 0):
        loader.load(partition, 5)
    (run,) = threads
    run()
    assert (loading.begun, partitions.active) == ([0, 1, 2], [0, 2])
    loader.load(1, 6)  # a thread is begun again
    threads[1]()
    assert loading.begun == [0, 1, 2, 1]
