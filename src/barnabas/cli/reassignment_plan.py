"""Plans of reassignments, as kafka-reassign-partitions reads and writes them, and the proposal of a plan.

Used by `barnabas reassign` on the main thread; no state. A plan is JSON:

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}

and may name the log directory of each replica: "log_dirs": ["any", "/disk2/data"].

Kafka: ReassignPartitionsCommand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.rpc.node import Node

_VERSION = 1
_ANY_DIRECTORY = "any"


class Plan(NamedTuple):
    """The replicas of each partition, and by broker the log directories in which replicas are to lie."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    log_dirs: Mapping[int, Mapping[TopicPartition, str]]


def parse_plan(text: str) -> Plan:
    """Return a plan. Raises ValueError for other text, no partition, one twice, or a wrong number of directories."""
    try:
        parsed = json.loads(text)
        if parsed.get("version", _VERSION) != _VERSION:
            raise ValueError(f"version {parsed['version']} is not known, only {_VERSION}")
        entries = parsed["partitions"]
        plan = {
            TopicPartition(str(entry["topic"]), _number(entry["partition"])): list(map(_number, entry["replicas"]))
            for entry in entries
        }
        log_dirs: dict[int, dict[TopicPartition, str]] = {}
        for (place, replicas), entry in zip(plan.items(), entries, strict=False):
            for broker_id, path in _named_directories(place, replicas, entry):
                log_dirs.setdefault(broker_id, {})[place] = path
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        example = '{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}'
        raise ValueError(f"not a reassignment plan ({error}); a plan looks like {example}") from None
    if len(plan) < len(entries):
        raise ValueError("the plan names a partition twice")
    if not plan:
        raise ValueError("the plan names no partition")
    return Plan(plan, log_dirs)


def _named_directories(place: TopicPartition, replicas: list[int], entry: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the brokers whose replica is to lie in a directory of its own, with it. Raises ValueError."""
    log_dirs = entry.get("log_dirs")
    if log_dirs is None:
        return []
    if len(log_dirs) != len(replicas):
        raise ValueError(f"{place} has {len(replicas)} replicas and {len(log_dirs)} log_dirs")
    named = [(broker, str(path)) for broker, path in zip(replicas, log_dirs, strict=True) if path != _ANY_DIRECTORY]
    for _, path in named:
        if not path.startswith("/"):
            raise ValueError(
                f"the log directory {path!r} of {place} is neither {_ANY_DIRECTORY!r} nor an absolute path"
            )
    return named


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
    """Return the number of a partition or broker. Raises ValueError for another type, or more than 31 bits."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{json.dumps(value)} is not a whole number in [0, {2**31 - 1}]")
    return value
