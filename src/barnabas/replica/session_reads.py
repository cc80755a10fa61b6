"""The partitions that one fetch of a session reads.

Made by the FetchSession (`api`) for each request, used by ReplicaReader and DelayedFetch. Owned by the thread that has
the request; while the request waits, by whichever thread tries it, under the operation's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partition_fetch import PartitionFetch
from barnabas.replica.session_watches import SessionWatch, take_all


class SessionReads:
    """The partitions of a session that one fetch reads: those it begins with, and those that move while it waits.

    fetches: the ones read so far; owned by the request. partitions: all of the session, by name. begun_ms: the
    monotonic time at which the request began.
    """

    __slots__ = ("_partitions", "begun_ms", "fetches", "watch")

    def __init__(
        self,
        watch: SessionWatch,
        partitions: Mapping[TopicPartition, PartitionFetch],
        fetches: list[PartitionFetch],
        begun_ms: int,
    ) -> None:
        self.watch = watch
        self.fetches = fetches
        self.begun_ms = begun_ms
        self._partitions = partitions

    def note_polled(self) -> None:
        """Note that the session has everything of the partitions left out, since none had moved when it began."""
        self.watch.polled_ms = self.begun_ms

    def waited_for(self) -> list[PartitionFetch]:
        """Return the partitions whose records may end the wait."""
        moved = self.watch.moved
        if not moved:
            return self.fetches
        # A copy, which is one operation: other threads add.
        return self.fetches + self._new(moved.copy())

    def take_moved(self) -> list[PartitionFetch]:
        """Return the partitions to read at the end of the wait, with the marks of those that have moved taken away."""
        moved = self.watch.moved
        if moved:
            self.fetches += self._new(take_all(moved))
        return self.fetches

    def _new(self, moved: Iterable[TopicPartition]) -> list[PartitionFetch]:
        read = {id(fetch) for fetch in self.fetches}
        found = [self._partitions.get(partition) for partition in moved]
        return [fetch for fetch in found if fetch is not None and id(fetch) not in read]
