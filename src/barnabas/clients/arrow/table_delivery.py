"""The result of a table that was sent: one future, which ends when the last of the table's batches has ended.

Made by `table_producer`. Batches are added on the thread that sends the table, and end on the producer's network
thread; one lock guards the counts. The future is set without the lock. Kafka has no counterpart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from barnabas.clients.arrow.varints import Integers


class BatchResult(Protocol):
    """The result of a batch, as the producer gives it: the first record's RecordMetadata."""

    @property
    def offset(self) -> int:
        """The first record's offset, or -1 with acks=0."""
        ...

    @property
    def timestamp_ms(self) -> int:
        """The broker's time of the append, or -1."""
        ...


BatchCallback: TypeAlias = Callable[[BatchResult | None, BaseException | None], None]
"""A function that the producer calls once for each batch, with the result or the error."""


class DeliveredBatch(NamedTuple):
    """The place of one batch of a table. Its records have consecutive offsets from `base_offset` on.

    `base_offset` is -1 with acks=0. A batch that the broker found too large was sent in pieces, and other producers'
    records may lie between these. `log_append_time_ms` is -1 unless the broker stamps the topic's records.
    """

    partition: int
    base_offset: int
    record_count: int
    size_bytes: int
    log_append_time_ms: int


class TableMetadata(NamedTuple):
    """The place of a table's rows, batch by batch in the order in which they were sent."""

    topic: str
    batches: tuple[DeliveredBatch, ...]

    @property
    def record_count(self) -> int:
        """The number of records of all batches."""
        return sum(batch.record_count for batch in self.batches)


class TableNotDelivered(Exception):
    """Rows of a table were not acknowledged; the first error is the `__cause__`.

    A row that timed out may have arrived all the same. `table.take(error.failed_rows)` is the table to send again.
    """

    def __init__(self, topic: str, row_count: int, failed_rows: pa.Array, delivered: TableMetadata) -> None:
        super().__init__(f"{len(failed_rows)} of {row_count} rows were not delivered to {topic}")
        self.failed_rows = failed_rows
        """The numbers of the rows, ascending, as int64."""
        self.delivered = delivered
        """The batches that did arrive."""


class BatchRows(NamedTuple):
    """The rows of one batch: those at `start` to `stop` of `order`, or without `order` these numbers themselves."""

    start: int
    stop: int
    order: Integers | None = None

    def numbers(self) -> Integers:
        """Return the rows' numbers in the table."""
        return np.arange(self.start, self.stop) if self.order is None else self.order[self.start : self.stop]


class TableDelivery:
    """The delivery of one table. `future` cannot be cancelled: its batches may be on their way."""

    def __init__(self, topic: str, row_count: int) -> None:
        self.future: Future[TableMetadata] = Future()
        self.future.set_running_or_notify_cancel()
        self._topic = topic
        self._row_count = row_count
        self._lock = threading.Lock()
        self._metadata: list[DeliveredBatch | None] = []
        self._failed: list[BatchRows] = []
        self._pending = 1
        """The batches that have not ended, and one for the sending itself."""
        self._error: BaseException | None = None

    @property
    def has_failed(self) -> bool:
        """Whether a batch has failed, so that no further one should be sent."""
        return self._error is not None

    def begin_batch(self, partition: int, rows: BatchRows, size_bytes: int) -> BatchCallback:
        """Add a batch, and return the callback for its result."""
        with self._lock:
            index = len(self._metadata)
            self._metadata.append(None)
            self._pending += 1

        def ended(metadata: BatchResult | None, error: BaseException | None) -> None:
            with self._lock:
                if metadata is None:
                    self._failed.append(rows)
                    self._error = self._error or error
                else:
                    self._metadata[index] = DeliveredBatch(
                        partition, metadata.offset, rows.stop - rows.start, size_bytes, metadata.timestamp_ms
                    )
            self._end_one()

        return ended

    def finish(self, unsent: Sequence[BatchRows] = (), error: BaseException | None = None) -> None:
        """End the sending: the future ends with the last batch.

        unsent: the rows that were not queued, for `error` or because an earlier batch had failed.
        """
        with self._lock:
            self._failed += unsent
            self._error = self._error or error
        self._end_one()

    def _end_one(self) -> None:
        with self._lock:
            self._pending -= 1
            if self._pending:
                return
        # This thread ended the last one, so no other thread changes anything below.
        delivered = TableMetadata(self._topic, tuple(batch for batch in self._metadata if batch is not None))
        if self._error is None:
            self.future.set_result(delivered)
            return
        failed = np.sort(np.concatenate([rows.numbers() for rows in self._failed]))
        not_delivered = TableNotDelivered(self._topic, self._row_count, pa.array(failed, pa.int64()), delivered)
        not_delivered.__cause__ = self._error
        self.future.set_exception(not_delivered)
