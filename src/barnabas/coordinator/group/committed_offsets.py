"""The committed offsets of a group, in the form in which the log stores them.

Owned by a `Group`, whose lock guards everything in it. Values stay the bytes of `__consumer_offsets`: a commit has
encoded them anyway, loading a million of them decodes nothing, and the garbage collector does not visit bytes. They are
decoded when a client fetches them.

A commit whose records are in the local log but not yet with all in-sync replicas is *waiting*: no fetch sees it, and
expiry and deletion of the group leave its partition alone. Positions are offsets in the log of `__consumer_offsets`.
They say which of two commits is the later one, in whatever order the replicas' answers come.

Offsets committed inside a transaction (KIP-98) are *transactional* until its marker comes: they make their partitions
unstable (KIP-447), and count when the transaction commits, unless a plain commit came later.

Two commits of one partition, of 5 at position 10 and of 7 at position 11, whose answers come in the other order:

    begin_waiting(5), begin_waiting(7)   a fetch sees the offset of before; two commits wait
    end_waiting(7, position 11)          7 counts; the position 11 is remembered while a commit waits
    end_waiting(5, position 10)          10 < 11: 5 is the earlier commit, and is dropped

Kafka: GroupMetadata (offsets, pendingOffsetCommits, pendingTransactionalOffsetCommits).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.coordinator.group.offsets_topic import CommittedOffset, committed_offset

PartitionKey = tuple[str, int]
"""Topic and partition."""
TransactionalOffsets = dict[PartitionKey, "tuple[int, bytes | None]"]
"""By partition: the position of the commit and its value, None once a plain commit came later."""

OffsetValues = dict[str, dict[int, bytes]]
"""New offsets, at least one of each topic: topic -> partition -> the value of the record in `__consumer_offsets`."""

END_OF_ALL: Final = 2**63 - 1
"""A position that every commit lies before."""
_NONE: Final[Mapping[int, bytes]] = MappingProxyType({})


class StoredOffset(NamedTuple):
    """An offset that is committed. value: of its record in `__consumer_offsets`."""

    topic: str
    partition: int
    value: bytes


class CommittedOffsets:
    """The committed offsets by topic and partition.

    topics: offsets that were loaded; the object owns them afterwards. transactional: of open transactions, by producer
    id; owned likewise.
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
        """The number of commits of each partition that wait for replicas; None while no commit waits."""
        self._later: dict[PartitionKey, int] | None = None
        """While commits wait: the position of the newest commit that counts, so that no earlier one replaces it."""

    # -- reading

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset of a partition. Raises DecodeError when its value cannot be read."""
        value = self._topics.get(topic, _NONE).get(partition)
        return None if value is None else committed_offset(value)

    def of_topic(self, topic: str) -> Mapping[int, bytes]:
        """Return the values of a topic's partitions."""
        return self._topics.get(topic, _NONE)

    def __iter__(self) -> Iterator[StoredOffset]:
        """Yield every committed offset."""
        for topic, partitions in self._topics.items():
            for partition, value in partitions.items():
                yield StoredOffset(topic, partition, value)

    def __len__(self) -> int:
        """Return the number of committed offsets."""
        return sum(map(len, self._topics.values()))

    @property
    def topics(self) -> list[str]:
        """The topics with committed offsets."""
        return list(self._topics)

    @property
    def is_empty(self) -> bool:
        """Whether no offset is committed, waiting, or transactional."""
        return not (self._topics or self._waiting or self._transactional)

    @property
    def partitions(self) -> list[PartitionKey]:
        """The partitions with an offset that is committed, waiting, or transactional: they have records in the log."""
        committed = [(topic, partition) for topic, partitions in self._topics.items() for partition in partitions]
        return list(dict.fromkeys([*committed, *self.unstable, *(self._waiting or ())]))

    def is_waiting(self, topic: str, partition: int) -> bool:
        """Return whether a commit of the partition waits for replicas."""
        return self._waiting is not None and (topic, partition) in self._waiting

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Return whether an open transaction has committed an offset of the partition (KIP-447)."""
        if self._transactional is None:
            return False
        key = (topic, partition)
        return any(key in offsets for offsets in self._transactional.values())

    @property
    def unstable(self) -> list[PartitionKey]:
        """The partitions with an offset of an open transaction."""
        return list({key for offsets in (self._transactional or {}).values() for key in offsets})

    @property
    def producers(self) -> list[int]:
        """The producers whose open transactions have committed offsets."""
        return list(self._transactional or ())

    # -- committing

    def put_all(self, offsets: OffsetValues, position: int) -> None:
        """Make these offsets the committed ones: their records are stored. position: of their batch in the log."""
        # The usual case in line: no commit waits, no transaction is open, so no other position can be later.
        if self._waiting is None and self._transactional is None:
            topics = self._topics
            for topic, values in offsets.items():
                of_topic = topics.get(topic)
                if of_topic is None:
                    topics[topic] = values.copy()
                else:
                    of_topic.update(values)
            return
        for topic, values in offsets.items():
            for partition, value in values.items():
                self._put(topic, partition, value, position)

    def begin_waiting(self, offsets: OffsetValues) -> None:
        """Mark commits as waiting: their records are in the local log. `end_waiting` follows, with the result."""
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = {}
        for topic, values in offsets.items():
            for partition in values:
                key = (topic, partition)
                waiting[key] = waiting.get(key, 0) + 1

    def end_waiting(self, offsets: OffsetValues, position: int, *, is_stored: bool) -> None:
        """End the wait of these commits; they count if the replicas have them."""
        waiting = self._waiting or {}
        for topic, values in offsets.items():
            for partition, value in values.items():
                if is_stored:
                    self._put(topic, partition, value, position)
                key = (topic, partition)
                left = waiting.get(key, 0) - 1
                if left > 0:
                    waiting[key] = left
                else:
                    waiting.pop(key, None)
        # Without a waiting commit the next one has a higher position than every earlier one: nothing is to be compared.
        if not waiting:
            self._waiting = self._later = None

    def _put(self, topic: str, partition: int, value: bytes, position: int) -> None:
        key = (topic, partition)
        # A replica's answer to an earlier commit may come last. The log decides, as it does for the next coordinator.
        if self._waiting is not None:
            later = self._later
            if later is None:
                later = self._later = {}
            if later.get(key, -1) > position:
                return
            later[key] = position
        # An open transaction that committed the partition earlier must not undo this when it commits.
        for transactional in (self._transactional or {}).values():
            found = transactional.get(key)
            if found is not None and found[0] < position:
                transactional[key] = (found[0], None)
        self._topics.setdefault(topic, {})[partition] = value

    # -- transactions

    def put_transactional(self, producer_id: int, offsets: OffsetValues, position: int) -> None:
        """Add commits inside the producer's open transaction. position: of their batch in the log."""
        open_transactions = self._transactional
        if open_transactions is None:
            open_transactions = self._transactional = {}
        transactional = open_transactions.setdefault(producer_id, {})
        for topic, values in offsets.items():
            for partition, value in values.items():
                transactional[topic, partition] = (position, value)

    def has_transaction(self, producer_id: int) -> bool:
        """Return whether an open transaction of the producer has committed an offset."""
        return self._transactional is not None and producer_id in self._transactional

    def end_transaction(self, producer_id: int, *, is_committed: bool, before: int = END_OF_ALL) -> None:
        """End the producer's transaction; its offsets count if it is committed.

        before: the position of the marker. Commits behind it are part of the producer's next transaction.
        """
        open_transactions = self._transactional or {}
        offsets = open_transactions.pop(producer_id, {})
        later = {key: commit for key, commit in offsets.items() if commit[0] >= before}
        if later:
            open_transactions[producer_id] = later
        if not open_transactions:
            self._transactional = None
        if is_committed:
            for (topic, partition), (position, value) in offsets.items():
                if value is not None and position < before:
                    self._put(topic, partition, value, position)

    # -- removing

    def remove(self, topic: str, partition: int, position: int = -1) -> bool:
        """Remove the offset of a partition, also inside transactions; return whether there was one.

        position: of the tombstone in the log. A waiting commit before it will not count, as it would not for a
        coordinator that loads the group. Kafka: GroupMetadata.removeOffsets.
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
