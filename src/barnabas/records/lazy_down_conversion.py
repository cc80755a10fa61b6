"""Stored batches on their way to a client of an old version, converted while they are sent (KIP-283).

The fetch handler makes the object on its own thread and converts the first batch there. The Processor that sends the
answer converts the rest, some hundred records at a time: so neither the memory of the answer nor the waiting of other
connections grows with the size of the fetch. The object holds its file until it is sent or dropped. No lock: it has one
owner at a time.

The size of the answer is promised before the rest is converted: the stored size, or that of the first converted batch
if this is more. A larger result is cut off. A smaller one is filled up with the beginning of a message that is longer
than the answer, since an old client expects a cut off message at the end. For example: 1,000 bytes are stored and
promised, and become 900; then follow 12 bytes of a message that claims 101, and 88 zeros.
Kafka: LazyDownConversionRecords, LazyDownConversionRecordsSend.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.records.errors import CorruptRecord, UnsupportedCodec
from barnabas.records.file_records import FileRecords

if TYPE_CHECKING:
    from barnabas.records.compression import Buffer
    from barnabas.records.legacy_records import LegacyBatch
    from barnabas.records.record_batch import RecordBatch

OnConverted = Callable[[int, int, int], None]
"""Gets the number of records converted, the nanoseconds that took, the bytes that came out."""

READ_BYTES = 128 * 1024
"""Read from the file at a time; a larger batch is read whole."""
PADDING_PIECE_BYTES = 64 * 1024
_PADDING_START = struct.Struct(">qi")


# The error of Send, here because mypyc compiles no subclass of OSError, and the modules of Send and FileRecords can be
# compiled.
class TruncatedFile(OSError):
    """The error for a file that ends before the range that was promised to the peer: the channel can only close."""


class LazyDownConversionRecords:
    """The batches of `source` as messages of at most `magic`, from `first_offset` on; `len()` is what will be sent.

    on_converted: called for each batch, on the thread that converted it. now: the clock, in nanoseconds.
    The constructor raises UnsupportedCodec or CorruptRecord when the first batch cannot be converted; the source is
    then still the caller's. A later batch that cannot be converted ends the answer: the next fetch begins with it.
    """

    __slots__ = ("_left", "_now", "_on_converted", "_padding_begun", "_pieces", "_ready", "_source")

    def __init__(
        self,
        source: FileRecords,
        magic: int,
        first_offset: int,
        on_converted: OnConverted | None = None,
        now: Callable[[], int] = int,
    ) -> None:
        from barnabas.records.record_batch import LOG_OVERHEAD  # noqa: PLC0415 as in `_steps`

        self._source: FileRecords | None = source
        self._on_converted = on_converted
        self._now = now
        self._padding_begun = False
        found_batches = False
        first = b""
        batches = _whole_batches(source)
        for batch in batches:
            found_batches = True
            first = b"".join(self._steps(batch, magic, first_offset))
            if first:
                break
        self._ready: Buffer = first
        self._pieces: Iterator[Buffer] = (
            piece for batch in batches for piece in self._steps(batch, magic, first_offset)
        )
        # KIP-74: a client must make progress, so the first result is sent whole, even if it is larger than the range.
        if first:
            self._left = max(len(source), len(first))
        else:
            # Nothing but markers. The beginning of a message that is too long for the answer tells the client that the
            # log goes on.
            self._left = LOG_OVERHEAD if found_batches else 0

    def __len__(self) -> int:
        return self._left

    def next_piece(self) -> Buffer:
        """Return the next bytes to send, none when a step of the conversion yielded none. At the end, len() is 0."""
        piece = self._ready
        if piece:
            self._ready = b""
        elif not self._padding_begun:
            try:
                piece = next(self._pieces)
            # The size is promised already, so an error becomes padding: the client asks again from this batch on, and
            # gets the error as the answer to a fetch whose first batch cannot be converted.
            except (StopIteration, CorruptRecord, UnsupportedCodec):
                piece = self._pad()
        else:
            piece = bytes(min(self._left, PADDING_PIECE_BYTES))
        if len(piece) > self._left:
            piece = piece[: self._left]
        self._left -= len(piece)
        return piece

    def read(self) -> bytes:
        """Return the rest, converted at once."""
        pieces = []
        while self._left:
            pieces.append(self.next_piece())
        return b"".join(pieces)

    def release(self) -> None:
        """Give the file back, once; nothing can be read afterwards."""
        source, self._source = self._source, None
        self._pieces = iter(())
        if source is not None:
            source.release()

    def _steps(self, batch: RecordBatch | LegacyBatch, magic: int, first_offset: int) -> Iterator[Buffer]:
        """Yield the converted pieces of a batch, and report the batch at the end.

        Raises UnsupportedCodec, CorruptRecord.
        """
        # Imported when used: every client that sends has this class, and none converts.
        from barnabas.records.record_batch import RecordBatch  # noqa: PLC0415
        from barnabas.records.record_conversion import down_conversion_steps  # noqa: PLC0415

        # Only the conversion is timed: between two steps the network thread serves other connections.
        steps = iter(down_conversion_steps(batch, magic, first_offset))
        spent_ns = size = 0
        while True:
            began_ns = self._now()
            piece = next(steps, None)
            spent_ns += self._now() - began_ns
            if piece is None:
                break
            size += len(piece)
            yield piece
        if self._on_converted is not None and isinstance(batch, RecordBatch) and not batch.is_control:
            self._on_converted(batch.count, spent_ns, size)

    def _pad(self) -> bytes:
        from barnabas.records.record_batch import HEADER_SIZE  # noqa: PLC0415 as in `_steps`

        self._padding_begun = True
        # A size beyond the answer makes every client take this for a message that the limit has cut off.
        length = max(self._left + 1, HEADER_SIZE)
        return _PADDING_START.pack(-1, length)

    def __repr__(self) -> str:
        return f"LazyDownConversionRecords({self._left} bytes left of {self._source!r})"


def _whole_batches(source: FileRecords) -> Iterator[RecordBatch | LegacyBatch]:
    """Iterate over the whole batches of a file range, read piece by piece. The file may be truncated meanwhile.

    Raises CorruptRecord at a header that is wrong.
    """
    from barnabas.records.memory_records import any_batches  # noqa: PLC0415 as in `_steps`
    from barnabas.records.record_batch import LOG_OVERHEAD  # noqa: PLC0415

    position, end = source.position, source.position + source.size
    wanted = READ_BYTES
    while position < end:
        chunk = source.file.read(position, min(wanted, end - position))
        used = 0
        for batch in any_batches(chunk):
            yield batch
            used = batch.end
        if used:
            position += used
            wanted = READ_BYTES
            continue
        # The chunk holds no whole batch. Its first batch is read whole, if it says how long it is and lies within the
        # range; once that has been tried, or the file has become shorter, this is the end.
        size = LOG_OVERHEAD + int.from_bytes(chunk[8:LOG_OVERHEAD], "big", signed=True)
        if len(chunk) < LOG_OVERHEAD or size <= len(chunk) or position + size > end or wanted >= size:
            return
        wanted = size
