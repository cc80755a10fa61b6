"""The records of one partition in the answer to one fetch, decoded when they are taken, and the frame they lie in.

Made by the Fetcher, kept by the FetchBuffer; owned by the consumer's thread; no lock. `answer_batches` finds the
batches, `batch_records` decodes them, and `aborted_producers` says which are left out.
Kafka: CompletedFetch, FetchMetricsAggregator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.clients.aborted_producers import AbortedProducers
from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.fetch.answer_batches import AnswerBatches
from barnabas.clients.consumer.fetch.batch_records import BatchRecords, DecodedRecords, legacy_records
from barnabas.clients.consumer.fetch.fetch_metrics import Consumed, FetchMetrics
from barnabas.clients.consumer.fetch.uniform_records import WantedRecords
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch

_NOTHING = Consumed()


class AnswerFrame:
    """The frame of one answer, as long as records of its partitions are unread, and what was read of it.

    Shared by the completed fetches of the answer: it counts their buffers that are still read. `give_back` returns the
    frame to its pool; it is None for a small one. A frame of 64 KiB or more lies in a recycled buffer. When the records
    of every partition have been decoded or dropped, the buffer goes back to its pool, and the next answer needs no
    fresh memory: page faults would cost more than decoding. The JVM's heap is always mapped, so Kafka's consumer
    recycles no frames.
    """

    __slots__ = ("_consumed", "_give_back", "_held", "_metrics")

    def __init__(self, give_back: Callable[[], None] | None, metrics: FetchMetrics) -> None:
        self._give_back = give_back
        self._metrics = metrics
        self._held = 0
        self._consumed: dict[str, Consumed] = {}

    def hold(self) -> None:
        """Count one more buffer that is read."""
        self._held += 1

    def release(self, buffer: Buffer, topic: str, consumed: Consumed = _NOTHING) -> None:
        """Note that one of the buffers is not read any more, and what was read of it.

        The last one gives the frame back.
        """
        # A view that still exists would keep the frame out of its pool for good.
        if isinstance(buffer, memoryview):
            buffer.release()
        before = self._consumed.get(topic, _NOTHING)
        self._consumed[topic] = Consumed(before.record_bytes + consumed.record_bytes, before.records + consumed.records)
        self._held -= 1
        if not self._held:
            self._metrics.consumed(self._consumed)
            if self._give_back is not None:
                self._give_back()


class _Passed(NamedTuple):
    """A place in the answer: an offset, and the leader epoch of the batch before it."""

    next_offset: int
    last_epoch: int


class _GivenBack(NamedTuple):
    """Batches that were taken whole, but not used. They are read before the cursor goes on."""

    batches: deque[RecordBatch | LegacyBatch]
    passed: _Passed
    """The place behind the last of them, which control batches may have moved further."""


class CompletedFetch:
    """The records from `offset` on, without control batches; `next_offset` follows the records that were taken.

    `last_epoch`: the leader epoch of the batch before `next_offset`, -1 while nothing was taken.
    """

    __slots__ = (
        "_aborted",
        "_batches",
        "_check_crcs",
        "_frame",
        "_given_back",
        "_record_count",
        "_records",
        "_start",
        "last_epoch",
        "next_offset",
        "topic_partition",
        "unread_bytes",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        offset: int,
        buffer: Buffer,
        *,
        check_crcs: bool,
        aborted: Sequence[FetchResponse.AbortedTransaction] = (),
        frame: AnswerFrame | None = None,
    ) -> None:
        """Take over the batches of an answer. `aborted`: the transactions whose records are left out.

        Only reads of committed records (`read_committed`) give some. frame: the answer that holds the buffer.
        """
        self.topic_partition = topic_partition
        self.next_offset = offset
        self.last_epoch = -1
        self.unread_bytes = len(buffer)
        """The size of the batches from the one that is being read."""
        self._start = offset
        self._batches = AnswerBatches(buffer)
        self._check_crcs = check_crcs
        self._frame = frame
        self._aborted = AbortedProducers(aborted) if aborted else None
        self._records: BatchRecords | DecodedRecords | None = None
        self._record_count = 0
        self._given_back: _GivenBack | None = None

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch: where the next fetch of the partition begins."""
        return self._batches.end_offset(self._start)

    def close(self) -> None:
        """Give the buffer back: no more records are taken. Idempotent."""
        frame, self._frame = self._frame, None
        buffer = self._batches.close()
        self._records = None
        if frame is not None:
            read_bytes = len(buffer) - self.unread_bytes
            frame.release(buffer, self.topic_partition.topic, Consumed(read_bytes, self._record_count))
        self.unread_bytes = 0

    # -- taking

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return up to `limit` records, or none at the end.

        Good records before a bad one are returned first: a fetch from `next_offset` then begins with the bad one.
        Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE when the answer holds no whole batch.
        """
        taken: list[ConsumerRecord] = []
        try:
            while len(taken) < limit:
                some = self._take_uniform(limit - len(taken))
                if not some:
                    if self._records is None and not self._begin_batch():
                        break
                    some = self._take_from_batch(limit - len(taken))
                # Nearly always one batch has all records that are wanted, or the list is empty: no copy.
                if taken:
                    taken += some
                else:
                    taken = some
        except CorruptRecord as error:
            if taken:
                return taken
            raise self._named(error) from error
        return taken

    def take_batches(self, limit_bytes: int) -> list[RecordBatch | LegacyBatch]:
        """Return whole batches, one at least unless this is the end, and move behind them.

        The first may hold records before `next_offset` as it was. Good batches before a bad one are returned first.
        Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE when the answer holds no whole batch.
        """
        taken: list[RecordBatch | LegacyBatch] = []
        if self._records is not None:
            # `take` stopped within this batch.
            begun = self._records.batch
            self._records = None
            self._put_back([begun], _Passed(max(self.next_offset, begun.next_offset), _epoch_of(begun)))
        size = 0
        try:
            while size < limit_bytes and (batch := self._next_readable()) is not None:
                taken.append(batch)
                size += batch.end - batch.position
                self._pass_batch(batch)
        except CorruptRecord as error:
            self._batches.damage = str(error)
            if not taken:
                raise self._named(error) from error
        return taken

    def give_back(self, batches: Sequence[RecordBatch | LegacyBatch], next_offset: int, last_epoch: int) -> None:
        """Take back batches of `take_batches`, the last ones that it returned, from `next_offset` in the first one on.

        last_epoch: the leader epoch of the batch before `next_offset`.
        """
        # The batches are kept as they are. A second walk from here would judge aborted transactions by markers that
        # it has passed already.
        self._put_back(batches, _Passed(self.next_offset, self.last_epoch))
        self._start = self.next_offset = next_offset
        self.last_epoch = last_epoch
        self.unread_bytes = self._batches.size - batches[0].position

    def _put_back(self, batches: Sequence[RecordBatch | LegacyBatch], passed: _Passed) -> None:
        """Keep batches for the next reader. `passed`: the place behind them, unless more were given back before."""
        if self._given_back is None:
            self._given_back = _GivenBack(deque(), passed)
        self._given_back.batches.extendleft(reversed(batches))

    def count(self, records: int) -> None:
        """Count records that were made of batches that were taken whole, for the metrics."""
        self._record_count += records

    def _named(self, error: CorruptRecord) -> CorruptRecord:
        return CorruptRecord(
            f"Record batch for partition {self.topic_partition} at offset {self.next_offset} is invalid: {error}"
        )

    def _take_uniform(self, limit: int) -> list[ConsumerRecord]:
        """Return the records of the next uniform batches, at most `limit`; none if the next one needs more care.

        Records of the last batch that are too many are kept for the next call.
        """
        if self._records is not None or self._aborted is not None or self._given_back is not None:
            return []
        batches = self._batches
        uniform = batches.take_uniform(WantedRecords(self.topic_partition, self._start, limit, self._check_crcs))
        if uniform is None:
            return []
        records = uniform.records
        self.last_epoch = uniform.leader_epoch
        if len(records) > limit:
            self._records = DecodedRecords(batches.batch_at(uniform.last), records[limit:])
            del records[limit:]
            self.next_offset = records[-1].offset + 1
            self.unread_bytes = batches.size - uniform.last
        else:
            self.next_offset = max(self.next_offset, uniform.next_offset)
            self.unread_bytes = batches.size - uniform.end
        self._record_count += len(records)
        return records

    def _take_from_batch(self, limit: int) -> list[ConsumerRecord]:
        records = self._records
        assert records is not None
        taken = records.take(limit)
        # Fetches return whole batches: the first may begin before the position.
        if taken and taken[0].offset < self._start:
            taken = [record for record in taken if record.offset >= self._start]
        if taken:
            self.next_offset = taken[-1].offset + 1
            self.last_epoch = _epoch_of(records.batch)
            self._record_count += len(taken)
        if records.is_done:
            self._records = None
            self._pass_batch(records.batch)
        return taken

    def _begin_batch(self) -> bool:
        """Go on to the next batch with records for the user. Returns False at the end.

        Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE.
        """
        batch = self._next_readable()
        if batch is None:
            return False
        self._records = (
            BatchRecords(self.topic_partition, batch, self._batches.shapes)
            if isinstance(batch, RecordBatch)
            else legacy_records(self.topic_partition, batch)
        )
        return True

    def _next_readable(self) -> RecordBatch | LegacyBatch | None:
        """Return the next batch with records for the user, or None at the end.

        Raises CorruptRecord, and ApiError: MESSAGE_TOO_LARGE.
        """
        if self._given_back is not None and self._given_back.batches:
            return self._given_back.batches.popleft()
        while (batch := self._batches.next()) is not None:
            # After compaction, the first batch may even end before the position.
            if batch.next_offset <= self._start:
                continue
            if self._check_crcs:
                batch.check()
            if batch.is_control:
                if self._aborted is not None:
                    self._aborted.pass_marker(batch)
            elif self._aborted is None or not self._aborted.has_batch(batch):
                return batch
            self._pass_batch(batch)
        if self._batches.has_no_whole_batch:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"There is a message of {self.topic_partition} at offset {self._start} that is larger than the fetch"
                " size",
            )
        return None

    def _pass_batch(self, batch: RecordBatch | LegacyBatch) -> None:
        # Compaction may have removed the last records, and control batches have none for users.
        self.next_offset = max(self.next_offset, batch.next_offset)
        self.last_epoch = _epoch_of(batch)
        self.unread_bytes = self._batches.size - batch.end
        if self._given_back is not None and not self._given_back.batches:
            self.next_offset, self.last_epoch = self._given_back.passed
            self._given_back = None


def _epoch_of(batch: RecordBatch | LegacyBatch) -> int:
    return batch.partition_leader_epoch if isinstance(batch, RecordBatch) else -1
