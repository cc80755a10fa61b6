"""The uniform assignment of a group whose members all subscribe to the same topics.

Made by `UniformAssignor` for one call; pure. All members have the same quota, or one more. First each member gives back
the partitions of topics that it no longer reads, and those above its quota. Then the members with room are filled.
Kafka: org.apache.kafka.coordinator.group.assignor.UniformHomogeneousAssignmentBuilder (4.3).
"""

from __future__ import annotations

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    PartitionAssignorError,
    TopicDescriber,
    subscribed_partition_count,
)
from barnabas.coordinator.group.assignors.draft import AssignmentDraft


class UniformHomogeneousAssignment:
    """The work on one assignment."""

    def __init__(self, spec: GroupSpec, topics: TopicDescriber) -> None:
        self._spec = spec
        self._topics = topics
        first = next(iter(spec.members.values()))
        # Sorted: the order of a set of ids differs from process to process.
        self._subscribed = dict.fromkeys(sorted(first.subscribed_topic_ids))
        self._draft = AssignmentDraft()
        self._unassigned: list[tuple[bytes, int]] = []
        self._unfilled: list[tuple[str, int]] = []

    def build(self) -> dict[str, Assignment]:
        """Return the assignment. Raises PartitionAssignorError when a topic is unknown."""
        if not self._subscribed:
            return {}
        partitions = self._find_unassigned_partitions()
        quota, members_with_one_more = divmod(partitions, len(self._spec.members))
        self._revoke_partitions(quota, members_with_one_more)
        self._assign_remaining_partitions()
        return self._draft.finished()

    def _find_unassigned_partitions(self) -> int:
        """Collect the partitions without an owner; return the number of all partitions."""
        total = 0
        for topic_id in self._subscribed:
            count = subscribed_partition_count(topic_id, self._topics)
            total += count
            assigned = self._spec.assigned_partitions.get(topic_id, ())
            self._unassigned += ((topic_id, partition) for partition in range(count) if partition not in assigned)
        return total

    def _revoke_partitions(self, minimum_quota: int, members_with_one_more: int) -> None:
        members = self._spec.members
        for index, (member_id, member) in enumerate(members.items()):
            has_one_more = members_with_one_more > 0
            room = self._revoke_from(member_id, member.assignment, minimum_quota + has_one_more)
            if room > 0 and has_one_more and len(members) - index > members_with_one_more:
                # The member does not fill its quota by itself: the extra partition may go to a later member that owns
                # one more already.
                room -= 1
                has_one_more = False
            if room > 0:
                self._unfilled.append((member_id, room))
            members_with_one_more -= has_one_more

    def _revoke_from(self, member_id: str, assignment: Assignment, quota: int) -> int:
        """Remove the partitions that the member may not keep; return how many more it has room for."""
        self._draft.keep(member_id, assignment)
        room = quota
        # Sorted, so that the same input always gives up the same partitions: a set's order differs between processes.
        for topic_id in sorted(assignment):
            partitions = assignment[topic_id]
            if topic_id not in self._subscribed:
                self._draft.remove_topic(member_id, topic_id)
            elif len(partitions) <= room:
                room -= len(partitions)
            else:
                for partition in sorted(partitions)[room:]:
                    self._draft.remove(member_id, topic_id, partition)
                    self._unassigned.append((topic_id, partition))
                room = 0
        return room

    def _assign_remaining_partitions(self) -> None:
        """Fill the members with room. Raises PartitionAssignorError when partitions are left: a bug of this class."""
        position = 0
        unassigned = self._unassigned
        for member_id, room in self._unfilled:
            for topic_id, partition in unassigned[position : position + room]:
                self._draft.add(member_id, topic_id, partition)
            position += room
        if position < len(unassigned):
            raise PartitionAssignorError("Partitions were left unassigned")
