"""The target assignment of a consumer group: the partitions that each member is to have (KIP-848).

Held by `ConsumerGroup`, guarded by the group's lock, changed by the replay of records. Pure.
Kafka: ModernGroup (targetAssignment, invertedTargetAssignment, targetAssignmentEpoch).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.coordinator.group.assignors.assignor import Assignment

_NOTHING: Final[Assignment] = {}


class TargetAssignment:
    """Assignments by member, and the members by partition.

    epoch: the group epoch that the assignment was made for, -1 when it was deleted. timestamp_ms: when it was made.
    owners: topic id -> partition -> member id. size: the number of partitions of all members.
    """

    __slots__ = ("by_member", "epoch", "owners", "size", "timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.timestamp_ms = 0
        self.by_member: dict[str, Assignment] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.size = 0

    def of(self, member_id: str) -> Assignment:
        """Return the member's part of the assignment."""
        return self.by_member.get(member_id, _NOTHING)

    def put(self, member_id: str, assignment: Mapping[bytes, Iterable[int]]) -> None:
        """Set the member's part. An empty mapping leaves the member without partitions."""
        new = {topic_id: frozenset(numbers) for topic_id, numbers in assignment.items()}
        self._move(member_id, self.of(member_id), new)
        self.by_member[member_id] = new

    def remove(self, member_id: str) -> None:
        """Remove the part of a member that is gone."""
        self._move(member_id, self.by_member.pop(member_id, _NOTHING), _NOTHING)

    def _move(self, member_id: str, old: Assignment, new: Assignment) -> None:
        for topic_id in {**old, **new}:
            owners = self.owners.setdefault(topic_id, {})
            before, after = old.get(topic_id, frozenset()), new.get(topic_id, frozenset())
            self.size += len(after) - len(before)
            for number in before - after:
                # The record of the partition's new owner may have been replayed before this one.
                if owners.get(number) == member_id:
                    del owners[number]
            owners.update(dict.fromkeys(after - before, member_id))
            if not owners:
                del self.owners[topic_id]
