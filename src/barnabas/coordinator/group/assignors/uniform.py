"""The uniform assignor: members get equally many partitions, and keep their present ones where they can.

The default of consumer groups. Used by the consumer group service through `server_assignors`; pure: all that works on
an assignment is made for one call. There is one way for members that all subscribe to the same topics, and one for
members that do not. Racks are ignored, as in Kafka 4.
Kafka: UniformAssignor, with UniformHomogeneousAssignmentBuilder and UniformHeterogeneousAssignmentBuilder (4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    GroupSubscriptionType,
    PartitionAssignorError,
    TopicDescriber,
    subscribed_partition_count,
)


class _AssignmentDraft:
    """A target assignment while it is worked on.

    A member's part is copied when it is changed for the first time: an unchanged member keeps its assignment object.
    Kafka: AssignorHelpers (isImmutableMap, deepCopyAssignment).
    """

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


# -- members that all subscribe to the same topics


class _HomogeneousAssignment:
    """The work on one assignment to members that all subscribe to the same topics.

    All members have the same quota, or one more. First each member gives back the partitions of topics that it no
    longer reads, and those above its quota. Then the members with room are filled.
    """

    def __init__(self, spec: GroupSpec, topics: TopicDescriber) -> None:
        self._spec = spec
        self._topics = topics
        first = next(iter(spec.members.values()))
        # Sorted: the order of a set of ids differs from process to process.
        self._subscribed = dict.fromkeys(sorted(first.subscribed_topic_ids))
        self._draft = _AssignmentDraft()
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


# -- members that subscribe to different topics


class _MemberAssignmentBalancer:
    """The subscribers of one topic, sorted by the partitions they have, without a sort after each move.

    At the bottom is a range of members with the fewest partitions, at the top a range of those with the most. A
    partition moves from a member of the upper range to one of the lower. When every member of a range has had its turn,
    all are equal again, one partition nearer to the middle, and the range takes in the neighbours with that number.

    With sizes 0, 2, 5 the lower range is the first member, the upper one the last. One move makes 1, 2, 4, a second one
    2, 2, 3: then the ranges differ by one, and the topic is balanced.

    The caller moves the partition and updates `sizes`, which it owns.
    Kafka: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._members: list[int] = []
        self._least_end = 0
        self._least_count = 0
        self._next_least = 0
        self._most_start = 0
        self._most_end = 0
        self._most_count = 0
        self._next_most = 0

    def start(self, members: Sequence[int]) -> int:
        """Begin with these members (at least one); return by how much the most loaded exceeds the least loaded."""
        sizes = self._sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._members[0]], sizes[self._members[-1]]
        # Both ranges are empty, one step outside of the sizes: the first call widens them.
        self._least_end = self._next_least = 0
        self._least_count = least - 1
        self._most_start = self._most_end = len(self._members)
        self._most_count = most + 1
        self._next_most = self._most_start - 1
        return most - least

    def is_balanced(self) -> bool:
        """Return whether the two ranges differ by one partition at most."""
        return self._most_count - self._least_count <= 1

    def next_least_loaded(self) -> int:
        """Return the next member of the lower range; the caller gives it a partition."""
        if self._next_least >= self._least_end:
            # Every member of the range has received a partition, so all have one more now. The members that had that
            # number before become part of the range.
            self._least_count += 1
            while (
                self._least_end < len(self._members)
                and self._sizes[self._members[self._least_end]] == self._least_count
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """Return the next member of the upper range, None if no member is left.

        The caller takes a partition from it, or excludes it.
        """
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All members of the range were excluded: go on with the next smaller size.
                self._most_count = self._sizes[self._members[self._most_start - 1]]
            else:
                self._most_count -= 1
            while self._most_start > 0 and self._sizes[self._members[self._most_start - 1]] == self._most_count:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the member that `next_most_loaded` returned last: it has no partition to give."""
        # Swapped to the end, so that the range stays contiguous. The order within a range decides nothing else.
        excluded, last = self._next_most + 1, self._most_end - 1
        self._members[excluded], self._members[last] = self._members[last], self._members[excluded]
        self._most_end -= 1


_MAX_ROUNDS: Final = 16  # Kafka: MAX_ITERATION_COUNT; perfect balance may take very many rounds
_NOBODY: Final = -1
# Uuid.compareTo of Java compares two signed longs, so ids of which the first bit is set come first.
_JAVA_UUID: Final = struct.Struct(">qq")


class _HeterogeneousAssignment:
    """The work on one assignment to members that subscribe to different topics.

    Topic by topic, each partition without an owner goes to the subscriber with the fewest partitions. Then single
    partitions move from the subscriber with the most to the one with the fewest, until a whole round over the topics
    moves none. Topics with few subscribers come first, because they leave the least choice. Members are known by their
    index, because sorting them is most of the work.
    """

    def __init__(self, spec: GroupSpec, topics: TopicDescriber) -> None:
        self._spec = spec
        self._draft = _AssignmentDraft()
        self._member_ids = list(spec.members)
        self._sizes = [0] * len(self._member_ids)  # number of partitions by member
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(spec.members.values()):
            for topic_id in member.subscribed_topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        # Owner by topic and partition.
        self._owners = {
            topic_id: [_NOBODY] * subscribed_partition_count(topic_id, topics) for topic_id in self._subscribers
        }

    def build(self) -> dict[str, Assignment]:
        """Return the assignment. (The constructor raises PartitionAssignorError when a topic is unknown.)"""
        if not self._subscribers:
            return {}
        self._revoke_partitions()
        self._assign_remaining_partitions()
        self._balance()
        return self._draft.finished()

    def _revoke_partitions(self) -> None:
        """Let members keep their partitions of the topics that they subscribe to."""
        for index, (member_id, member) in enumerate(self._spec.members.items()):
            self._draft.keep(member_id, member.assignment)
            for topic_id, partitions in member.assignment.items():
                # The draft removes the topic from a copy: the mapping of this loop does not change.
                if topic_id not in member.subscribed_topic_ids:
                    self._draft.remove_topic(member_id, topic_id)
                    continue
                self._sizes[index] += len(partitions)
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = index

    def _assign_remaining_partitions(self) -> None:
        balancer = _MemberAssignmentBalancer(self._sizes)
        for topic_id in self._in_order(self._owners):
            unassigned = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner == _NOBODY]
            if unassigned:
                balancer.start(self._subscribers[topic_id])
                for partition in unassigned:
                    self._assign(topic_id, partition, balancer.next_least_loaded())

    def _balance(self) -> None:
        """Go round the topics until the last one where a partition moved comes again."""
        topic_ids = self._in_order(topic_id for topic_id, members in self._subscribers.items() if len(members) > 1)
        last_moved: bytes | None = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                # The first topic stands in until a partition moves, so that a round without any move ends as well.
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of one topic between its subscribers; return whether one moved."""
        balancer = _MemberAssignmentBalancer(self._sizes)
        if balancer.start(self._subscribers[topic_id]) <= 1:
            return False
        movable: dict[int, list[int]] = {}  # by owner, in order; the last goes first
        for partition, owner in enumerate(self._owners[topic_id]):
            movable.setdefault(owner, []).append(partition)
        moved = False
        while not balancer.is_balanced():
            most_loaded = balancer.next_most_loaded()
            while most_loaded is not None and not movable.get(most_loaded):
                # All its partitions are of other topics.
                balancer.exclude_most_loaded()
                most_loaded = balancer.next_most_loaded()
            if most_loaded is None:
                break
            partition = movable[most_loaded].pop()
            least_loaded = balancer.next_least_loaded()
            if balancer.is_balanced():
                # The search for these two members has narrowed the ranges: the topic is balanced now.
                break
            self._assign(topic_id, partition, least_loaded)
            moved = True
        return moved

    def _assign(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        previous = owners[partition]
        if previous != _NOBODY:
            self._draft.remove(self._member_ids[previous], topic_id, partition)
            self._sizes[previous] -= 1
        self._draft.add(self._member_ids[member], topic_id, partition)
        self._sizes[member] += 1
        owners[partition] = member

    def _in_order(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Sort by most partitions per subscriber, then by fewest subscribers, then by id in Java's order."""

        def order(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            subscribers = len(self._subscribers[topic_id])
            return -len(self._owners[topic_id]) / subscribers, subscribers, _JAVA_UUID.unpack(topic_id)

        return sorted(topic_ids, key=order)


# -- the assignor


class UniformAssignor:
    """The assignor named `uniform`. Implements ConsumerGroupPartitionAssignor."""

    name: Final = "uniform"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
        """Assign for balance first, then stickiness. Raises PartitionAssignorError when a topic is unknown."""
        if not spec.members:
            return {}
        if spec.subscription_type is GroupSubscriptionType.HOMOGENEOUS:
            return _HomogeneousAssignment(spec, topics).build()
        return _HeterogeneousAssignment(spec, topics).build()
