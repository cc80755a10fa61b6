"""Converts whole batches down at once: what the conversion in steps must come to."""

from __future__ import annotations

from barnabas.records.compression import Buffer
from barnabas.records.memory_records import any_batches
from barnabas.records.record_conversion import down_conversion_steps


def down_convert(buffer: Buffer, magic: int, first_offset: int = 0) -> bytes:
    """The batches of `buffer` as messages of at most `magic` (0 or 1)."""
    return b"".join(
        piece for batch in any_batches(buffer) for piece in down_conversion_steps(batch, magic, first_offset)
    )
