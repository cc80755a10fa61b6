"""The header of a record batch of format v2: where its fields lie, and one reading of them all.

The Produce handler reads the header of a produced batch once and hands it down: request rules, validation, producer
state and the log look at the same BatchHeader. Batches that are read from disk or by consumers use `RecordBatch`. Pure.

A batch begins with 61 bytes of header. Its first 16 bytes are the leader's to write, so the checksum leaves them out:

    position  size  field
           0     8  base offset
           8     4  length: the bytes behind this field
          12     4  leader epoch
          16     1  magic: 2
          17     4  CRC-32C of all bytes from position 21 on
          21     2  attributes
          23     4  last offset delta: offset of the last record, less the base offset
          27     8  base timestamp
          35     8  max timestamp
          43     8  producer id, -1: none
          51     2  producer epoch
          53     4  base sequence: the sequence number of the first record
          57     4  record count
          61        records, compressed as a whole or not at all

Kafka: DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id,
producer epoch, base sequence, record count."""
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length, which the length does not count; the same in all formats."""
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
"""The first byte that the checksum covers: offset and leader epoch can change without a new checksum."""
PRODUCER_ID_POSITION: Final = 43

# Bits of the attributes. The codec takes three, of which 5 to 7 are no codec (zstd, 4, came with KIP-110). KIP-32 added
# the timestamp type, KIP-98 transactions and control batches, KIP-534 the delete horizon.
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

_unpack = HEADER.unpack_from
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The fields of a header, in the order in which they lie there."""

    base_offset: int
    length: int
    """Size of what follows this field: `size` is 12 bytes more."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @staticmethod
    def parse(buffer: bytes | bytearray | memoryview) -> BatchHeader | None:
        """Read the header at the start of `buffer`, or return None when there is none of magic 2.

        Nothing but the magic is checked: the length may be negative, the batch cut off.
        """
        try:
            # `tuple.__new__` avoids the NamedTuple's constructor, a Python function: every produced batch comes here.
            header = _new(BatchHeader, _unpack(buffer))
        except struct.error:
            return None
        return header if header.magic == 2 else None

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, header included."""
        return self.length + LOG_OVERHEAD

    @property
    def codec_id(self) -> int:
        """The number of the codec, which may be one that does not exist."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds markers instead of records of users."""
        return self.attributes & CONTROL_MASK != 0

    @property
    def is_stamped(self) -> bool:
        """Whether the batch says that its timestamps are those of the append (LogAppendTime)."""
        return self.attributes & TIMESTAMP_TYPE_MASK != 0
