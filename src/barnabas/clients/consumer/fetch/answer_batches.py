"""The batches of one partition in the answer to one fetch, one after the other.

Made by CompletedFetch, which decides what is done with each batch; owned by the consumer's thread; no lock.
Kafka: CompletedFetch.batches.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.clients.consumer.fetch.uniform_records import (
    KnownShapes,
    UniformBatches,
    WantedRecords,
    take_uniform_batches,
)
from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.legacy_records import LegacyBatch
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, RecordBatch

_RECORD_BATCH_MAGIC: Final = 2
_PLACE: Final = Struct(">qi4xb6xi")
"""The fields of a header that place a batch: base offset, length, magic, last offset delta."""


class AnswerBatches:
    """A cursor over the whole batches of a buffer. `size`: the length of the buffer in bytes.

    `shapes`: the shapes of the records that were decoded; a batch has often those of the one before.
    """

    __slots__ = ("_buffer", "_end_offset", "_position", "damage", "shapes", "size")

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._position = 0
        """Where the next batch begins."""
        self._end_offset: int | None = None
        self.size = len(buffer)
        self.shapes = KnownShapes()
        self.damage: str | None = None
        """The damage behind the batches that were taken whole: the text only, because a traceback holds the buffer."""

    @property
    def has_no_whole_batch(self) -> bool:
        """Whether the buffer ends within its first batch. Only meaningful after `next` has returned None."""
        return not self._position and len(self._buffer) > 0

    def next(self) -> RecordBatch | LegacyBatch | None:
        """Return the next whole batch, or None at the end.

        Raises CorruptRecord: at a header that is wrong, and always once `damage` is set.
        """
        # `_position` is behind the bad batch already: without this error, the cursor would go on with the next one.
        if self.damage is not None:
            raise CorruptRecord(self.damage)
        buffer, position = self._buffer, self._position
        # A batch of today's format, without the steps of `any_batches`: there may be a batch for each record.
        if position + HEADER_SIZE <= len(buffer) and buffer[position + MAGIC_POSITION] == _RECORD_BATCH_MAGIC:
            batch = RecordBatch(buffer, position)
            end = position + batch.length
            if end > len(buffer):
                return None
            self._position = end
            return batch
        for other in any_batches(buffer, position):
            self._position = other.end
            return other
        return None

    def take_uniform(self, wanted: WantedRecords) -> UniformBatches | None:
        """Return the records of the next batches, as long as all have the shape that was met last; None without one."""
        if self.damage is not None:
            return None
        uniform = take_uniform_batches(self._buffer, self._position, self.shapes, wanted)
        if uniform is not None:
            self._position = uniform.end
        return uniform

    def batch_at(self, position: int) -> RecordBatch:
        """Return the whole batch at `position` once more."""
        return RecordBatch(self._buffer, position)

    def end_offset(self, start: int) -> int:
        """Return the offset behind the last batch, or `start` if no batch ends behind it. Found once, then kept."""
        if self._end_offset is None:
            self._end_offset = max(start, self._last_next_offset())
        return self._end_offset

    def _last_next_offset(self) -> int:
        """Return the highest offset behind a whole batch, or 0 without a whole batch."""
        buffer, position, end = self._buffer, 0, 0
        most = len(buffer) - HEADER_SIZE
        # Batches of today's format, without an object for each: there may be a batch for each record.
        while position <= most:
            base_offset, length, magic, last_offset_delta = _PLACE.unpack_from(buffer, position)
            behind = position + LOG_OVERHEAD + length
            if magic != _RECORD_BATCH_MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or behind > len(buffer):
                break
            position = behind
            end = max(end, base_offset + last_offset_delta + 1)
        try:
            for batch in any_batches(buffer, position):
                end = max(end, batch.next_offset)
        except CorruptRecord:
            # The reader meets the same header and raises. A fetch from behind the good batches finds it again.
            pass
        return end

    def close(self) -> Buffer:
        """Forget the buffer, so that no more batches follow, and return it."""
        buffer, self._buffer = self._buffer, b""
        return buffer
