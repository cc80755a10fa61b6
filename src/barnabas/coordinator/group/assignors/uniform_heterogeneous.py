"""The uniform assignment of a group whose members subscribe to different topics.

Made by `UniformAssignor` for one call; pure. Topic by topic, each partition without an owner goes to the subscriber
with the fewest partitions. Then single partitions move from the subscriber with the most to the one with the fewest,
until a whole round over the topics moves none. Topics with few subscribers come first, because they leave the least
choice. Kafka: org.apache.kafka.coordinator.group.assignor.UniformHeterogeneousAssignmentBuilder (4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    TopicDescriber,
    subscribed_partition_count,
)
from barnabas.coordinator.group.assignors.balancer import MemberAssignmentBalancer
from barnabas.coordinator.group.assignors.draft import AssignmentDraft

_MAX_ROUNDS: Final = 16  # Kafka: MAX_ITERATION_COUNT; perfect balance may take very many rounds
_NOBODY: Final = -1
# Uuid.compareTo of Java compares two signed longs, so ids of which the first bit is set come first.
_JAVA_UUID: Final = struct.Struct(">qq")


class UniformHeterogeneousAssignment:
    """The work on one assignment. Members are known by their index, because sorting them is most of the work."""

    def __init__(self, spec: GroupSpec, topics: TopicDescriber) -> None:
        self._spec = spec
        self._draft = AssignmentDraft()
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
        balancer = MemberAssignmentBalancer(self._sizes)
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
        balancer = MemberAssignmentBalancer(self._sizes)
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
