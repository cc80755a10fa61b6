"""The placement of the replicas of new partitions: spread evenly, and over racks if brokers have racks.

Used by `topic_admin` on any thread. Pure; chance is an argument. Leaders go round the brokers. The followers of a
partition are shifted against its leader, by one more step with each round, so that the partitions of one leader do not
all have the same followers. Five brokers, ten partitions, three replicas, start 0, shift 1:

    partition   0  1  2  3  4    5  6  7  8  9
    leader      0  1  2  3  4    0  1  2  3  4
    follower    2  3  4  0  1    3  4  0  1  2
    follower    3  4  0  1  2    4  0  1  2  3

Kafka: org.apache.kafka.admin.AdminUtils.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from barnabas.protocol.errors import ApiError, ErrorCode


class AdminOperationFailed(Exception):
    """An operation that cannot be done and has no error code. Kafka: AdminOperationException."""


def assign_replicas_to_brokers(
    brokers: Sequence[tuple[int, str | None]],
    partitions: int,
    replication_factor: int,
    chance: random.Random,
    *,
    fixed_start_index: int = -1,
    start_partition_id: int = -1,
) -> dict[int, list[int]]:
    """Place replicas: partition -> broker ids, the preferred leader first.

    `brokers` are (id, rack), in order. With a fixed start index the result does not depend on chance (new partitions of
    an existing topic). Raises ApiError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR. Raises AdminOperationFailed:
    only some brokers have a rack.
    """
    if partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    racks = {broker_id: rack for broker_id, rack in brokers if rack is not None}
    if racks and len(racks) < len(brokers):
        raise AdminOperationFailed("Not all brokers have rack information for replica rack aware assignment.")
    order = rack_alternated_brokers(racks) if racks else [broker_id for broker_id, _ in brokers]
    start_index = fixed_start_index if fixed_start_index >= 0 else chance.randrange(len(order))
    shift = fixed_start_index if fixed_start_index >= 0 else chance.randrange(len(order))
    first_partition = max(0, start_partition_id)
    result: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            # A round over the brokers is complete: with another shift the next round has other followers for each
            # leader.
            shift += 1
        first = (partition + start_index) % len(order)
        if racks:
            result[partition] = _replicas_over_racks(order, racks, first, shift, replication_factor)
        else:
            followers = (order[_replica_index(first, shift, i, len(order))] for i in range(replication_factor - 1))
            result[partition] = [order[first], *followers]
    return result


def rack_alternated_brokers(racks: Mapping[int, str]) -> list[int]:
    """Return brokers of each rack in turn, racks by name: 0, 3, 6, 1, 4, 7 for racks of 0-2, 3-5, 6-8."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    ordered = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, ordered))
    return [brokers[turn] for turn in range(longest) for brokers in ordered if turn < len(brokers)]


def _replicas_over_racks(
    order: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> list[int]:
    """Return the leader, then brokers of racks without a replica until every rack has one, then any other brokers."""
    rack_count = len(set(racks.values()))
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    step = 0
    while len(replicas) < replication_factor:
        broker_id = order[_replica_index(first, shift * rack_count, step, len(order))]
        step += 1
        fresh_rack = racks[broker_id] not in used_racks or len(used_racks) == rack_count
        if fresh_rack and broker_id not in replicas:
            replicas.append(broker_id)
            used_racks.add(racks[broker_id])
    return replicas


def _replica_index(first: int, second_shift: int, index: int, brokers: int) -> int:
    # From 1 to one less than the brokers: a follower never falls on its leader.
    shift = 1 + (second_shift + index) % (brokers - 1)
    return (first + shift) % brokers
