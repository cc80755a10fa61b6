"""The futures and callbacks of one batch's records, which get the result of the batch exactly once.

Filled under the accumulator's lock. A batch ends on the sending thread, or on the thread that closes the producer; of
two endings the first wins, by a lock that is taken once and never released. Kafka: ProduceRequestResult.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, InvalidStateError
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.clients.producer.producer_record import DeliveryCallback, RecordMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_PENDING: Final = "PENDING"
_FINISHED: Final = "FINISHED"
"""The states of concurrent.futures, whose names that module keeps to itself."""

if TYPE_CHECKING:
    _Future = Future[RecordMetadata]
else:
    _Future = Future


class RecordFuture(_Future):
    """The future of one record's offset, which costs little while no thread waits for it. `lock`: the batch's.

    A plain Future brings a Condition, a lock and three lists: a dozen objects, which cost more to make and to look
    through, at each garbage collection, than all the rest of `send`. Most futures are set before a thread asks for
    them, or are never asked. A RecordFuture makes these objects when they are first needed: when a thread waits,
    cancels, or adds a callback. `Future`'s own methods do all of that, and reach the objects through `_condition`,
    which every one of them takes first. So a RecordFuture is a Future for `concurrent.futures.wait`, `as_completed`
    and `asyncio.wrap_future`. The batch's lock guards it until it has a condition of its own; then the condition does.

    Sending 60,000 records of 100 bytes and asking for each result took 18 us of CPU a record with Future,
    and 6.4 us with RecordFuture.

    The lock is reentrant: a collection of garbage that begins under it may run a finalizer that asks for this future.
    """

    __slots__ = ("_lock", "_own_condition")

    # What Future.__init__ would set, once for all: an instance gets its own value when it changes.
    _state: str = _PENDING
    _result: RecordMetadata | None = None
    _exception: BaseException | None = None

    def __init__(self, lock: threading.RLock) -> None:
        # Without Future.__init__, which makes all that this class is there to avoid.
        self._lock = lock
        self._own_condition: threading.Condition | None = None

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # an attribute there; never assigned here
        """The condition that guards everything from now on. Future's methods take it before anything else."""
        with self._lock:
            condition = self._own_condition
            if condition is None:
                self._waiters: list[Any] = []
                self._done_callbacks: list[Any] = []
                condition = self._own_condition = threading.Condition()
            return condition

    # A thread that holds the lock and finds no condition knows that no thread waits and no callback is set. A thread
    # that makes the condition afterwards sees the result.

    def set_result(self, result: RecordMetadata) -> None:
        """Set the offset. Raises InvalidStateError when the future was cancelled, or set before."""
        with self._lock:
            if self._own_condition is None and self._state == _PENDING:
                self._result = result
                self._state = _FINISHED
                return
        super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the error. Raises InvalidStateError when the future was cancelled, or set before."""
        with self._lock:
            if self._own_condition is None and self._state == _PENDING:
                self._exception = exception
                self._state = _FINISHED
                return
        super().set_exception(exception)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is; wait at most `timeout` seconds.

        Raises the record's error, TimeoutError, CancelledError.
        """
        with self._lock:
            result = self._result
        return super().result(timeout) if result is None else result

    def done(self) -> bool:
        """Return whether the record has its result."""
        with self._lock:
            if self._own_condition is None:
                return self._state != _PENDING
        return super().done()


class _Unread(_Future):
    """A future that keeps nothing."""

    def set_result(self, result: RecordMetadata) -> None:
        """Do nothing."""

    def set_exception(self, exception: BaseException | None) -> None:
        """Do nothing."""


UNREAD: Final = _Unread()
"""The future of all records whose result goes to their callback alone."""


_OTHER_RECORDS_INVALID = (
    "Failed to append record because it was part of a batch which had one more more invalid records"
)


class FinalState(Enum):
    """The ways in which a batch ends."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class Delivery(NamedTuple):
    """The future and the callback of one record, with what its RecordMetadata will say. Sizes are -1 for null."""

    future: Future[RecordMetadata]
    callback: DeliveryCallback | None
    timestamp_ms: int = -1
    key_size: int = -1
    value_size: int = -1


class Deliveries:
    """The deliveries of one batch, in the order of its records."""

    __slots__ = ("_deliveries", "_ended", "_first", "final_state", "futures_lock", "successors")

    def __init__(self) -> None:
        self.final_state: FinalState | None = None
        self.successors: list[Deliveries] = []
        """The pieces that took the deliveries over when the batch was split."""
        self.futures_lock = threading.RLock()
        """The lock of the records' futures."""
        self._deliveries: list[Delivery] = []
        self._first = threading.Lock()
        self._ended = threading.Event()

    def __len__(self) -> int:
        return len(self._deliveries)

    def add(self, delivery: Delivery) -> None:
        """Add the next record's delivery."""
        self._deliveries.append(delivery)

    def succeed(self, topic_partition: TopicPartition, base_offset: int, log_append_time_ms: int) -> bool:
        """Give each record its offset. Returns False if the batch had ended before."""
        if not self._decide(FinalState.SUCCEEDED):
            return False
        topic, partition = topic_partition
        offset = base_offset
        for delivery in self._deliveries:
            stamp_ms = delivery.timestamp_ms if log_append_time_ms < 0 else log_append_time_ms
            metadata = RecordMetadata(topic, partition, offset, stamp_ms, delivery.key_size, delivery.value_size)
            # With acks=0 there is no answer, and every record has the offset -1.
            if offset >= 0:
                offset += 1
            _tell(delivery, metadata, None)
        self._end()
        return True

    def fail(self, state: FinalState, error: Exception, record_errors: dict[int, str] | None = None) -> bool:
        """Give each record the error. Returns False if the batch had ended before.

        record_errors: the texts for the records that the broker rejected, by index; the others failed because of them.
        """
        if not self._decide(state):
            return False
        for index, delivery in enumerate(self._deliveries):
            if not record_errors:
                _tell(delivery, None, error)
            elif index in record_errors:
                _tell(delivery, None, ApiError(ErrorCode.INVALID_RECORD, record_errors[index] or str(error)))
            else:
                _tell(delivery, None, ApiError(ErrorCode.INVALID_RECORD, _OTHER_RECORDS_INVALID))
        self._end()
        return True

    def move(self, record_count: int) -> list[Delivery]:
        """Return the delivery of each record, for the pieces of a batch that is split.

        A ready-made batch has one delivery, which ends when all of its records have ended.
        """
        if len(self._deliveries) == record_count:
            return self._deliveries
        joined = _JoinedDelivery(self._deliveries[0], record_count)
        return [
            Delivery(RecordFuture(self.futures_lock), partial(joined.ended, index)) for index in range(record_count)
        ]

    def hand_over(self, successors: list[Deliveries]) -> None:
        """End without a result: the pieces of the batch deliver the results."""
        self.successors = successors
        self._decide(FinalState.FAILED)
        self._end()

    def wait(self) -> None:
        """Wait until the batch, or every piece of it, has ended and each record has its result."""
        self._ended.wait()
        for successor in self.successors:
            successor.wait()

    def _decide(self, state: FinalState) -> bool:
        # Test-and-set: the sending thread may expire a batch while a closing thread aborts it.
        if not self._first.acquire(blocking=False):
            logger.debug("A batch has ended already (%s), now %s", self.final_state, state)
            return False
        self.final_state = state
        return True

    def _end(self) -> None:
        self._deliveries = []
        self._ended.set()


class _JoinedDelivery:
    """The one delivery of a ready-made batch that was split: it has the first record's metadata, or the first error.

    Its records end in several batches, one after another on the thread that ends these, or on a closing thread.
    """

    def __init__(self, delivery: Delivery, record_count: int) -> None:
        self._delivery = delivery
        self._lock = threading.Lock()
        self._left = record_count
        self._first: RecordMetadata | None = None
        self._error: BaseException | None = None

    def ended(self, index: int, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Note the result of one record. Called as the delivery callback of record `index`."""
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if index == 0:
                self._first = metadata
            if self._left:
                return
        if self._error is not None:
            _tell(self._delivery, None, self._error)
        else:
            _tell(self._delivery, self._first, None)


def _tell(delivery: Delivery, metadata: RecordMetadata | None, error: BaseException | None) -> None:
    # The callback first, as in Kafka: a thread that waits for the future then sees what the callback has done.
    if delivery.callback is not None:
        try:
            delivery.callback(metadata, error)
        except Exception:  # an error of the user's function, which must not keep the other records from their results
            logger.exception("Error executing user-provided callback on message for %s", metadata)
    try:
        if error is not None:
            delivery.future.set_exception(error)
        elif metadata is not None:
            delivery.future.set_result(metadata)
    except InvalidStateError:
        logger.debug("The future of a record was cancelled")
