"""The result of validation: a batch as the log writes it. Made on the appending thread, which owns it.

Kafka: LogValidator.ValidationResult.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.records.record_batch import NO_TIMESTAMP, BatchHeader
from barnabas.runtime.files import Buffer

if TYPE_CHECKING:
    from mypy_extensions import i64


class StorableBatch:
    """A batch that may be stored, but for its first 21 bytes, which the log writes: base offset to checksum.

    header: as produced, or as it was rebuilt, but for the checksum `crc` and the times. head, rest: what the checksum
    covers. log_append_time_ms: -1 unless the topic stamps append time. conversion_ns: how long it took to rebuild the
    batch; 0 if that was not needed.
    """

    __slots__ = ("conversion_ns", "crc", "head", "header", "log_append_time_ms", "max_timestamp", "rest")

    def __init__(self, header: BatchHeader, rest: Buffer, crc: i64, max_timestamp: i64, head: bytes = b"") -> None:
        self.header = header
        self.head = head
        self.rest = rest
        self.crc: i64 = crc
        self.max_timestamp: i64 = max_timestamp
        self.log_append_time_ms: i64 = NO_TIMESTAMP
        self.conversion_ns: i64 = 0
