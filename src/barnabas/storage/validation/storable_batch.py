"""The result of validation: a batch as the log writes it. Immutable; made on the appending thread.

Kafka: LogValidator.ValidationResult.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.records.record_batch import MAGIC_POSITION, NO_TIMESTAMP, BatchHeader
from barnabas.runtime.files import Buffer

_MAGIC: Final = MAGIC_POSITION
_NO_TIMESTAMP: Final = NO_TIMESTAMP
_new = tuple.__new__


class StorableBatch(NamedTuple):
    """A batch that may be stored, but for its first 16 bytes, which the log writes: base offset, length, leader epoch.

    pieces: the batch from its magic on. size: of the whole batch in bytes. log_append_time_ms: -1 unless the topic
    stamps append time. conversion_ns: how long it took to rebuild the batch; 0 if that was not needed. producer: the
    header, if it has a producer id.
    """

    pieces: tuple[Buffer, ...]
    size: int
    last_offset_delta: int
    record_count: int
    max_timestamp: int
    log_append_time_ms: int
    conversion_ns: int
    producer: BatchHeader | None


def stored_as_produced(header: BatchHeader, view: memoryview, size: int) -> StorableBatch:
    """Return the batch of `size` bytes at the start of `view` as one that is stored untouched."""
    # `tuple.__new__` avoids the NamedTuple's constructor, a Python function: nearly every produced batch comes here.
    return _new(
        StorableBatch,
        (
            (view[_MAGIC:size],),
            size,
            header.last_offset_delta,
            header.record_count,
            header.max_timestamp,
            _NO_TIMESTAMP,
            0,
            header if header.producer_id >= 0 else None,
        ),
    )
