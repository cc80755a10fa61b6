"""Plans of reassignments, read, written and proposed; the moves between log directories and the throttle of a plan.

Used by `barnabas reassign` on the main thread; no state. A plan is JSON, as kafka-reassign-partitions takes it:

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]}

and may name the log directory of each replica: "log_dirs": ["any", "/disk2/data"].

Kafka: ReassignPartitionsCommand.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, ConfigResource, PartitionReassignment
    from barnabas.rpc.connection_states import Node


_PLAN_VERSION = 1
_ANY_DIRECTORY = "any"


class Plan(NamedTuple):
    """The replicas of each partition, and by broker the log directories in which replicas are to lie."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    log_dirs: Mapping[int, Mapping[TopicPartition, str]]


def parse_plan(text: str) -> Plan:
    """Return a plan. Raises ValueError for other text, no partition, one twice, or a wrong number of directories."""
    try:
        parsed = json.loads(text)
        if parsed.get("version", _PLAN_VERSION) != _PLAN_VERSION:
            raise ValueError(f"version {parsed['version']} is not known, only {_PLAN_VERSION}")
        entries = parsed["partitions"]
        plan = {
            TopicPartition(str(entry["topic"]), _checked_number(entry["partition"])): list(
                map(_checked_number, entry["replicas"])
            )
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
    return json.dumps({"version": _PLAN_VERSION, "partitions": partitions})


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


def _checked_number(value: Any) -> int:
    """Return the number of a partition or broker. Raises ValueError for another type, or more than 31 bits."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{json.dumps(value)} is not a whole number in [0, {2**31 - 1}]")
    return value


def move_between_directories(admin: Admin, log_dirs: Mapping[int, Mapping[TopicPartition, str]]) -> list[str]:
    """Have each broker take its replicas into these directories; return a line for each refusal. Raises ApiError."""
    refused = []
    for broker_id, wanted in log_dirs.items():
        for place, error in sorted(admin.alter_replica_log_dirs(broker_id, wanted).items()):
            # A replica that the reassignment adds: the broker makes it in that directory.
            if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                where = f"{wanted[place]} of broker {broker_id}"
                refused.append(f"{place.topic}-{place.partition} cannot move to {where} ({error.code.name})")
    return refused


def directories_missing(admin: Admin, log_dirs: Mapping[int, Mapping[TopicPartition, str]]) -> list[str]:
    """Return a line for each replica that does not lie in its directory yet. Raises ApiError."""
    missing = []
    for broker_id, wanted in log_dirs.items():
        described = admin.describe_log_dirs(broker_id)
        for place, path in sorted(wanted.items()):
            infos = {each.path: each.replicas[place] for each in described if place in each.replicas}
            info = infos.get(path)
            if info is not None and not info.is_future:
                continue
            state = f"moving to {path}, {info.offset_lag} records are missing" if info else f"not in {path}"
            missing.append(f"{place.topic}\tpartition {place.partition}\tbroker {broker_id}\t{state}")
    return missing


LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_OF_THE_TOPIC: Final = 1
"""The source of a setting that was given to this topic."""


def set_throttle(
    admin: Admin,
    wanted: Mapping[TopicPartition, Sequence[int]],
    present: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    bytes_per_second: int,
) -> None:
    """Limit the moves from `present` to `wanted`. ongoing: the reassignments that these replace. Raises ApiError.

    Two settings of a topic name the replicas that are limited, `partition:broker` each; two settings of every broker
    that takes part say how much they may copy. A move of partition 3 from brokers 0,1 to 1,2 limits reading at 0 and 1,
    and copying at 2:

        leader.replication.throttled.replicas=3:0,3:1    follower.replication.throttled.replicas=3:2
    """
    from barnabas.clients.admin import ConfigResource

    leaders: defaultdict[str, list[str]] = defaultdict(list)
    followers: defaultdict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    for place, replicas in sorted(wanted.items()):
        adding = ongoing[place].adding if place in ongoing else ()
        sources = [broker for broker in present.get(place, ()) if broker not in adding]
        destinations = [broker for broker in replicas if broker not in sources]
        leaders[place.topic] += [f"{place.partition}:{broker}" for broker in sources]
        followers[place.topic] += [f"{place.partition}:{broker}" for broker in destinations]
        brokers |= {*sources, *destinations}
    for topic in leaders:
        limited = {LEADER_REPLICAS: ",".join(leaders[topic]), FOLLOWER_REPLICAS: ",".join(followers[topic])}
        _set_configs(admin, ConfigResource.topic(topic), {name: value for name, value in limited.items() if value})
    for broker in sorted(brokers):
        rate = str(bytes_per_second)
        _set_configs(admin, ConfigResource.broker(broker), {LEADER_RATE: rate, FOLLOWER_RATE: rate})


def remove_throttle(admin: Admin, topics: Collection[str]) -> bool:
    """Remove the limits of these topics, and then the rates of all brokers. Return whether there were limits.

    The topics tell, since a broker may show a rate a moment after it was set. Raises ApiError.
    """
    from barnabas.clients.admin import ConfigResource

    limited = [ConfigResource.topic(topic) for topic in sorted(topics) if _is_limited(admin, topic)]
    for resource in limited:
        _remove_configs(admin, resource, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    if limited:
        for node in admin.describe_cluster().nodes:
            _remove_configs(admin, ConfigResource.broker(node.id), (LEADER_RATE, FOLLOWER_RATE))
    return bool(limited)


def _is_limited(admin: Admin, topic: str) -> bool:
    from barnabas.clients.admin import ConfigResource

    entries = admin.describe_configs(ConfigResource.topic(topic), [LEADER_REPLICAS, FOLLOWER_REPLICAS])
    return any(entry.source == _OF_THE_TOPIC for entry in entries.values())


def _set_configs(admin: Admin, resource: ConfigResource, values: Mapping[str, str]) -> None:
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    admin.incremental_alter_configs(
        resource, [ConfigChange(name, ConfigOperation.SET, value) for name, value in values.items()]
    )


def _remove_configs(admin: Admin, resource: ConfigResource, names: Sequence[str]) -> None:
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    admin.incremental_alter_configs(resource, [ConfigChange(name, ConfigOperation.DELETE) for name in names])
