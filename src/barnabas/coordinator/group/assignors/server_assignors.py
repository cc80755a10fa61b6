"""The assignors that `group.consumer.assignors` can name, and of them the range assignor.

Called by `broker/` when the first consumer group needs one, and by `group_admin_service` for the name of the default;
pure. The setting allows the names of `_BY_SETTING` only (`config.keys.coordinator_keys`).
Kafka: GroupCoordinatorConfig.consumerGroupAssignors, org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    ConsumerGroupPartitionAssignor,
    GroupSpec,
    PartitionAssignorError,
    TopicDescriber,
)
from barnabas.coordinator.group.assignors.uniform import UniformAssignor


class _TopicRanges:
    """The ranges of one topic: the first `extra` ranges are longer by one."""

    __slots__ = ("_extra", "_next", "_partitions", "_quota")

    def __init__(self, partitions: int, members: int) -> None:
        self._partitions = partitions
        self._quota, self._extra = divmod(partitions, members)
        self._next = 0

    def next_range(self) -> frozenset[int]:
        start = self._next
        end = start + self._quota
        if self._extra > 0:
            self._extra -= 1
            end += 1
        self._next = end
        return frozenset(range(start, end))


class ServerRangeAssignor:
    """The assignor named `range`. Implements ConsumerGroupPartitionAssignor."""

    name: Final = "range"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """Cut every topic among its subscribers. Raises PartitionAssignorError when a topic is unknown."""
        subscribers: dict[bytes, int] = {}
        for member in spec.members.values():
            for topic_id in member.subscribed_topic_ids:
                subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
        ranges = {topic_id: _ranges_of(topic_id, members, topics) for topic_id, members in subscribers.items()}
        result: dict[str, Assignment] = {}
        # The order decides which members get the longer ranges. It must not change when a static member returns under a
        # new member id, or every restart would move partitions.
        for member_id in _in_order(spec):
            member = spec.members[member_id]
            cut = {topic_id: ranges[topic_id].next_range() for topic_id in member.subscribed_topic_ids}
            assignment = {topic_id: partitions for topic_id, partitions in cut.items() if partitions}
            result[member_id] = member.assignment if assignment == member.assignment else assignment
        return result


def _ranges_of(topic_id: bytes, members: int, topics: TopicDescriber) -> _TopicRanges:
    """Return the ranges of a topic with that many subscribers. Raises PartitionAssignorError when it is unknown."""
    partitions = topics.partition_count(topic_id)
    if partitions == -1:
        raise PartitionAssignorError("Member is subscribed to a non-existent topic")
    return _TopicRanges(partitions, members)


def _in_order(spec: GroupSpec) -> list[str]:
    """Return static members by instance id, then the others by member id, in Java's order (by UTF-16 units)."""

    def order(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        # Encoded, because Python compares by code points, which orders characters beyond U+FFFF differently. Brokers of
        # both kinds must cut a group's topics in the same way.
        return instance_id is None, (member_id if instance_id is None else instance_id).encode("utf-16-be")

    return sorted(spec.members, key=order)


_UNIFORM: Final = UniformAssignor()
_RANGE: Final = ServerRangeAssignor()
_BY_SETTING: Final[Mapping[str, ConsumerGroupPartitionAssignor]] = {
    "uniform": _UNIFORM,
    "range": _RANGE,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": _UNIFORM,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": _RANGE,
}


def assignors_named(names: Iterable[str]) -> dict[str, ConsumerGroupPartitionAssignor]:
    """Return the assignors by name, in the order of the setting: the first is the default.

    A name is the assignor's own or that of its Java class. Raises ValueError when there is no such assignor: classes
    of users' own cannot be loaded.
    """
    assignors: dict[str, ConsumerGroupPartitionAssignor] = {}
    for name in names:
        assignor = _BY_SETTING.get(name)
        if assignor is None:
            raise ValueError(f"{name} is not a known assignor; known are {', '.join(_BY_SETTING)}")
        assignors.setdefault(assignor.name, assignor)
    return assignors
