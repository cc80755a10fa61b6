"""The adaptive choice of partitions (KIP-794)."""

from __future__ import annotations

import collections
from collections import deque
from random import Random
from typing import Any

from barnabas.clients.producer.accumulator.sticky_partitioner import PartitionLoads
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.client_metadata import cluster_of

BATCH: Any = object()
CLUSTER = cluster_of({"t": [0, 1, 1]}, brokers=2)


def loads(lengths: list[int], *, is_adaptive: bool = True, availability_timeout_ms: int = 0) -> PartitionLoads:
    queues = {TopicPartition("t", index): deque([BATCH] * length) for index, length in enumerate(lengths)}
    return PartitionLoads(queues, is_adaptive=is_adaptive, availability_timeout_ms=availability_timeout_ms)


def shares(chosen_by: PartitionLoads) -> list[int]:
    """How often each partition is chosen, in parts of 8."""
    random = Random(1)
    counts = collections.Counter(chosen_by.choose("t", CLUSTER, random) for _ in range(8_000))
    return [round(counts[partition] / 1_000) for partition in range(3)]


def test_a_longer_queue_makes_a_partition_less_likely() -> None:
    assert shares(loads([0, 3, 1])) == [4, 1, 3]


def test_equal_queues_and_a_partitioner_that_does_not_adapt_choose_evenly() -> None:
    assert shares(loads([2, 2, 2])) == shares(loads([0, 9, 0], is_adaptive=False)) == [3, 3, 3]


def test_partitions_of_a_node_that_takes_nothing_are_avoided_for_a_while() -> None:
    adaptive = loads([0, 0, 0], availability_timeout_ms=100)
    adaptive.note_node(1, 0, is_ready=False)
    adaptive.note_node(1, 100, is_ready=False)
    assert shares(adaptive) == [3, 3, 3]
    adaptive.note_node(1, 101, is_ready=False)
    assert shares(adaptive) == [8, 0, 0]
    adaptive.note_node(0, 101, is_ready=False)
    adaptive.note_node(0, 500, is_ready=False)
    assert shares(adaptive) == [3, 3, 3], "no node is better than the others"
    adaptive.note_node(1, 500, is_ready=True)
    assert shares(adaptive) == [0, 4, 4]


def test_without_any_leader_every_partition_may_be_chosen() -> None:
    cluster = cluster_of({"t": [-1, -1]})
    assert {loads([5, 0]).choose("t", cluster, Random(seed)) for seed in range(20)} == {0, 1}
