"""The throttle of a reassignment: the settings that limit what its replicas copy, set before it and removed after it.

Used by `barnabas reassign` on the main thread; no state. Two settings of a topic name the replicas that are limited,
`partition:broker` each; two settings of every broker that takes part say how much they may copy. A move of partition 3
from brokers 0,1 to 1,2 limits reading at 0 and 1, and copying at 2:

    leader.replication.throttled.replicas=3:0,3:1    follower.replication.throttled.replicas=3:2

Kafka: ReassignPartitionsCommand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin, ConfigResource, PartitionReassignment
    from barnabas.protocol.topic_partition import TopicPartition

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
    """Limit the moves from `present` to `wanted`. ongoing: the reassignments that these replace. Raises ApiError."""
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
        _set(admin, ConfigResource.topic(topic), {name: value for name, value in limited.items() if value})
    for broker in sorted(brokers):
        rate = str(bytes_per_second)
        _set(admin, ConfigResource.broker(broker), {LEADER_RATE: rate, FOLLOWER_RATE: rate})


def remove_throttle(admin: Admin, topics: Collection[str]) -> bool:
    """Remove the limits of these topics, and then the rates of all brokers. Return whether there were limits.

    The topics tell, since a broker may show a rate a moment after it was set. Raises ApiError.
    """
    from barnabas.clients.admin import ConfigResource

    limited = [ConfigResource.topic(topic) for topic in sorted(topics) if _is_limited(admin, topic)]
    for resource in limited:
        _remove(admin, resource, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    if limited:
        for node in admin.describe_cluster().nodes:
            _remove(admin, ConfigResource.broker(node.id), (LEADER_RATE, FOLLOWER_RATE))
    return bool(limited)


def _is_limited(admin: Admin, topic: str) -> bool:
    from barnabas.clients.admin import ConfigResource

    entries = admin.describe_configs(ConfigResource.topic(topic), [LEADER_REPLICAS, FOLLOWER_REPLICAS])
    return any(entry.source == _OF_THE_TOPIC for entry in entries.values())


def _set(admin: Admin, resource: ConfigResource, values: Mapping[str, str]) -> None:
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    admin.incremental_alter_configs(
        resource, [ConfigChange(name, ConfigOperation.SET, value) for name, value in values.items()]
    )


def _remove(admin: Admin, resource: ConfigResource, names: Sequence[str]) -> None:
    from barnabas.clients.admin import ConfigChange, ConfigOperation

    admin.incremental_alter_configs(resource, [ConfigChange(name, ConfigOperation.DELETE) for name in names])
