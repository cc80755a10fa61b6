"""The partitions that one fetch of a session reads.

Made by the FetchSession (`api`) for each request, used by ReplicaReader and DelayedFetch. Owned by the thread that has
the request; while the request waits, by whichever thread tries it, under the operation's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.partition_fetch import PartitionFetch
from barnabas.replica.session_watches import SessionWatch


class SessionReads:
    """The partitions of a session that one fetch reads: those it begins with, and those that move while it waits.

    fetches: the ones read so far; owned by the request. begun_ms: the monotonic time at which the request began.

    Arguments, by name: `named`, all partitions of the session, and `begun_with`, those that the request begins with.
    """

    __slots__ = ("_named", "_read", "begun_ms", "fetches", "watch")

    def __init__(
        self,
        watch: SessionWatch,
        named: Mapping[TopicPartition, PartitionFetch],
        begun_with: Mapping[TopicPartition, PartitionFetch],
        begun_ms: int,
    ) -> None:
        self.watch = watch
        self.begun_ms = begun_ms
        self.fetches = list(begun_with.values())
        self._named = named
        self._read = set(begun_with)

    def note_polled(self) -> None:
        """Note that the session has everything of the partitions left out, since none had moved when it began."""
        self.watch.polled_ms = self.begun_ms

    def waited_for(self) -> list[PartitionFetch]:
        """Return the partitions whose records may end the wait."""
        moved = self.watch.moved
        # A copy, which is one operation: other threads add.
        new = moved.copy() - self._read if moved else None
        return self.fetches + self._found(new) if new else self.fetches

    def read_again(self) -> list[PartitionFetch]:
        """Return the partitions to read at the end of the wait. The marks stay, for the next request to take."""
        new = self.watch.moved.copy() - self._read
        if new:
            self._read |= new
            self.fetches += self._found(new)
        return self.fetches

    def _found(self, names: Iterable[TopicPartition]) -> list[PartitionFetch]:
        # One that is not found has left the session since.
        return [fetch for name in names if (fetch := self._named.get(name)) is not None]
