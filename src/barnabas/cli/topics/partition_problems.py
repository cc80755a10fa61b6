"""What keeps partitions from being safe, by the rules of kafka-topics, and the options that select such partitions.

Used by `barnabas cluster health` and `barnabas topics describe`, on the main thread; no state. Kafka: TopicCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.client_options import Connect, Option, option_stack
from barnabas.cli.tables import print_table

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, PartitionInfo, TopicDescription
    from barnabas.protocol.topic_partition import TopicPartition


UNAVAILABLE = "no leader"
UNDER_MINIMUM = "below min.insync.replicas"
UNDER_REPLICATED = "under-replicated"
AT_MINIMUM = "at min.insync.replicas"

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def _option(name: str, problem: str, text: str) -> Option:
    return click.option(name, "problem", flag_value=problem, default=None, help=text)


problem_options = option_stack(
    _option("--under-replicated", UNDER_REPLICATED, "Only partitions with fewer in-sync replicas than replicas."),
    _option("--unavailable", UNAVAILABLE, "Only partitions without a leader that is alive."),
    _option(
        "--under-min-isr", UNDER_MINIMUM, "Only partitions below min.insync.replicas, which refuse writes of acks=all."
    ),
    _option(
        "--at-min-isr", AT_MINIMUM, "Only partitions at min.insync.replicas, which cannot lose an in-sync replica."
    ),
)
"""The options that select partitions by a problem; the last one given counts."""


class JudgedPartition(NamedTuple):
    """A partition and what is wrong with it, the worst first."""

    partition: PartitionInfo
    problems: tuple[str, ...]


def problems_of(
    partition: PartitionInfo, live_brokers: Collection[int], min_insync_replicas: int, adding: Collection[int] = ()
) -> tuple[str, ...]:
    """Return what is wrong with a partition, the worst first. adding: the replicas that a reassignment adds to it."""
    found = []
    has_leader = partition.leader >= 0
    in_sync = len(partition.isr)
    if not has_leader or partition.leader not in live_brokers:
        found.append(UNAVAILABLE)
    if not has_leader or in_sync < min_insync_replicas:
        found.append(UNDER_MINIMUM)
    # As in Kafka: replicas that are still being added do not count.
    if in_sync < len(partition.replicas) - len(adding):
        found.append(UNDER_REPLICATED)
    if in_sync == min_insync_replicas:
        found.append(AT_MINIMUM)
    return tuple(found)


def judge_partitions(admin: Admin, topics: Mapping[str, TopicDescription]) -> list[JudgedPartition]:
    """Return every partition of these topics with its problems, in order. Raises ApiError, ClientTimeout."""
    from barnabas.protocol.topic_partition import TopicPartition

    live_brokers = {node.id for node in admin.describe_cluster().nodes}
    adding = _replicas_being_added(admin)
    judged = []
    for name in sorted(topics):
        minimum = _min_insync_replicas(admin, name)
        if minimum is None:
            continue  # the topic has been deleted
        for partition in topics[name].partitions:
            added = adding.get(TopicPartition(name, partition.partition), ())
            judged.append(JudgedPartition(partition, problems_of(partition, live_brokers, minimum, added)))
    return judged


def _replicas_being_added(admin: Admin) -> dict[TopicPartition, tuple[int, ...]]:
    from barnabas.protocol.errors import ApiError, ErrorCode

    try:
        return {place: each.adding for place, each in admin.list_partition_reassignments().items()}
    except ApiError as error:
        # As in Kafka: whoever may describe topics needs no right to the cluster to see which are under-replicated.
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _min_insync_replicas(admin: Admin, topic: str) -> int | None:
    """Return the topic's setting; None if the topic has been deleted. Raises ApiError, ClientTimeout."""
    from barnabas.clients.admin import ConfigResource
    from barnabas.protocol.errors import ApiError, ErrorCode

    try:
        entries = admin.describe_configs(ConfigResource.topic(topic), [MIN_INSYNC_REPLICAS])
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return None
    return int(entries[MIN_INSYNC_REPLICAS].value or 1)


def show_partitions_with(problem: str, names: tuple[str, ...], connect: Connect) -> None:
    """Print the partitions of these topics, or of all, that have a problem. Raises SystemExit for an error."""
    with connect() as admin:
        judged = judge_partitions(admin, admin.describe_topics(dict.fromkeys(names) or None))
    print_table(
        ("topic", "partition", "leader", "replicas", "in sync"),
        [
            (
                each.partition.topic,
                str(each.partition.partition),
                str(each.partition.leader) if each.partition.leader >= 0 else "none",
                ",".join(map(str, each.partition.replicas)),
                ",".join(map(str, each.partition.isr)),
            )
            for each in judged
            if problem in each.problems
        ],
    )
