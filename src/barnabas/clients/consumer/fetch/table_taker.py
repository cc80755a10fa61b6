"""Reads fetched batches whole, for `Consumer.poll_table`: with the decoder for tables instead of a loop over records.

Made for each call, and used by the FetchBuffer on the consumer's thread; no lock. Kafka has no counterpart.

A few MB of batches are decoded at a time. When the decoder finds damage in one of several, they are decoded one by one,
so that the good ones before the bad one are returned first, as `poll` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.clients.consumer.fetch.fetch_buffer import Taken
from barnabas.protocol.errors import ApiError
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from barnabas.clients.arrow.record_tables import Rows, TableDecoder

_STEP_BYTES = 4 << 20
_ONE_BATCH = 1


class TableTaker:
    """The rows of one call: at most `limit`, and no further batch once `limit_bytes` of them were read."""

    def __init__(self, decoder: TableDecoder, limit: int | None, limit_bytes: int) -> None:
        self.rows: list[Rows] = []
        """Rows of one partition each, in the order of their records."""
        self._decoder = decoder
        self._rows_left = limit
        self._bytes_left = limit_bytes

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached."""
        return self._rows_left == 0 or self._bytes_left <= 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows yet."""
        return not self.rows

    def take(self, fetch: CompletedFetch) -> Taken:
        """Read a fetch to its end, to an error, or until this is full."""
        try:
            self._take(fetch)
        except (CorruptRecord, ApiError) as error:
            return Taken(fetch.next_offset, error)
        return Taken(fetch.next_offset, None)

    def _take(self, fetch: CompletedFetch) -> None:
        """Read a fetch to its end, or until this is full. Rows before an error are kept.

        Raises CorruptRecord for a damaged batch, ApiError: MESSAGE_TOO_LARGE when the answer holds no whole batch.
        """
        step_bytes = _STEP_BYTES
        while not self.is_full:
            start, epoch = fetch.next_offset, fetch.last_epoch
            batches = fetch.take_batches(min(step_bytes, self._bytes_left))
            if not batches:
                return
            decoded, reason = None, ""
            try:
                decoded = self._decoder.decode(fetch.topic_partition, batches, start, self._rows_left)
            except CorruptRecord as error:
                # Only the text is kept: a traceback would keep the decoder's views of the answer alive, and with them
                # its buffer could not be released.
                reason = str(error)
            if decoded is None:
                fetch.give_back(batches, start, epoch)
                if len(batches) == 1:
                    raise CorruptRecord(
                        f"Record batch for partition {fetch.topic_partition} at offset {start} is invalid: {reason}"
                    )
                step_bytes = _ONE_BATCH
                continue
            self.rows += [rows for rows in decoded.rows if rows.num_rows]
            fetch.count(decoded.row_count)
            self._bytes_left -= sum(batch.end - batch.position for batch in batches)
            if self._rows_left is not None:
                self._rows_left -= decoded.row_count
            if decoded.next_offset is not None:
                fetch.give_back(decoded.left, decoded.next_offset, _epoch_before(decoded.next_offset, batches, epoch))


def _epoch_before(offset: int, batches: list[RecordBatch | LegacyBatch], epoch: int) -> int:
    """Return the leader epoch of the last batch that begins before `offset`, or `epoch` if all begin there."""
    for batch in batches:
        if isinstance(batch, RecordBatch) and batch.base_offset < offset:
            epoch = batch.partition_leader_epoch
    return epoch
