"""The committed offsets of a group, as they lie in the log.

Owned by a `Group`, whose lock guards everything in it. Values stay the bytes of `__consumer_offsets`: a commit has made
them anyway, loading a million of them decodes nothing, and the garbage collector has nothing to visit; they are decoded
when somebody asks.

A commit whose records are in the local log but not yet with all in-sync replicas is *waiting*: nobody sees it, and
neither expiry nor deletion of the group goes past it. Positions are offsets in the log of `__consumer_offsets`: they
say which of two commits is the later one, in whatever order the replicas' answers come.

Offsets committed inside a transaction (KIP-98) are *transactional* until its marker comes: they make their partitions
unstable (KIP-447), and count when it commits, unless a plain commit came later.

Kafka: GroupMetadata (offsets, pendingOffsetCommits, pendingTransactionalOffsetCommits).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.coordinator.group.log.schemas import CommittedOffset, committed_offset

PartitionKey = tuple[str, int]
"""Topic and partition."""
TransactionalOffsets = dict[PartitionKey, "tuple[int, bytes | None]"]
"""By partition: position of the commit, and its value; None once a plain commit came later."""

_NONE: Final[Mapping[int, bytes]] = MappingProxyType({})


class NewOffset(NamedTuple):
    """An offset that is committed. value: of its record in `__consumer_offsets`."""

    topic: str
    partition: int
    value: bytes


class CommittedOffsets:
    """By topic and partition.

    topics: what was loaded; belongs to this object afterwards. transactional: open transactions by producer id, too.
    """

    __slots__ = ("_later", "_topics", "_transactional", "_waiting")

    def __init__(
        self,
        topics: dict[str, dict[int, bytes]] | None = None,
        transactional: dict[int, TransactionalOffsets] | None = None,
    ) -> None:
        self._topics: dict[str, dict[int, bytes]] = {} if topics is None else topics
        self._transactional = transactional or None
        self._waiting: dict[PartitionKey, int] | None = None
        """How many commits of the partition wait for replicas; None while there is none."""
        self._later: dict[PartitionKey, int] | None = None
        """While commits wait: the position of the newest that counted, so that no earlier one replaces it."""

    # -- reading

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition."""
        value = self._topics.get(topic, _NONE).get(partition)
        return None if value is None else committed_offset(value)

    def of_topic(self, topic: str) -> Mapping[int, bytes]:
        """The values of a topic's partitions."""
        return self._topics.get(topic, _NONE)

    def __iter__(self) -> Iterator[NewOffset]:
        """Every committed offset."""
        for topic, partitions in self._topics.items():
            for partition, value in partitions.items():
                yield NewOffset(topic, partition, value)

    def __len__(self) -> int:
        """Number of committed offsets."""
        return sum(map(len, self._topics.values()))

    @property
    def topics(self) -> list[str]:
        """The topics with committed offsets."""
        return list(self._topics)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is committed, nor about to be."""
        return not (self._topics or self._waiting or self._transactional)

    @property
    def partitions(self) -> list[PartitionKey]:
        """Every partition of which something is committed, or about to be: what a deleted group leaves in the log."""
        committed = [(topic, partition) for topic, partitions in self._topics.items() for partition in partitions]
        return list(dict.fromkeys([*committed, *self.unstable, *(self._waiting or ())]))

    def is_waiting(self, topic: str, partition: int) -> bool:
        """Whether a commit of the partition waits for replicas."""
        return self._waiting is not None and (topic, partition) in self._waiting

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset of the partition (KIP-447)."""
        if self._transactional is None:
            return False
        key = (topic, partition)
        return any(key in offsets for offsets in self._transactional.values())

    @property
    def unstable(self) -> list[PartitionKey]:
        """The partitions of which that is so."""
        return list({key for offsets in (self._transactional or {}).values() for key in offsets})

    # -- committing

    def put_all(self, offsets: Iterable[NewOffset], position: int) -> None:
        """These are committed: their records are where they have to be. position: of their batch in the log."""
        if self._waiting is None and self._transactional is None:
            topics = self._topics
            for topic, partition, value in offsets:
                of_topic = topics.get(topic)
                if of_topic is None:
                    topics[topic] = {partition: value}
                else:
                    of_topic[partition] = value
            return
        for topic, partition, value in offsets:
            self._put(topic, partition, value, position)

    def begin_waiting(self, offsets: Iterable[NewOffset]) -> None:
        """The records of these are in the local log; `end_waiting` says what became of them."""
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = {}
        for topic, partition, _ in offsets:
            key = (topic, partition)
            waiting[key] = waiting.get(key, 0) + 1

    def end_waiting(self, offsets: Iterable[NewOffset], position: int, *, is_stored: bool) -> None:
        """The replicas have them, or will not: then nothing is committed."""
        waiting = self._waiting or {}
        for topic, partition, value in offsets:
            if is_stored:
                self._put(topic, partition, value, position)
            key = (topic, partition)
            left = waiting.get(key, 0) - 1
            if left > 0:
                waiting[key] = left
            else:
                waiting.pop(key, None)
        if not waiting:
            self._waiting = self._later = None

    def _put(self, topic: str, partition: int, value: bytes, position: int) -> None:
        key = (topic, partition)
        if self._waiting is not None:
            later = self._later
            if later is None:
                later = self._later = {}
            if later.get(key, -1) > position:
                return
            later[key] = position
        for transactional in (self._transactional or {}).values():
            found = transactional.get(key)
            if found is not None and found[0] < position:
                transactional[key] = (found[0], None)
        self._topics.setdefault(topic, {})[partition] = value

    # -- transactions

    def put_transactional(self, producer_id: int, offsets: Iterable[NewOffset], position: int) -> None:
        """Committed inside the producer's transaction, which is open."""
        open_transactions = self._transactional
        if open_transactions is None:
            open_transactions = self._transactional = {}
        transactional = open_transactions.setdefault(producer_id, {})
        for topic, partition, value in offsets:
            transactional[topic, partition] = (position, value)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """The producer's transaction has ended."""
        open_transactions = self._transactional or {}
        offsets = open_transactions.pop(producer_id, {})
        if not open_transactions:
            self._transactional = None
        if is_committed:
            for (topic, partition), (position, value) in offsets.items():
                if value is not None:
                    self._put(topic, partition, value, position)

    # -- removing

    def remove(self, topic: str, partition: int, position: int = -1) -> bool:
        """Forget what is committed of a partition, also inside transactions; False if there was nothing.

        position: of the tombstone in the log: what waits for replicas and lies before it will not count, nor would it
        for a coordinator that loads the group. Kafka: GroupMetadata.removeOffsets.
        """
        key = (topic, partition)
        if self._waiting is not None and key in self._waiting:
            if self._later is None:
                self._later = {}
            self._later[key] = position
        found = False
        for producer_id, transactional in list((self._transactional or {}).items()):
            found |= transactional.pop(key, None) is not None
            if not transactional and self._transactional is not None:
                del self._transactional[producer_id]
        self._transactional = self._transactional or None
        of_topic = self._topics.get(topic)
        if of_topic is not None and of_topic.pop(partition, None) is not None:
            found = True
            if not of_topic:
                del self._topics[topic]
        return found
