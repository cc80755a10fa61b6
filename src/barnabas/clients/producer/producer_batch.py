"""Records of one partition on their way (Kafka: ProducerBatch).

Filled under the accumulator's lock; once closed it belongs to the sending thread. How it ended is decided once: of two
completions the first wins, by a test-and-set lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from enum import Enum
from typing import TypeAlias

from barnabas.clients.producer.compression_ratio import SAFETY_FACTOR
from barnabas.clients.producer.record_metadata import DeliveryCallback, RecordMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.producer_state import with_producer_state
from barnabas.records.record_batch import HEADER_SIZE, NO_SEQUENCE, Buffer, RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder, estimate_size

logger = logging.getLogger(__name__)

Headers = Sequence[tuple[str, Buffer | None]]


class FinalState(Enum):
    """How a batch ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


_Delivery: TypeAlias = tuple[Future[RecordMetadata], DeliveryCallback | None, int, int, int]
"""Who is to be told about one record: future, callback; timestamp, size of key and of value (-1: null)."""


class ProducerBatch:
    """`data` None: still being filled by `try_append`. Times are monotonic milliseconds."""

    __slots__ = (
        "_builder",
        "_decided",
        "_deliveries",
        "_finished",
        "_pieces",
        "allocated_bytes",
        "attempts",
        "base_sequence",
        "codec",
        "created_ms",
        "data",
        "drained_ms",
        "final_state",
        "in_flight",
        "is_closed",
        "last_attempt_ms",
        "producer_epoch",
        "producer_id",
        "record_count",
        "topic_partition",
        "uncompressed_bytes",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        codec: Codec,
        created_ms: int,
        *,
        allocated_bytes: int = 0,
        compression_level: int | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.codec = codec
        self.created_ms = created_ms
        self.allocated_bytes = allocated_bytes
        self.data: bytes | None = None
        self.is_closed = False
        """No more records; `close` has not necessarily been called."""
        self.attempts = 0
        self.last_attempt_ms = created_ms
        self.drained_ms = 0
        self.in_flight = False
        self.record_count = 0
        self.uncompressed_bytes = HEADER_SIZE
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.final_state: FinalState | None = None
        self._builder: RecordBatchBuilder | None = RecordBatchBuilder(codec, compression_level=compression_level)
        self._deliveries: list[_Delivery] = []
        self._pieces: list[ProducerBatch] = []
        """What became of it if it was split."""
        self._decided = threading.Lock()
        self._finished = threading.Event()

    @classmethod
    def ready_made(cls, topic_partition: TopicPartition, data: bytes, created_ms: int) -> ProducerBatch:
        """A batch that somebody else encoded. Raises CorruptRecord if it is none."""
        header = RecordBatch(data)
        header.check()
        batch = cls(topic_partition, header.codec, created_ms, allocated_bytes=len(data))
        batch._builder = None
        batch.data = data
        batch.is_closed = True
        batch.record_count = header.count
        batch.uncompressed_bytes = len(data)
        return batch

    # -- filling -----------------------------------------------------------------------------------------------------

    def try_append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers,
        callback: DeliveryCallback | None,
        *,
        size: int,
        limit_bytes: int,
        ratio: float,
        future: Future[RecordMetadata] | None = None,
    ) -> Future[RecordMetadata] | None:
        """Add a record of `size` bytes at most, unless the batch is closed or would exceed `limit_bytes`.

        How much is in it already is estimated by the compression `ratio`. The first record always fits. None means
        that a new batch is needed, and closes this one. `future` is that of a record that comes out of another batch.
        """
        builder = self._builder
        if self.is_closed or builder is None:
            return None
        if self.record_count and self.estimated_bytes(ratio) + size > limit_bytes:
            self.is_closed = True
            return None
        self.uncompressed_bytes = builder.append(timestamp_ms, key, value, headers)
        self.record_count += 1
        if future is None:
            future = Future()
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        self._deliveries.append((future, callback, timestamp_ms, key_size, value_size))
        return future

    def add_delivery(self, callback: DeliveryCallback | None) -> Future[RecordMetadata]:
        """For a ready-made batch: one future for all of it, which yields the first record's offset."""
        future: Future[RecordMetadata] = Future()
        self._deliveries.append((future, callback, -1, -1, len(self.data or b"")))
        return future

    def estimated_bytes(self, ratio: float) -> int:
        """Size on the wire, as far as is known."""
        if self.data is not None:
            return len(self.data)
        if self.codec is Codec.NONE:
            return self.uncompressed_bytes
        return HEADER_SIZE + int((self.uncompressed_bytes - HEADER_SIZE) * ratio * SAFETY_FACTOR)

    def is_full(self, limit_bytes: int, ratio: float) -> bool:
        """Whether it should be sent rather than filled."""
        return self.is_closed or self.data is not None or self.estimated_bytes(ratio) >= limit_bytes

    def close(self) -> float:
        """Encode the batch, if that has not been done; returns the compression ratio."""
        self.is_closed = True
        if self._builder is not None:
            self.data = self._builder.build()
            self._builder = None
        assert self.data is not None
        return (len(self.data) - HEADER_SIZE) / max(self.uncompressed_bytes - HEADER_SIZE, 1)

    def set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        """Write producer id, epoch and first sequence number into the encoded batch."""
        assert self.data is not None
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        self.data = with_producer_state(self.data, producer_id, epoch, base_sequence)

    @property
    def has_sequence(self) -> bool:
        """Whether sequence numbers have been assigned."""
        return self.base_sequence != NO_SEQUENCE

    # -- attempts and time -------------------------------------------------------------------------------------------

    def waited_ms(self, now_ms: int) -> int:
        """Since it was created, or since the last attempt failed."""
        return max(now_ms - self.last_attempt_ms, 0)

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Whether its time is over, in the queue or in flight."""
        return now_ms - self.created_ms >= delivery_timeout_ms

    def reenqueued(self, now_ms: int) -> None:
        """It goes back to the queue after a failed attempt."""
        self.attempts += 1
        self.last_attempt_ms = max(now_ms, self.last_attempt_ms)
        self.in_flight = False

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.final_state is not None

    def complete(self, base_offset: int, log_append_time_ms: int) -> bool:
        """The broker has it. False if it had ended before."""
        if not self._decide(FinalState.SUCCEEDED):
            return False
        topic, partition = self.topic_partition
        offset = base_offset
        for future, callback, timestamp_ms, key_size, value_size in self._deliveries:
            stamp_ms = timestamp_ms if log_append_time_ms < 0 else log_append_time_ms
            metadata = RecordMetadata(topic, partition, offset, stamp_ms, key_size, value_size)
            if offset >= 0:
                offset += 1
            _tell(future, callback, metadata, None)
        self._finish()
        return True

    def fail(self, error: Exception, record_errors: dict[int, str] | None = None) -> bool:
        """It will not arrive. With `record_errors`, those records are to blame, and the others failed with them."""
        return self._end_with(FinalState.FAILED, error, record_errors)

    def abort(self, error: Exception) -> bool:
        """The producer gives it up."""
        return self._end_with(FinalState.ABORTED, error, None)

    def _end_with(self, state: FinalState, error: Exception, record_errors: dict[int, str] | None) -> bool:
        if not self._decide(state):
            return False
        for index, delivery in enumerate(self._deliveries):
            one = error
            if record_errors:
                one = (
                    ApiError(ErrorCode.INVALID_RECORD, record_errors[index] or str(error))
                    if index in record_errors
                    else ApiError(
                        ErrorCode.INVALID_RECORD,
                        "Failed to append record because it was part of a batch"
                        " which had one more more invalid records",
                    )
                )
            _tell(delivery[0], delivery[1], None, one)
        self._finish()
        return True

    def _decide(self, state: FinalState) -> bool:
        if not self._decided.acquire(blocking=False):
            logger.debug("Batch of %s has ended already (%s), now %s", self.topic_partition, self.final_state, state)
            return False
        self.final_state = state
        return True

    def _finish(self) -> None:
        self._deliveries = []
        self._finished.set()

    def wait(self) -> None:
        """Wait until it, or all it was split into, has ended and everybody was told."""
        self._finished.wait()
        for piece in self._pieces:
            piece.wait()

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """Cut a batch that is too large into smaller ones, in order; its futures move to them, and it is over."""
        assert self.data is not None
        pieces: list[ProducerBatch] = []
        deliveries = list(self._deliveries)
        while len(deliveries) < self.record_count:  # a ready-made batch has one, which goes with its first record
            deliveries.append((Future(), None, -1, -1, -1))
        for record, (future, callback, *_) in zip(RecordBatch(self.data).records(), deliveries, strict=True):
            for attempt in (False, True):
                if not pieces or attempt:
                    piece = ProducerBatch(self.topic_partition, self.codec, self.created_ms)
                    piece.attempts = self.attempts
                    pieces.append(piece)
                appended = pieces[-1].try_append(
                    record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                    callback,
                    size=estimate_size(record.key, record.value, record.headers),
                    limit_bytes=limit_bytes,
                    ratio=1.0,
                    future=future,
                )
                if appended is not None:
                    break
        for piece in pieces:
            piece.close()
        self._pieces = pieces
        self._decide(FinalState.FAILED)
        self._finish()
        return pieces


def _tell(
    future: Future[RecordMetadata],
    callback: DeliveryCallback | None,
    metadata: RecordMetadata | None,
    error: Exception | None,
) -> None:
    if callback is not None:
        try:
            callback(metadata, error)
        except Exception:
            logger.exception("Error executing user-provided callback on message for %s", metadata)
    try:
        if error is not None:
            future.set_exception(error)
        elif metadata is not None:
            future.set_result(metadata)
    except InvalidStateError:
        logger.debug("The future of a record was cancelled")
