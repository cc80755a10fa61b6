"""Plans of reassignments, as kafka-reassign-partitions reads and writes them, and the proposal of a plan.

Used by `barnabas reassign` on the main thread; no state. A plan is JSON:

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}

Kafka: ReassignPartitionsCommand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.rpc.node import Node

_VERSION = 1
_ANY_DIRECTORY = "any"


def parse_plan(text: str) -> dict[TopicPartition, list[int]]:
    """Return the replicas of each partition of a plan. Raises ValueError for any other text, or a partition twice."""
    try:
        parsed = json.loads(text)
        if parsed.get("version", _VERSION) != _VERSION:
            raise ValueError(f"version {parsed['version']} is not known, only {_VERSION}")
        entries = parsed["partitions"]
        plan = {
            TopicPartition(str(entry["topic"]), _number(entry["partition"])): list(map(_number, entry["replicas"]))
            for entry in entries
        }
        directories = {name for entry in entries for name in entry.get("log_dirs", ())}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        example = '{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}'
        raise ValueError(f"not a reassignment plan ({error}); a plan looks like {example}") from None
    if len(plan) < len(entries):
        raise ValueError("the plan names a partition twice")
    if named := sorted(directories - {_ANY_DIRECTORY}):
        raise ValueError(
            f"the plan names the log directory {named[0]}: this command moves replicas between brokers only"
        )
    return plan


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a plan as one line of JSON."""
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas),
            "log_dirs": [_ANY_DIRECTORY] * len(replicas),
        }
        for place, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions})


def propose_plan(
    current: Mapping[TopicPartition, Sequence[int]],
    nodes: Collection[Node],
    broker_ids: Collection[int],
    chance: random.Random,
    *,
    rack_aware: bool,
) -> dict[TopicPartition, list[int]]:
    """Spread the partitions of `current` over these brokers as the creation of topics does, with as many replicas.

    Raises ValueError: a broker is not registered, or only some have racks. Raises ApiError: fewer brokers than
    replicas.
    """
    from barnabas.metadata.replica_placement import AdminOperationFailed, assign_replicas_to_brokers

    racks = {node.id: node.rack for node in nodes}
    if unknown := sorted(set(broker_ids) - racks.keys()):
        raise ValueError(f"broker {unknown[0]} is not registered; the brokers are {sorted(racks)}")
    places = [(broker_id, racks[broker_id] if rack_aware else None) for broker_id in sorted(set(broker_ids))]
    proposed = {}
    for topic in sorted({place.topic for place in current}):
        partitions = sorted(place.partition for place in current if place.topic == topic)
        replication_factor = len(current[TopicPartition(topic, partitions[0])])
        try:
            assigned = assign_replicas_to_brokers(places, len(partitions), replication_factor, chance)
        except AdminOperationFailed as error:
            raise ValueError(f"{error} Use --disable-rack-aware to ignore racks.") from None
        for index, replicas in zip(partitions, assigned.values(), strict=True):
            proposed[TopicPartition(topic, index)] = replicas
    return proposed


def _number(value: Any) -> int:
    """Return the number of a partition or broker. Raises ValueError when it has more than 31 bits."""
    number = int(value)
    if not 0 <= number < 2**31:
        raise ValueError(f"{number} is not in [0, {2**31 - 1}]")
    return number
