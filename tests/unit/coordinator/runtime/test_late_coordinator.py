"""A coordinator is built once, when it is needed, and started unless the broker stops."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from barnabas.coordinator.runtime.late_coordinator import LateCoordinator
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.leadership_orders import LeadershipChange

GAINED = LeadershipChange(TopicPartition(GROUP_METADATA_TOPIC, 3), is_leader=True, leader_epoch=0)
ELSEWHERE = LeadershipChange(TopicPartition("orders", 0), is_leader=True, leader_epoch=0)


class Coordinator:
    """Remembers what was done to it, as its loader does."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.loader: Any = self

    def startup(self) -> None:
        self.done.append("startup")

    def shutdown(self) -> None:
        self.done.append("shutdown")

    def leadership_changed(self, changes: object) -> None:
        self.done.append(changes)


class Broker:
    """Builds coordinators, of which there should be one."""

    def __init__(self) -> None:
        self.built: list[Coordinator] = []
        self.failures: list[Exception] = []
        self.late: LateCoordinator[Coordinator] = LateCoordinator(
            GROUP_METADATA_TOPIC, MetadataCache(0, "cluster"), 50, self.build
        )

    def build(self, partitions: CoordinatorPartitions) -> Coordinator:
        if self.failures:
            raise self.failures.pop()
        self.built.append(Coordinator())
        return self.built[-1]


def test_a_start_and_a_stop_build_nothing() -> None:
    broker = Broker()
    broker.late.startup()
    broker.late.leadership_changed([ELSEWHERE])
    broker.late.shutdown()
    assert broker.built == []
    assert broker.late.built is None


def test_what_is_needed_before_the_start_is_started_with_the_broker() -> None:
    broker = Broker()
    coordinator = broker.late()
    assert coordinator.done == []
    broker.late.startup()
    broker.late.shutdown()
    assert coordinator.done == ["startup", "shutdown"]


def test_what_is_needed_later_is_started_at_once_and_after_the_stop_not_at_all() -> None:
    broker = Broker()
    broker.late.startup()
    assert broker.late().done == ["startup"]
    stopped = Broker()
    stopped.late.startup()
    stopped.late.shutdown()
    assert stopped.late().done == []


def test_a_leadership_of_its_topic_builds_it_and_it_is_told_of_all_changes_since() -> None:
    broker = Broker()
    broker.late.leadership_changed([ELSEWHERE, GAINED])
    broker.late.leadership_changed([ELSEWHERE])
    assert broker.late().done == [[ELSEWHERE, GAINED], [ELSEWHERE]]


def test_a_failed_construction_is_tried_again() -> None:
    broker = Broker()
    broker.late.startup()
    broker.failures.append(ImportError("half a disk"))
    with pytest.raises(ImportError, match="half a disk"):
        broker.late()
    assert broker.late().done == ["startup"]


def test_threads_that_need_it_at_once_get_the_same() -> None:
    broker = Broker()
    barrier = threading.Barrier(8)

    def need(_: int) -> Coordinator:
        barrier.wait()
        return broker.late()

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(need, range(8)))
        broker.late.startup()
    assert found == set(broker.built)
    assert len(broker.built) == 1
    assert broker.built[0].done == ["startup"]
