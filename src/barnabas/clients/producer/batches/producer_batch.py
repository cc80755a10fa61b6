"""A batch of records of one partition, until the broker has answered, and the estimates by which batches are filled.

Filled under the accumulator's lock, which guards the estimates, too; once closed, a batch belongs to the sending
thread, which ends, splits or retries it by `completion_of`. Kafka: ProducerBatch, CompressionRatioEstimator, Sender.
"""

from __future__ import annotations

from concurrent.futures import Future
from enum import Enum

from barnabas.clients.producer.batches.deliveries import Deliveries, Delivery, FinalState, RecordFuture
from barnabas.clients.producer.producer_record import DeliveryCallback, ProducerRecord, RecordMetadata
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch import (
    HEADER_SIZE,
    NO_SEQUENCE,
    EncodedBatch,
    RecordBatch,
    with_checksum,
    with_producer_state,
)
from barnabas.records.record_batch_builder import RecordBatchBuilder, estimate_size

_NO_CODEC = Codec.NONE

# Kafka's constants: COMPRESSION_RATIO_IMPROVING_STEP and COMPRESSION_RATIO_DETERIORATE_STEP.
_RATIO_IMPROVING_STEP = 0.005
_RATIO_DETERIORATE_STEP = 0.05
_RATIO_SAFETY_FACTOR = 1.05


class CompressionRatioEstimator:
    """The estimates of compressed size / uncompressed size, per topic and codec.

    An estimate begins at 1. It falls slowly and rises quickly, because a batch that turns out too large must be split.
    """

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, Codec], float] = {}

    def estimate(self, topic: str, codec: Codec) -> float:
        """Return the estimate, 1.0 for a topic never seen."""
        return 1.0 if codec is Codec.NONE else self._ratios.get((topic, codec), 1.0)

    def observe(self, topic: str, codec: Codec, ratio: float) -> None:
        """Take the ratio of a compressed batch into the estimate."""
        # Too low an estimate makes batches that the broker rejects and that must be split; too high a one only makes
        # them smaller than they could be.
        current = self.estimate(topic, codec)
        if ratio > current:
            self._ratios[topic, codec] = max(current + _RATIO_DETERIORATE_STEP, ratio)
        elif ratio < current:
            self._ratios[topic, codec] = max(current - _RATIO_IMPROVING_STEP, ratio)

    def reset(self, topic: str, codec: Codec, ratio: float) -> None:
        """Expect no compression at all, because a batch was too large."""
        self._ratios[topic, codec] = max(1.0, ratio)


class ProducerBatch:
    """One batch, from the first record until the broker has answered. Times are monotonic milliseconds.

    `data` is None while `try_append` still fills the batch.
    """

    __slots__ = (
        "_builder",
        "_is_sealed",
        "allocated_bytes",
        "attempts",
        "backoff_ms",
        "base_sequence",
        "codec",
        "created_ms",
        "data",
        "deliveries",
        "in_flight",
        "is_closed",
        "is_transactional",
        "last_attempt_ms",
        "leader_epoch",
        "may_be_stored",
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
        self.deliveries = Deliveries()
        self.data: bytes | None = None
        self._is_sealed = True
        """Whether `data` has its checksum, if there are data. Ready-made batches may get it in `seal`."""
        self.is_closed = False
        """Whether the batch takes no more records. `close` may still have to encode it."""
        self.is_transactional = False
        """Whether the batch belongs to a transaction; known before `set_producer_state`."""
        self.attempts = 0
        self.last_attempt_ms = created_ms
        self.backoff_ms = 0
        """The wait before the next attempt."""
        self.leader_epoch = -1
        """The epoch of the leader that the last attempt was sent to."""
        self.in_flight = False
        self.may_be_stored = False
        """Whether an attempt has ended in a way that leaves open if the broker has stored the batch."""
        self.record_count = 0
        self.uncompressed_bytes = HEADER_SIZE
        self.base_sequence = NO_SEQUENCE
        self._builder: RecordBatchBuilder | None = RecordBatchBuilder(codec, compression_level=compression_level)

    @classmethod
    def ready_made(
        cls, topic_partition: TopicPartition, encoded: bytes | EncodedBatch, created_ms: int
    ) -> ProducerBatch:
        """Return a batch that the caller encoded. Raises CorruptRecord when bytes are not one whole v2 batch."""
        is_sealed = not isinstance(encoded, EncodedBatch)
        data = encoded.unsealed if isinstance(encoded, EncodedBatch) else encoded
        header = RecordBatch(data)
        if is_sealed:
            header.check()
        batch = cls(topic_partition, header.codec, created_ms, allocated_bytes=len(data))
        batch._builder = None
        batch.data = data
        batch._is_sealed = is_sealed
        batch.is_closed = True
        batch.record_count = header.count
        batch.uncompressed_bytes = len(data)
        return batch

    def restart_time(self, now_ms: int) -> None:
        """Let the time of a ready-made batch begin now: the wait for metadata is not part of `delivery_timeout_ms`."""
        self.created_ms = now_ms
        self.last_attempt_ms = now_ms

    # -- filling

    def try_append(
        self,
        record: ProducerRecord,
        *,
        limit_bytes: int,
        ratio: float,
        future: Future[RecordMetadata] | None = None,
    ) -> Future[RecordMetadata] | None:
        """Add a record, unless the batch is closed or would exceed `limit_bytes`. The first record always fits.

        The compression `ratio` estimates how much the batch holds already. Returns None when a new batch is needed,
        and closes this one. `future` gets the result; without it, a new one does.
        """
        builder = self._builder
        if self.is_closed or builder is None:
            return None
        if self.record_count and self.estimated_bytes(ratio) + record.size > limit_bytes:
            self.is_closed = True
            return None
        timestamp_ms, key, value, headers, _, callback = record
        self.uncompressed_bytes = builder.append(timestamp_ms, key, value, headers)
        self.record_count += 1
        if future is None:
            future = RecordFuture(self.deliveries.futures_lock)
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        self.deliveries.add(Delivery(future, callback, timestamp_ms, key_size, value_size))
        return future

    def add_delivery(self, callback: DeliveryCallback | None) -> Future[RecordMetadata]:
        """Return one future for all of a ready-made batch, which yields the first record's offset."""
        future = RecordFuture(self.deliveries.futures_lock)
        self.deliveries.add(Delivery(future, callback, value_size=len(self.data or b"")))
        return future

    def estimated_bytes(self, ratio: float) -> int:
        """Return the size on the wire: the real one once the batch is encoded, an estimate before."""
        if self.data is not None:
            return len(self.data)
        if self.codec is _NO_CODEC:
            return self.uncompressed_bytes
        return HEADER_SIZE + int((self.uncompressed_bytes - HEADER_SIZE) * ratio * _RATIO_SAFETY_FACTOR)

    def is_full(self, limit_bytes: int, ratio: float) -> bool:
        """Return whether the batch should be sent rather than filled."""
        return self.is_closed or self.data is not None or self.estimated_bytes(ratio) >= limit_bytes

    def close(self) -> float:
        """Encode the batch, if that has not been done. Returns the compression ratio."""
        self.is_closed = True
        if self._builder is not None:
            self.data = self._builder.build()
            self._builder = None
        assert self.data is not None
        return (len(self.data) - HEADER_SIZE) / max(self.uncompressed_bytes - HEADER_SIZE, 1)

    def set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        """Write producer id, epoch and first sequence number into a batch that takes no more records."""
        self.base_sequence = base_sequence
        if self._builder is not None:
            self._builder.set_producer_state(producer_id, epoch, base_sequence, is_transactional=self.is_transactional)
        else:
            assert self.data is not None
            self.data = with_producer_state(
                self.data, producer_id, epoch, base_sequence, is_transactional=self.is_transactional
            )
            self._is_sealed = True

    def seal(self) -> None:
        """Write the checksum of a ready-made batch, unless it has one. Called before the first attempt."""
        if not self._is_sealed:
            assert self.data is not None
            self.data = with_checksum(self.data)
            self._is_sealed = True

    @property
    def has_sequence(self) -> bool:
        """Whether sequence numbers have been assigned."""
        return self.base_sequence != NO_SEQUENCE

    # -- attempts and time

    def waited_ms(self, now_ms: int) -> int:
        """Return the milliseconds since the batch was created, or since its last attempt failed."""
        return max(now_ms - self.last_attempt_ms, 0)

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Return whether the batch has expired, in the queue or in flight."""
        return now_ms - self.created_ms >= delivery_timeout_ms

    def reenqueued(self, now_ms: int, backoff_ms: int) -> None:
        """Count a failed attempt, after which the batch goes back to its queue and waits for the backoff."""
        self.attempts += 1
        self.backoff_ms = backoff_ms
        self.last_attempt_ms = max(now_ms, self.last_attempt_ms)
        self.in_flight = False

    # -- the end

    @property
    def is_done(self) -> bool:
        """Whether the batch has ended, in whatever way."""
        return self.deliveries.final_state is not None

    def complete(self, base_offset: int, log_append_time_ms: int) -> bool:
        """Give the records their offsets. Returns False if the batch had ended before."""
        return self.deliveries.succeed(self.topic_partition, base_offset, log_append_time_ms)

    def fail(self, error: Exception, record_errors: dict[int, str] | None = None) -> bool:
        """Give the records the broker's or the client's error. Returns False if the batch had ended before."""
        return self.deliveries.fail(FinalState.FAILED, error, record_errors)

    def abort(self, error: Exception) -> bool:
        """Give the records the error of a producer that closes. Returns False if the batch had ended before."""
        return self.deliveries.fail(FinalState.ABORTED, error)

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """Cut a batch that is too large into smaller ones, in order. Its deliveries move to them, and it ends."""
        assert self.data is not None
        pieces: list[ProducerBatch] = []
        deliveries = self.deliveries.move(self.record_count)
        for old, delivery in zip(RecordBatch(self.data).records(), deliveries, strict=True):
            size = estimate_size(old.key, old.value, old.headers)
            record = ProducerRecord(old.timestamp, old.key, old.value, old.headers, size, delivery.callback)
            if not pieces or not _took(pieces[-1], record, limit_bytes, delivery.future):
                piece = ProducerBatch(self.topic_partition, self.codec, self.created_ms)
                # A piece counts the attempts of the whole: splitting must not give a batch more retries than `retries`.
                piece.attempts = self.attempts
                piece.leader_epoch = self.leader_epoch
                piece.is_transactional = self.is_transactional
                pieces.append(piece)
                _took(piece, record, limit_bytes, delivery.future)
        for piece in pieces:
            piece.close()
        self.deliveries.hand_over([piece.deliveries for piece in pieces])
        return pieces


def _took(piece: ProducerBatch, record: ProducerRecord, limit_bytes: int, future: Future[RecordMetadata]) -> bool:
    return piece.try_append(record, limit_bytes=limit_bytes, ratio=1.0, future=future) is not None


FATE_UNKNOWN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""The errors after which a batch may be stored: no answer came, or the leader gave up waiting after the append."""


class Completion(Enum):
    """The next step of a batch after its answer."""

    SUCCEED = "succeed"
    SPLIT = "split"
    RETRY = "retry"
    FAIL = "fail"


def completion_of(
    error: ErrorCode, *, record_count: int, is_done: bool, may_retry: bool, may_be_stored: bool = False
) -> Completion:
    """Return the completion of the first rule that holds.

    may_be_stored: whether an earlier attempt of a batch with sequence numbers ended with an error of FATE_UNKNOWN.

    1. No error: the batch arrived.
    2. Too large, with more than one record, not ended, and surely not stored: split it.
    3. The error may pass, and time and attempts are left (`may_retry`): retry.
    4. A duplicate sequence number: the batch arrived the first time, and the answer was lost.
    5. Otherwise the batch failed.
    """
    if error is ErrorCode.NONE:
        return Completion.SUCCEED
    # Too large for the broker's limit, which the client does not know. One record alone cannot be split, and fails
    # below. So does a batch that the broker may have stored under an earlier limit: the broker knows the repetition of
    # a whole batch by its numbers, but it would store the pieces behind that batch.
    if error is ErrorCode.MESSAGE_TOO_LARGE and record_count > 1 and not is_done and not may_be_stored:
        return Completion.SPLIT
    if may_retry:
        return Completion.RETRY
    if error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Completion.SUCCEED
    return Completion.FAIL
