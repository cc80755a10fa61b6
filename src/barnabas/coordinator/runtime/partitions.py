"""The partitions of a coordinator's topic that this broker coordinates, and the partition in which an id is kept.

Late: made by `broker` when a coordinator is looked for or built.
The topic is `__consumer_offsets` for groups, and `__transaction_state` for transactional ids: below, an id is either.
`CoordinatorLoader` and the coordinator change a partition's state, on scheduler and handler threads, under `_lock`,
which is held for nothing else; requests read without it: `_states` is replaced, never changed. The state of a partition
carries the leader epoch of the order it follows from, so that orders that overtake each other do no harm.
Kafka: GroupMetadataManager (loadingPartitions, ownedPartitions, epochForPartitionId), TransactionStateManager
(loadingPartitions, transactionMetadataCache), GroupCoordinator.validateGroupStatus, String.hashCode, Utils.abs.
"""

from __future__ import annotations

import threading
from enum import Enum
from functools import lru_cache
from typing import Final

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.protocol.errors import ErrorCode

_REMEMBERED_HASHES: Final = 1 << 13
"""The number of ids whose hashes are cached: clients choose ids, and 65,536 of them took 16 MB."""
_LONGEST_REMEMBERED: Final = 100
"""The longest id whose hash is cached, in characters: real ids are shorter. The text of a longer one may be a block of
its own in the heap, which would keep what is around it from being given back."""
_MASK: Final = 0xFFFFFFFF


class PartitionStage(Enum):
    """Whether a partition that this broker leads is loaded."""

    LOADING = "loading"
    ACTIVE = "active"


_LOADING: Final = PartitionStage.LOADING
_SERVED: Final = ErrorCode.NONE


class PartitionStatus:
    """The stage, and the leader epoch of the order to lead. Immutable."""

    __slots__ = ("leader_epoch", "stage")

    def __init__(self, stage: PartitionStage, leader_epoch: int) -> None:
        self.stage = stage
        self.leader_epoch = leader_epoch

    def is_loading_in(self, leader_epoch: int) -> bool:
        """Return whether the loading that began in this epoch goes on."""
        return self.stage is _LOADING and self.leader_epoch == leader_epoch


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, made positive as by Kafka's Utils.abs. Cached: every request asks for one."""
    return _remembered_hash(text) if len(text) <= _LONGEST_REMEMBERED else _computed_hash(text)


def hash_code(text: str) -> int:
    """Return Java's String.hashCode, as an unsigned number of 32 bits."""
    result = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        result = (31 * result + (encoded[position] << 8 | encoded[position + 1])) & _MASK
    return result


def _computed_hash(text: str) -> int:
    result = hash_code(text)
    # The smallest number of Java has no positive counterpart: Utils.abs makes it 0.
    if result == 0x80000000:
        return 0
    return result if result < 0x80000000 else 0x100000000 - result


_remembered_hash: Final = lru_cache(_REMEMBERED_HASHES)(_computed_hash)


class CoordinatorPartitions:
    """The state of each partition, and the partition of each id.

    configured_count: the number of partitions by the settings, which counts until the topic exists.
    """

    def __init__(self, topic: str, metadata: MetadataCache, configured_count: int) -> None:
        self.topic = topic
        self._configured_count = configured_count
        self._count = configured_count
        self._lock = threading.Lock()
        self._states: dict[int, PartitionStatus] = {}
        self._epochs: dict[int, int] = {}
        """The newest leader epoch of each partition, also of partitions that other brokers lead."""
        self._is_started = False
        self._note_count(metadata.image)
        metadata.subscribe(self._metadata_changed)

    # -- read by every request

    def partition_for(self, coordinated_id: str) -> int:
        """Return the partition of an id's records. Kafka: Utils.abs(groupId.hashCode) % partitions."""
        return java_hash(coordinated_id) % self._count

    def check(self, coordinated_id: str) -> ErrorCode:
        """Return NONE if this broker coordinates the id now, or the error for its clients."""
        # No lock: `_states` is replaced as a whole, so this reads one consistent version of it.
        status = self._states.get(java_hash(coordinated_id) % self._count)
        if not self._is_started:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if status is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if status.stage is _LOADING else _SERVED

    @property
    def is_started(self) -> bool:
        """Whether this broker's coordinator has been started, and not stopped."""
        return self._is_started

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded (Kafka: isLoading, for ListGroups)."""
        return any(status.stage is PartitionStage.LOADING for status in self._states.values())

    def status(self, partition: int) -> PartitionStatus | None:
        """Return the status of a partition, None if this broker does not coordinate it."""
        return self._states.get(partition)

    @property
    def active(self) -> list[int]:
        """The partitions that this broker coordinates, and has loaded."""
        return [partition for partition, status in self._states.items() if status.stage is PartitionStage.ACTIVE]

    # -- changed by the coordinator

    def start(self) -> None:
        """Serve requests from now on."""
        self._is_started = True

    def stop(self) -> None:
        """Stop serving requests."""
        self._is_started = False

    def begin_loading(self, partition: int, leader_epoch: int) -> bool:
        """Mark the partition as being loaded; return False if this order to lead is not newer than the last one."""
        with self._lock:
            # Orders come from several threads. An older one that arrives late must not undo a newer one.
            if leader_epoch <= self._epochs.get(partition, -1):
                return False
            self._epochs[partition] = leader_epoch
            self._states = {**self._states, partition: PartitionStatus(PartitionStage.LOADING, leader_epoch)}
            return True

    def is_loading_in(self, partition: int, leader_epoch: int) -> bool:
        """Return whether the loading that began in this epoch is still wanted."""
        status = self._states.get(partition)
        return status is not None and status.is_loading_in(leader_epoch)

    def end_loading(self, partition: int, leader_epoch: int) -> bool:
        """Mark the partition as active: it is loaded. Return False if the loading is no longer wanted."""
        with self._lock:
            if not self.is_loading_in(partition, leader_epoch):
                return False
            self._states = {**self._states, partition: PartitionStatus(PartitionStage.ACTIVE, leader_epoch)}
            return True

    def resign(self, partition: int, leader_epoch: int | None) -> bool:
        """Give up a partition that this broker no longer leads; return whether it led it.

        Return False also when there was a newer order. leader_epoch None: the partition is deleted, whatever its epoch.
        """
        with self._lock:
            known = self._epochs.get(partition, -1)
            if leader_epoch is not None:
                if leader_epoch < known:
                    return False
                self._epochs[partition] = leader_epoch
            else:
                self._epochs.pop(partition, None)  # a topic of the same name begins with the first epoch
            # A loading that is under way notices by itself that the partition is no longer its own (`end_loading`).
            if partition not in self._states:
                return False
            self._states = {number: status for number, status in self._states.items() if number != partition}
            return True

    # -- metadata

    def _metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.topics.get(self.topic) is not new.topics.get(self.topic):
            had = self.topic in old.topics
            if not had or self.topic not in new.topics:
                self._note_count(new)

    def _note_count(self, image: MetadataImage) -> None:
        """Fix the number of partitions when the topic appears: ids stay in their partitions if it grows later."""
        topic = image.topics.get(self.topic)
        self._count = self._configured_count if topic is None else len(topic.partitions)
