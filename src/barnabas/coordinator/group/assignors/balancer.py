"""Who has the fewest partitions, and who the most, while partitions move: without sorting after every move.

Used by `UniformHeterogeneousAssignment` for one topic at a time; pure.
Kafka: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer.
"""

from __future__ import annotations

from collections.abc import Sequence


class MemberAssignmentBalancer:
    """The subscribers of a topic, sorted by the partitions they have.

    At the bottom is a range of members that have the fewest, at the top one of those that have the most. A partition
    moves from a member of the upper range to one of the lower; when a range is through, all in it are equal again, one
    partition nearer to the middle, and it takes in the neighbours that have as many. Whoever asks moves the partition:
    the sizes are his list.
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
        """Begin with these members (at least one). Returns by how much the most loaded exceeds the least loaded."""
        sizes = self._sizes
        self._members = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._members[0]], sizes[self._members[-1]]
        # Both ranges are empty, a step outside: the first question widens them.
        self._least_end = self._next_least = 0
        self._least_count = least - 1
        self._most_start = self._most_end = len(self._members)
        self._most_count = most + 1
        self._next_most = self._most_start - 1
        return most - least

    def is_balanced(self) -> bool:
        """Whether the two ranges differ by one partition at most."""
        return self._most_count - self._least_count <= 1

    def next_least_loaded(self) -> int:
        """The next member of the lower range; it gets a partition."""
        if self._next_least >= self._least_end:
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
        """The next member of the upper range; it gives a partition, or else is excluded. None: nobody is left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All of the range were excluded: on with those that have the next fewer.
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
        """The member that `next_most_loaded` named last has no partition to give."""
        excluded, last = self._next_most + 1, self._most_end - 1
        self._members[excluded], self._members[last] = self._members[last], self._members[excluded]
        self._most_end -= 1
