"""`barnabas cluster health`: what keeps a cluster's partitions from being safe, and the lag of their followers.

Runs on the main thread; no state.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from barnabas.cli.client_options import Connect, admin_options
from barnabas.cli.tables import json_option, print_json, print_table
from barnabas.cli.topics.partition_problems import (
    AT_MINIMUM,
    UNAVAILABLE,
    UNDER_MINIMUM,
    UNDER_REPLICATED,
    JudgedPartition,
    judge_partitions,
)

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, ClusterDescription, PartitionInfo, TopicDescription
    from barnabas.protocol.topic_partition import TopicPartition


UNHEALTHY_EXIT_STATUS = 1
UNSAFE = (UNAVAILABLE, UNDER_MINIMUM, UNDER_REPLICATED)
"""The problems that make a cluster unhealthy. A topic that has exactly its minimum of replicas is healthy."""


class FollowerLags(NamedTuple):
    """The result of asking all brokers. unreachable: the ids of registered brokers that did not answer."""

    by_partition: Mapping[TopicPartition, Mapping[int, int]]
    """Records behind the leader, by broker id. A follower that could not be asked is missing."""
    unreachable: frozenset[int]


def follower_lags(admin: Admin, partitions: Collection[PartitionInfo], live_brokers: Collection[int]) -> FollowerLags:
    """Ask the brokers for the lag of every follower of these partitions. Raises ApiError.

    Each broker is asked for the end of its logs as Kafka's replica verification asks: by a request with the replica id
    -2, which followers answer too. (The lag in DescribeLogDirs is of no use here: a broker measures it against the high
    watermark that it knows itself.)

    The leaders are asked before the followers. A lag above 0 is therefore real: these records were on the leader, and
    are not on the follower. A follower that copies what has come meanwhile shows 0.
    """
    from barnabas.protocol.topic_partition import TopicPartition

    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    followed: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for each in partitions:
        place = TopicPartition(each.topic, each.partition)
        led[each.leader].append(place)
        for broker_id in each.replicas:
            if broker_id != each.leader:
                followed[broker_id].append(place)
    unreachable: set[int] = set()
    leader_ends: dict[TopicPartition, int] = {}
    for ends in _end_offsets(admin, led, live_brokers, unreachable).values():
        leader_ends |= ends
    lags: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for broker_id, ends in _end_offsets(admin, followed, live_brokers, unreachable).items():
        for place in ends.keys() & leader_ends.keys():
            lags[place][broker_id] = max(0, leader_ends[place] - ends[place])
    return FollowerLags(lags, frozenset(unreachable))


def _end_offsets(
    admin: Admin,
    wanted: Mapping[int, Iterable[TopicPartition]],
    live_brokers: Collection[int],
    unreachable: set[int],
) -> dict[int, dict[TopicPartition, int]]:
    """Return the log ends by broker. A broker that does not answer is added to `unreachable`, and not asked again."""
    from barnabas.clients.errors import ClientTimeout

    found = {}
    for broker_id in sorted(set(wanted) & set(live_brokers) - unreachable):
        try:
            found[broker_id] = admin.replica_end_offsets(broker_id, list(wanted[broker_id]))
        except (ClientTimeout, ConnectionError):
            unreachable.add(broker_id)
    return found


class _Health(NamedTuple):
    """What the command has found out. shown: the partitions to print. unreplicated: as `_unreplicated` returns it."""

    cluster: ClusterDescription
    judged: Sequence[JudgedPartition]
    shown: Sequence[JudgedPartition]
    lags: FollowerLags
    unreplicated: Mapping[str, int]

    @property
    def counts(self) -> Counter[str]:
        """How many partitions have each problem."""
        return Counter(problem for each in self.judged for problem in each.problems)

    @property
    def is_healthy(self) -> bool:
        """Whether there is a controller, every broker answers, and no partition is unsafe."""
        return self.cluster.controller_id >= 0 and not self.lags.unreachable and not any(map(is_unsafe, self.judged))


def is_unsafe(judged: JudgedPartition) -> bool:
    """Return whether a partition lacks a leader or in-sync replicas."""
    return any(problem in UNSAFE for problem in judged.problems)


@click.command()
@admin_options
@click.option("--all", "show_all", is_flag=True, help="Show every partition, with the lag of its followers.")
@json_option
@click.pass_context
def health(context: click.Context, connect: Connect, show_all: bool, as_json: bool) -> None:
    """Show the partitions that lack a leader or in-sync replicas, and how far their followers are behind.

    The lag is the number of records that the leader has and the follower lacks. The exit status is 1
    while a partition is not safe, a broker does not answer, or the cluster has no controller: a script waits for 0.
    """
    with connect() as admin:
        topics = admin.describe_topics()
        judged = judge_partitions(admin, topics)
        described = admin.describe_cluster()
        lags = follower_lags(admin, [each.partition for each in judged], {node.id for node in described.nodes})
    shown = judged if show_all else [each for each in judged if is_unsafe(each)]
    found = _Health(described, judged, shown, lags, _unreplicated(described, topics))
    if as_json:
        print_json(_as_object(found))
    else:
        _print(found)
    if not found.is_healthy:
        context.exit(UNHEALTHY_EXIT_STATUS)


def _unreplicated(cluster: ClusterDescription, topics: Mapping[str, TopicDescription]) -> Mapping[str, int]:
    """Return, in a cluster of several brokers, the internal topics that have partitions with one replica: how many.

    The groups and transactions in such a partition have no coordinator while its broker is down.
    """
    if len(cluster.nodes) < 2:
        return {}
    counts = {
        name: sum(len(each.replicas) < 2 for each in topic.partitions)
        for name, topic in sorted(topics.items())
        if topic.is_internal
    }
    return {name: count for name, count in counts.items() if count}


def _print(found: _Health) -> None:
    controller = found.cluster.controller_id if found.cluster.controller_id >= 0 else "none"
    counts = found.counts
    parts = [f"controller {controller}", f"brokers {len(found.cluster.nodes)}", f"partitions {len(found.judged)}"]
    parts += [f"{problem} {counts[problem]}" for problem in UNSAFE]
    if found.lags.unreachable:
        parts.append(f"brokers without an answer {_ids(sorted(found.lags.unreachable))}")
    click.echo("\t".join(parts))
    for name, count in found.unreplicated.items():
        click.echo(
            f"{name}: {count} partitions have one replica; groups or transactions end with its broker "
            "(barnabas reassign adds replicas)"
        )
    print_table(
        ("topic", "partition", "problem", "leader", "replicas", "in sync", "lag"),
        [
            (
                each.partition.topic,
                str(each.partition.partition),
                next((problem for problem in each.problems if problem in UNSAFE), "-"),
                str(each.partition.leader) if each.partition.leader >= 0 else "none",
                _ids(each.partition.replicas),
                _ids(each.partition.isr),
                " ".join(f"{broker}:{'?' if lag is None else lag}" for broker, lag in _lags_of(each, found.lags))
                or "-",
            )
            for each in found.shown
        ],
    )


def _as_object(found: _Health) -> Mapping[str, Any]:
    return {
        "healthy": found.is_healthy,
        "controller": found.cluster.controller_id if found.cluster.controller_id >= 0 else None,
        "brokers": sorted(node.id for node in found.cluster.nodes),
        "brokers_without_answer": sorted(found.lags.unreachable),
        "internal_partitions_without_second_replica": found.unreplicated,
        "partition_count": len(found.judged),
        "problems": {problem: found.counts[problem] for problem in UNSAFE},
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "problems": [problem for problem in each.problems if problem != AT_MINIMUM],
                "leader": each.partition.leader if each.partition.leader >= 0 else None,
                "replicas": each.partition.replicas,
                "isr": each.partition.isr,
                "lag": {str(broker): lag for broker, lag in _lags_of(each, found.lags)},
            }
            for each in found.shown
        ],
    }


def _lags_of(judged: JudgedPartition, lags: FollowerLags) -> list[tuple[int, int | None]]:
    """Return the lag of each follower, None where it is not known."""
    from barnabas.protocol.topic_partition import TopicPartition

    partition = judged.partition
    known = lags.by_partition.get(TopicPartition(partition.topic, partition.partition), {})
    return [(broker, known.get(broker)) for broker in partition.replicas if broker != partition.leader]


def _ids(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers)) or "-"
