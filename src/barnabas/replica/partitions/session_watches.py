"""What moved in the partitions of fetch sessions since they were last read.

A session of a thousand partitions is fetched from again and again while one of them has new records. A SessionWatch
tells which: the fetch reads those, and leaves out the others, which it has found at their ends before. Made by the
FetchSession (`api`); whatever moves a partition marks the partition on any thread, through WaitingRequests. `_lock`
guards changes of the table; look-ups take no lock, since every change replaces a whole entry.

Nothing but latency relies on the marks: a session reads all its partitions every few seconds, and whenever the metadata
have changed (`SessionPartitions.read_next`).

Kafka has no such thing: it reads all partitions of a session for each fetch (decision 0084).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import NEVER_MS
from barnabas.runtime.locks import Lock

if TYPE_CHECKING:
    from mypy_extensions import i64

# Marks are set and taken without a lock between the threads. Two orders make sure that no move is missed: a thread that
# moves a partition marks it after the change, and a fetch takes the marks before it reads. A session has a-0 and b-0,
# both read to their ends:
#
#     a producer's thread    a fetch of the session          moved
#     appends 1 to b-0
#     marks b-0                                              b-0
#                            takes the marks: b-0            none
#     appends 2 to b-0
#                            reads b-0: records 1 and 2
#     marks b-0                                              b-0
#                            the next fetch reads b-0        none      one read for nothing, and no more
#
# Were a partition marked before its change, the fetch could take the mark, read the old end, and leave the partition
# out while a record is in the log. Were marks taken after the read, the second one would go away although record 2 may
# have come after the read. For the same reason a session watches a partition before it reads it for the first time.


class SessionWatch:
    """The marks of one session. It is also the key under which the session's fetch waits in the purgatory.

    moved: added to by any thread, taken away under the session's lock. Only single operations of the set are used,
    which are atomic on every build of Python. polled_ms: a monotonic time at which the session has everything of the
    partitions that it leaves out. reads_to_end: a follower's session, whose fetches do not wait for the high watermark.
    """

    __slots__ = ("moved", "polled_ms", "reads_to_end")

    def __init__(self, *, reads_to_end: bool) -> None:
        self.moved: set[TopicPartition] = set()
        self.polled_ms: i64 = NEVER_MS
        self.reads_to_end = reads_to_end

    def take_moved(self) -> list[TopicPartition]:
        """Take the marks away, one by one: a mark that another thread sets is taken, or stays for the next time."""
        moved = self.moved
        taken = []
        while moved:
            taken.append(moved.pop())
        return taken


class SessionWatches:
    """The watches of all sessions, by partition.

    by_partition: the tuples are replaced and never changed. Other modules look keys up, or ask whether it is empty.
    """

    __slots__ = ("_lock", "by_partition")

    def __init__(self) -> None:
        self._lock = Lock()
        self.by_partition: dict[TopicPartition, tuple[SessionWatch, ...]] = {}

    def add(self, watch: SessionWatch, partitions: Iterable[TopicPartition]) -> None:
        """Mark these partitions in `watch` from now on, when they move. Each is added once."""
        with self._lock:
            for partition in partitions:
                self.by_partition[partition] = (*self.by_partition.get(partition, ()), watch)

    def remove(self, watch: SessionWatch, partitions: Iterable[TopicPartition]) -> None:
        """Stop marking these partitions in `watch`."""
        with self._lock:
            for partition in partitions:
                left = tuple(each for each in self.by_partition.get(partition, ()) if each is not watch)
                if left:
                    self.by_partition[partition] = left
                else:
                    self.by_partition.pop(partition, None)

    def mark(self, partition: TopicPartition) -> bool:
        """Mark a partition that has moved, in every session that has it; return whether there is one.

        Called after the change, on any thread.
        """
        watches = self.by_partition.get(partition)
        if watches is None:
            return False
        for watch in watches:
            watch.moved.add(partition)
        return True
