"""Reads buffers whose batches may be of any format. Pure.

Consumers and recovery use it, since a log may begin in old formats; the produce path looks at the magic itself.
Kafka: MemoryRecords, ByteBufferLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.records.compression import Buffer
from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import MAGIC_POSITION, RecordBatch, is_whole_batch

if TYPE_CHECKING:
    from barnabas.records.legacy_records import LegacyBatch


def magic_at(buffer: Buffer, position: int = 0) -> int:
    """Return the format of the batch at `position`. Raises CorruptRecord when its byte is missing or is no magic."""
    try:
        magic = buffer[position + MAGIC_POSITION]
    except IndexError:
        raise CorruptRecord(f"{len(buffer) - position} bytes are too few for a batch header") from None
    # A negative magic, which Kafka's signed byte could have, is above 127 here and is rejected with the others.
    if magic > 2:
        raise CorruptRecord(f"unknown magic {magic}")
    return magic


def batch_at(buffer: Buffer, position: int = 0) -> RecordBatch | LegacyBatch:
    """View the batch at `position`, of any format. Raises CorruptRecord when its header is wrong or cut off."""
    if magic_at(buffer, position) == 2:
        return RecordBatch(buffer, position)
    from barnabas.records.legacy_records import LegacyBatch  # noqa: PLC0415 - few logs have old formats

    return LegacyBatch(buffer, position)


def any_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch | LegacyBatch]:
    """Iterate over the whole batches from `position` on, up to one that the end of the buffer cuts off.

    Raises CorruptRecord at a header that is wrong.
    """
    while is_whole_batch(buffer, position):
        batch = batch_at(buffer, position)
        yield batch
        position = batch.end
