"""Counts the records of an uncompressed v2 batch by hopping from length to length. Pure.

Called by log validation at `record.validation=framing` for every produced batch, so the loop is unrolled for the
one- and two-byte lengths (records below 8 KB): 90-150 ns a record.
"""

from __future__ import annotations

from barnabas.records.errors import CorruptRecord
from barnabas.records.record_batch import HEADER_SIZE, Buffer, RecordBatch
from barnabas.records.varint import MAX_VARINT_BYTES

MIN_RECORD_SIZE = 6
"""Attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

# Bytes to skip, by the first byte of a length: its own bytes and what it says. Impossible ones jump out of any buffer,
# which ends the quick walk; the careful one then finds out what is wrong.
_FAR = 1 << 62
_SKIP_ONE = tuple(_FAR if low & 1 or low >> 1 < MIN_RECORD_SIZE else 1 + (low >> 1) for low in range(128))
_SKIP_TWO = tuple(_FAR if low & 1 else 2 + ((low & 0x7F) >> 1) for low in range(256))
_SKIP_HIGH = tuple(high << 6 if high else _FAR for high in range(128))


def count_records(buffer: Buffer, start: int, end: int) -> int:
    """Count the records between `start` and `end`, which must be exactly filled by them.

    Works on bytes, bytearray and (format "B") memoryview. Raises CorruptRecord when a length is negative, smaller
    than any record, or leads past `end`. It reads at most 5 bytes past `end` and never past the buffer.
    """
    position = start
    count = 0
    try:
        while position < end:
            low = buffer[position]
            if low < 0x80:
                position += _SKIP_ONE[low]
            else:
                high = buffer[position + 1]
                if high < 0x80:
                    position += _SKIP_TWO[low] + _SKIP_HIGH[high]
                else:
                    position = _skip_long_record(buffer, position, count)
            count += 1
    except IndexError:
        position = _FAR
    return count if position == end else _count_carefully(buffer, start, end)


def _count_carefully(buffer: Buffer, start: int, end: int) -> int:
    """Count again, one byte at a time, and say what is wrong; lengths of more bytes than needed are still right."""
    position = start
    count = 0
    while position < end:
        try:
            position = _skip_long_record(buffer, position, count)
        except IndexError:
            raise CorruptRecord(f"the length of record {count} is cut off") from None
        count += 1
    if position != end:
        raise CorruptRecord(f"record {count - 1} reaches {position - end} bytes past the end of its batch")
    return count


def check_framing(batch: RecordBatch) -> None:
    """Check that an uncompressed batch holds as many records as its header says, or raise CorruptRecord."""
    start = batch.position
    count = count_records(batch.buffer, start + HEADER_SIZE, start + batch.length)
    if count != batch.count:
        raise CorruptRecord(f"the batch holds {count} records, its header says {batch.count}")


def _skip_long_record(buffer: Buffer, position: int, index: int) -> int:
    """The position behind the record at `position`, by a length of one to five bytes."""
    value = 0
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value & 1 or value >> 1 < MIN_RECORD_SIZE:
                raise CorruptRecord(f"record {index} has an impossible length")
            return position + (value >> 1)
    raise CorruptRecord(f"the length of record {index} takes more than {MAX_VARINT_BYTES} bytes")
