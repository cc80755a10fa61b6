"""Encodes an uncompressed batch of format v2 whose records have one time, no headers and no producer. Pure.

Coordinators write such batches, mostly of one record, for which this takes a third of what `RecordBatchBuilder` takes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from barnabas.records.crc import crc32c
from barnabas.records.v2.layout import ZIGZAG, encode_zigzag

_HEAD: Final = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic, CRC."""
_COVERED: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset delta, base and max timestamp, producer id, epoch and sequence, count."""
_AFTER_LENGTH: Final = 49
"""Bytes of the header that its length field counts."""


def plain_batch(timestamp_ms: int, records: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Return the batch of these keys and values, of which there must be at least one."""
    # The first piece is a place for the end of the header, which needs the number of records. The table of small
    # varints is indexed in line, as in `RecordBatchBuilder.append`.
    pieces = [b""]
    number = 0
    for key, value in records:
        size = len(key)
        key_size = ZIGZAG[size] if size < 4096 else encode_zigzag(size)
        offset = ZIGZAG[number] if number < 4096 else encode_zigzag(number)
        # 3: attributes, timestamp delta and header count take a byte each.
        size += 3 + len(offset) + len(key_size)
        content = b"" if value is None else value
        value_size = b"\x01"  # -1 in zigzag: null
        if value is not None:
            value_size = ZIGZAG[len(value)] if len(value) < 4096 else encode_zigzag(len(value))
        size += len(value_size) + len(content)
        pieces += (
            ZIGZAG[size] if size < 4096 else encode_zigzag(size),
            b"\x00\x00",  # attributes, timestamp delta
            offset,
            key_size,
            key,
            value_size,
            content,
            b"\x00",
        )
        number += 1
    pieces[0] = _COVERED.pack(0, number - 1, timestamp_ms, timestamp_ms, -1, -1, -1, number)
    covered = b"".join(pieces)
    length = len(covered) - _COVERED.size + _AFTER_LENGTH
    return _HEAD.pack(0, length, -1, 2, crc32c(covered)) + covered
