"""The records of one partition in the answer to one fetch, decoded when they are taken.

Owned by the consumer's thread. Kafka: CompletedFetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import Buffer, RecordBatch


class CompletedFetch:
    """An iteration over records from `offset` on, without control batches; `next_offset` follows the returned ones.

    `last_epoch`: the leader epoch of the batch before `next_offset`, -1 while nothing was returned.
    """

    __slots__ = ("_aborted", "_aborting", "_records", "last_epoch", "next_offset", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        offset: int,
        buffer: Buffer,
        *,
        check_crcs: bool,
        aborted: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Make an iteration. `aborted`: first offset and producer id of each transaction whose records are left out.

        Only reads of committed records (`read_committed`) give some.
        """
        self.topic_partition = topic_partition
        self.next_offset = offset
        self.last_epoch = -1
        self._aborted = deque(sorted(aborted))
        self._aborting: set[int] = set()
        """The producers whose transaction at the current batch was aborted."""
        self._records = self._decode(buffer, check_crcs)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return up to `limit` records, or none at the end.

        Good records before a bad one are returned first: a fetch from `next_offset` then begins with the bad one.
        Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE when the answer holds no whole batch.
        """
        taken = []
        try:
            for record in self._records:
                taken.append(record)
                self.next_offset = record.offset + 1
                if len(taken) == limit:
                    break
        except (CorruptRecord, ApiError):
            if not taken:
                raise
        return taken

    def _is_aborted(self, batch: RecordBatch | LegacyBatch) -> bool:
        """Return whether the batch belongs to a transaction that was aborted (Kafka: isBatchAborted)."""
        # The broker lists aborted transactions by first offset. A producer is in `_aborting` from there until its
        # marker: its batches in between are left out, and later ones belong to its next transaction.
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        return isinstance(batch, RecordBatch) and batch.is_transactional and batch.producer_id in self._aborting

    def _pass_marker(self, batch: RecordBatch | LegacyBatch) -> None:
        """Pass the end of a transaction: later batches of its producer belong to another transaction."""
        if isinstance(batch, RecordBatch):
            self._is_aborted(batch)
            self._aborting.discard(batch.producer_id)

    def _decode(self, buffer: Buffer, check_crcs: bool) -> Iterator[ConsumerRecord]:
        """Yield the records. Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE without one whole batch."""
        topic, partition = self.topic_partition
        start = self.next_offset
        batches = 0
        try:
            for batch in any_batches(buffer):
                batches += 1
                # Fetches return whole batches: the first may begin, and after compaction even end, before the position.
                if batch.next_offset <= start:
                    continue
                if check_crcs:
                    batch.check()
                if batch.is_control:
                    self._pass_marker(batch)
                self.last_epoch = batch.partition_leader_epoch if isinstance(batch, RecordBatch) else -1
                if not (batch.is_control or self._is_aborted(batch)):
                    timestamp_type = batch.timestamp_type
                    for offset, timestamp, key, value, headers in batch.records():
                        if offset >= start:
                            yield ConsumerRecord(
                                topic, partition, offset, timestamp, timestamp_type, key, value, headers
                            )
                # Compaction may have removed the last records, and control batches have none for users.
                self.next_offset = max(self.next_offset, batch.next_offset)
        except CorruptRecord as error:
            raise CorruptRecord(
                f"Record batch for partition {self.topic_partition} at offset {self.next_offset} is invalid: {error}"
            ) from error
        if not batches and len(buffer):
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"There is a message of {self.topic_partition} at offset {start} that is larger than the fetch size",
            )
