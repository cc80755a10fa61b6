"""Decodes the uncompressed records of a v2 batch one by one. Pure.

Called by `RecordBatch.records`, on the thread that iterates. The Arrow path has its own, vectorised decoder.

All numbers of a record are zigzag varints, which `varint` explains:

    length           of everything behind this field
    attributes       one byte, of which Kafka uses no bit
    timestamp delta  to the batch's base timestamp; up to ten bytes
    offset delta     to the batch's base offset
    key length       -1 for null; then the key
    value length     -1 for null, a tombstone in a compacted topic; then the value
    header count     then for each header (KIP-82): name length, name, value length (-1 for null), value

For example, the key "a" with a null value, the first of its batch, is 0e | 00 | 00 | 00 | 02 61 | 01 | 00: seven bytes
(0e), no attributes, both deltas 0, a key of one byte (02), no value (01), no headers.
Kafka: DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from barnabas.records.errors import CorruptRecord
from barnabas.records.varint import MAX_VARINT_BYTES, decode_zigzag

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record: offset, timestamp in milliseconds since the epoch (-1: none), key, value, headers in order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read_records(
    body: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    """Yield the `count` records that fill `body` exactly. append_time: replaces their timestamps, unless None.

    Raises CorruptRecord when a field is malformed, the count is not that of the records, or bytes are left over; some
    good records may come before.
    """
    if count < 0:
        raise CorruptRecord(f"a batch claims {count} records")
    position = 0
    total = len(body)
    # Without the NamedTuple's constructor, a Python function, a record takes half the time.
    new = tuple.__new__
    try:
        for index in range(count):
            if position >= total:
                raise CorruptRecord(f"the batch holds {index} records, its header says {count}")
            length, start = decode_zigzag(body, position, MAX_VARINT_BYTES)
            end = start + length
            if length < 0 or end > total:
                raise CorruptRecord(f"record {index} claims {length} bytes, {total - start} are there")
            # Numbers of one byte, nearly all there are, are decoded here: a call costs more than the decoding. The byte
            # at `start`, the attributes, is skipped.
            first = body[start + 1]
            if first < 0x80:
                timestamp, position = (first >> 1) ^ -(first & 1), start + 2
            else:
                timestamp, position = decode_zigzag(body, start + 1)
            first = body[position]
            if first < 0x80:
                offset, position = (first >> 1) ^ -(first & 1), position + 1
            else:
                offset, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            key, position = read_bytes(body, position, end)
            value, position = read_bytes(body, position, end)
            headers, position = read_headers(body, position, end) if body[position] else ((), position + 1)
            if position != end:
                raise CorruptRecord(f"record {index} claims {length} bytes, its fields take {position - start}")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield new(Record, (base_offset + offset, timestamp, key, value, headers))
    except IndexError:
        raise CorruptRecord("the last record is cut off") from None
    if position != total:
        raise CorruptRecord(f"{total - position} bytes after the last of {count} records")


def read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Decode a length and as many bytes; -1 is None. Return them and the position behind.

    Raises CorruptRecord when the field ends behind `end`, the end of the record.
    """
    first = body[position]
    if first < 0x80:
        position += 1
        # 1 is -1 in zigzag: null.
        if first == 1:
            return None, position
        length = -1 if first & 1 else first >> 1
    else:
        length, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
        if length == -1:
            return None, position
    stop = position + length
    if length < 0 or stop > end:
        raise CorruptRecord(f"a field claims {length} bytes, {end - position} are there")
    return body[position:stop], stop


def read_headers(body: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    """Decode the number of headers and the headers. Raises CorruptRecord when they do not end before `end`."""
    count, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
    # A header takes two bytes at least, so what is left of the record bounds the count before the loop begins.
    if count < 0 or count > (end - position) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = read_bytes(body, position, end)
        if name is None:
            raise CorruptRecord("a header without a name")
        value, position = read_bytes(body, position, end)
        # As Java does: a name that is not UTF-8 must not stop the consumer.
        headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), position
