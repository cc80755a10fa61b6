"""The members with the fewest and the most partitions, while partitions move, without a sort after each move.

Used by `UniformHeterogeneousAssignment` for one topic at a time; pure.
Kafka: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer.
"""

from __future__ import annotations

from collections.abc import Sequence


class MemberAssignmentBalancer:
    """The subscribers of a topic, sorted by the partitions they have.

    At the bottom is a range of members with the fewest partitions, at the top a range of those with the most. A
    partition moves from a member of the upper range to one of the lower. When every member of a range has had its turn,
    all are equal again, one partition nearer to the middle, and the range takes in the neighbours with that number.

    With sizes 0, 2, 5 the lower range is the first member, the upper one the last. One move makes 1, 2, 4, a second one
    2, 2, 3: then the ranges differ by one, and the topic is balanced.

    The caller moves the partition and updates `sizes`, which it owns.
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
