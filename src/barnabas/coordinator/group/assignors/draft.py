"""A target assignment while an assignor works on it: an unchanged member keeps its assignment object.

Made by the uniform assignor for one call; pure. Kafka: AssignorHelpers (isImmutableMap, deepCopyAssignment).
"""

from __future__ import annotations

from barnabas.coordinator.group.assignors.assignor import Assignment


class AssignmentDraft:
    """A changeable assignment. It copies a member's part when that is changed for the first time."""

    def __init__(self) -> None:
        self._kept: dict[str, Assignment] = {}
        self._changed: dict[str, dict[bytes, set[int]]] = {}

    def keep(self, member_id: str, assignment: Assignment) -> None:
        """Add a member with its present assignment, which it keeps until `add` or `remove` changes it."""
        self._kept[member_id] = assignment

    def add(self, member_id: str, topic_id: bytes, partition: int) -> None:
        """Give a partition to a member."""
        self._partitions_of(member_id).setdefault(topic_id, set()).add(partition)

    def remove(self, member_id: str, topic_id: bytes, partition: int) -> None:
        """Take a partition from a member that has it."""
        topics = self._partitions_of(member_id)
        partitions = topics[topic_id]
        partitions.remove(partition)
        if not partitions:
            del topics[topic_id]

    def remove_topic(self, member_id: str, topic_id: bytes) -> None:
        """Take all partitions of a topic from a member that has some."""
        del self._partitions_of(member_id)[topic_id]

    def finished(self) -> dict[str, Assignment]:
        """Return the assignment of every member that was kept or changed."""
        result = self._kept
        for member_id, topics in self._changed.items():
            made = {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            if made != result[member_id]:  # a partition may have been removed and added again
                result[member_id] = made
        return result

    def _partitions_of(self, member_id: str) -> dict[bytes, set[int]]:
        topics = self._changed.get(member_id)
        if topics is None:
            kept = self._kept[member_id]
            topics = self._changed[member_id] = {topic_id: set(partitions) for topic_id, partitions in kept.items()}
        return topics
