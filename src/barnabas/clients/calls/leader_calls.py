"""Sends requests to the leaders of partitions, and retries errors that may pass.

Called by the offset look-up and the admin client, on the thread that owns the BlockingClient.
Kafka: PartitionLeaderStrategy, AdminApiDriver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.errors import INVALID_METADATA_ERRORS, Disconnected
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.message import Message
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node

# A partition that another broker has just made may be unknown to the broker that is asked. Java's admin client rejects
# an unknown topic at once, and waits out its timeout for an unknown partition of a known topic.
UNKNOWN_PARTITION_MS = 10_000

A = TypeVar("A", bound=Message)
R = TypeVar("R")


class LeaderWaits(NamedTuple):
    """How long to wait. deadline_ms: for all answers, as a time of the client's clock.

    unknown_ms: how long the cluster may not know a partition before that error is raised; None: until the deadline.
    """

    deadline_ms: int
    unknown_ms: int | None = None


def ask_leaders(
    client: BlockingClient,
    partitions: Collection[TopicPartition],
    request_for: Callable[[Collection[TopicPartition]], Message],
    results_in: Callable[[A], Iterable[tuple[TopicPartition, int, R]]],
    waits: LeaderWaits,
    *,
    versions: tuple[int, int] | None = None,
) -> dict[TopicPartition, R]:
    """Return every partition's result, with one request to each leader.

    results_in(answer): yields partition, error code and result. A leader whose connection is lost or refused is looked
    up again. Raises ApiError for an error that no retry cures, and at the deadline the last ApiError, Disconnected or
    ClientTimeout.
    """
    client.check_usable()
    found: dict[TopicPartition, R] = {}
    # Each round asks the leaders of the partitions that are left. A leader that has moved is asked in the next round.
    missing = dict.fromkeys(partitions)
    while missing:
        last_error: ApiError | Disconnected | None = None
        for node, led in _by_leader(client, missing, waits).items():
            try:
                answer = client.call_node(node, request_for(led), versions=versions, deadline_ms=waits.deadline_ms)
            except Disconnected as lost:
                last_error = lost
                continue
            for partition, code, result in results_in(cast("A", answer)):
                error = error_of(code)
                if error is ErrorCode.NONE and partition in missing:
                    del missing[partition]
                    found[partition] = result
                elif error.retriable or error in INVALID_METADATA_ERRORS:
                    last_error = ApiError(error)
                elif error is not ErrorCode.NONE:
                    raise ApiError(error, f"{error.message} Partition: {partition}")
        if missing:
            if client.now_ms() >= waits.deadline_ms:
                raise last_error or client.metadata.timeout("The leaders did not answer in time")
            client.pause_for_metadata(waits.deadline_ms)
    return found


def _by_leader(
    client: BlockingClient, partitions: Iterable[TopicPartition], waits: LeaderWaits
) -> Mapping[Node, list[TopicPartition]]:
    by_leader: dict[Node, list[TopicPartition]] = {}
    for partition in partitions:
        leader = client.await_leader(partition, waits.deadline_ms, unknown_ms=waits.unknown_ms)
        by_leader.setdefault(leader, []).append(partition)
    return by_leader
