"""A produce with acks=all that waits until every in-sync replica has its records.

Made by ReplicaAppender, tried whenever a high watermark moves or leadership changes, expired by the timer.
Kafka: DelayedProduce, DelayedProduceMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MBeanName, Sample
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.delayed_operation import DelayedOperation
from barnabas.replica.partitions.hosted_partitions import HostedPartitions
from barnabas.replica.partitions.partition_append import PartitionAppend

_REPLICATED: Final = ErrorCode.NONE
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_GROUP: Final = "kafka.server"
_KIND: Final = "DelayedProduceMetrics"
_NAME: Final = "ExpiresPerSec"
_DESCRIPTION: Final = "Batches that waited in vain for replicas"


class ProduceExpirations:
    """The batches whose wait timed out, of all partitions and of each. A metric family.

    Only the expiration executor's thread counts. `by_partition` is replaced by one assignment for a new partition, so
    that readers need no lock.
    """

    def __init__(self) -> None:
        self.total = Meter()
        self.by_partition: dict[TopicPartition, Meter] = {}

    def count(self, entries: Iterable[PartitionAppend]) -> None:
        """Count one expiration for each entry."""
        for entry in entries:
            self.total.count += 1
            key = TopicPartition(entry.topic, entry.partition)
            if key not in self.by_partition:
                self.by_partition = {**self.by_partition, key: Meter()}
            self.by_partition[key].count += 1

    def samples(self) -> Iterator[Sample]:
        """Yield the meter of all partitions, and one for each that had an expiration."""
        yield Sample(MBeanName(_GROUP, _KIND, _NAME), self.total.count, _DESCRIPTION, self.total.rates)
        for key, meter in self.by_partition.items():
            tags = (("topic", key.topic), ("partition", str(key.partition)))
            yield Sample(MBeanName(_GROUP, _KIND, _NAME, tags), meter.count, _DESCRIPTION, meter.rates)

    def tick(self, elapsed_seconds: float) -> None:
        """Bring the rates up to date."""
        for meter in (self.total, *self.by_partition.values()):
            meter.tick(elapsed_seconds)


class DelayedProduce(DelayedOperation):
    """A wait that completes when every partition is decided.

    Case A: this broker does not host the partition any more. The answer is the error that says why
            (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR).
    Case B: this broker does not lead the partition any more. The answer is NOT_LEADER_OR_FOLLOWER.
    Case C: the high watermark reached the required offset. The answer is success, or NOT_ENOUGH_REPLICAS_AFTER_APPEND
            when the in-sync replicas are fewer than `min.insync.replicas` by then.
    On time-out an undecided partition answers REQUEST_TIMED_OUT.

    expirations: counts the partitions that timed out.
    """

    __slots__ = ("_entries", "_expirations", "_hosted", "_on_decided", "_undecided")

    def __init__(
        self,
        timeout_ms: int,
        entries: list[PartitionAppend],
        hosted: HostedPartitions,
        on_complete: Callable[[Sequence[PartitionAppend]], None],
        expirations: ProduceExpirations,
    ) -> None:
        super().__init__(timeout_ms)
        self._entries = entries
        self._undecided = [entry for entry in entries if entry.hosted_by is not None]
        self._hosted = hosted
        self._on_decided = on_complete
        self._expirations = expirations

    def try_complete(self) -> bool:
        """Decide the partitions that can be decided, by cases A to C of the class."""
        still_undecided: list[PartitionAppend] = []
        for entry in self._undecided:
            outcome = self._outcome(entry)
            if outcome is None:
                still_undecided.append(entry)
            elif outcome is not _REPLICATED:
                entry.failure = ApiError(outcome)
        # A new list, since the timer may be completing the operation with the old one.
        self._undecided = still_undecided
        return not still_undecided and self.force_complete()

    def _outcome(self, entry: PartitionAppend) -> ErrorCode | None:
        partition, info = entry.hosted_by, entry.info
        required_offset = -1 if info is None else info.last_offset + 1
        outcome = _NOT_LEADER if partition is None else partition.is_replicated_up_to(required_offset)
        if outcome is not _NOT_LEADER:
            return outcome
        try:
            # A replica that has left this broker leads no more; why it left, or where it is again, the table says.
            return self._hosted.partition_or_error(entry.topic, entry.partition).is_replicated_up_to(required_offset)
        except ApiError as error:
            return error.code

    def on_complete(self) -> None:
        """Answer. Partitions still undecided have timed out."""
        for entry in self._undecided:
            entry.failure = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        self._on_decided(self._entries)

    def on_expiration(self) -> None:
        """Count the partitions that timed out."""
        self._expirations.count(self._undecided)
