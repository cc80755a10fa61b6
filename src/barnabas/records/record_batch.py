"""A record batch of format v2: where the fields of its header lie, its checksum, its records.

Two readings of a header: the Produce handler makes one `BatchHeader` of a produced batch and hands it down: request
rules, validation, producer state and the log look at the same one. Recovery, followers, the cleaner and consumers make
one `RecordBatch`, a view, of each batch that they read. A view belongs to the thread that made it, keeps the buffer
alive, and copies nothing until records are asked for.

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
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.records.compression import DEFAULT_LIMIT_BYTES, Buffer, Codec, decompress
from barnabas.records.crc import crc32c
from barnabas.records.errors import CorruptRecord
from barnabas.records.fixed_fields import HeaderFields
from barnabas.records.v2.walk import Record, read_records

if TYPE_CHECKING:
    from mypy_extensions import i64

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
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

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
# Clients write -1 as the leader epoch: only the leader knows it, and the checksum does not cover it.
NO_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

_CONTROL_KEY: Final = struct.Struct(">hh")
_CODECS: Final = tuple(Codec)
_view: Final = memoryview


class BatchHeader(HeaderFields):
    """The header at the start of a produced batch, and what its attributes say."""

    __slots__ = ()

    @staticmethod
    def parse(buffer: Buffer) -> BatchHeader | None:
        """Read the header at the start of `buffer`, or return None when there is none of magic 2.

        Nothing but the magic is checked: the length may be negative, the batch cut off.
        """
        try:
            header = BatchHeader(buffer)
        except CorruptRecord:
            return None
        return header if header.magic == 2 else None

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


class ControlRecord(NamedTuple):
    """The key of a record in a control batch: type 0 aborts, 1 commits a transaction; others belong to KRaft."""

    version: int
    type: int

    @classmethod
    def parse(cls, key: bytes | None) -> ControlRecord:
        """Parse a key, to which later versions may append fields. Raises CorruptRecord when it is too short."""
        if key is None or len(key) < _CONTROL_KEY.size:
            raise CorruptRecord("a control record has no valid key")
        return cls(*_CONTROL_KEY.unpack_from(key))


class RecordBatch(BatchHeader):
    """The batch at `position` of `buffer`, of which only the header must be there until records are asked for.

    The constructor raises CorruptRecord when the header is cut off, not of magic 2, or claims less than its own size.
    """

    __slots__ = ("buffer", "position")

    def __init__(self, buffer: Buffer, position: i64 = 0) -> None:
        super().__init__(buffer, position)
        self.buffer = buffer
        self.position: i64 = position
        if self.magic != 2:
            raise CorruptRecord(f"a batch of magic {self.magic} where 2 was expected")
        if self.length < HEADER_SIZE:
            length = self.length - LOG_OVERHEAD
            raise CorruptRecord(f"a batch claims a size of {length} bytes, less than its header")

    @property
    def codec(self) -> Codec:
        """The codec of the records. Raises CorruptRecord when the attributes name one that does not exist."""
        try:
            return _CODECS[self.attributes & CODEC_MASK]
        except IndexError:
            raise CorruptRecord(f"unknown compression codec {self.attributes & CODEC_MASK}") from None

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the cleaner may drop the batch's tombstones and markers (KIP-534), or None."""
        # The horizon has no field of its own: the cleaner puts it into the base timestamp and changes the deltas of the
        # records accordingly, so that their timestamps stay the same.
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the batch as it was produced: compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; sequence numbers wrap to 0 after 2^31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        # The mask wraps the sum as DefaultRecordBatch.incrementSequence does: 0 follows 2^31 - 1.
        return self.base_sequence + self.last_offset_delta & MAX_SEQUENCE

    @property
    def end(self) -> int:
        """Position behind the batch in its buffer."""
        return self.position + self.length

    def is_valid_crc(self) -> bool:
        """Return whether the batch is whole and its checksum right."""
        # A slice clips at the end of the buffer without an error, so a batch that is cut off is told by its length.
        end = self.position + self.length
        if end > len(self.buffer):
            return False
        # The views live no longer than the call: a bytearray cannot be resized as long as a view of it exists.
        return crc32c(_view(self.buffer)[self.position + ATTRIBUTES_POSITION : end]) == self.crc

    def check(self) -> None:
        """Check that the batch is whole and its checksum right. Raises CorruptRecord when not (Kafka: ensureValid)."""
        if not self.is_valid_crc():
            raise CorruptRecord(
                f"the batch at offset {self.base_offset} is cut off or its checksum is not {self.crc:#010x}"
            )

    def records_view(self) -> memoryview:
        """Return the records as they are stored, compressed or not. Raises CorruptRecord when they are cut off."""
        if self.end > len(self.buffer):
            raise CorruptRecord(f"the batch at offset {self.base_offset} is cut off")
        return memoryview(self.buffer)[self.position + HEADER_SIZE : self.end]

    def decompressed_records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
        """Return the records, decompressed into at most `limit_bytes`. Raises what `decompress` raises."""
        with self.records_view() as view:
            return decompress(self.codec, view, limit_bytes)

    def records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Iterator[Record]:
        """Iterate over the records, whose keys and values are copies.

        Raises CorruptRecord at the first record that is malformed, at a wrong count, and at bytes behind the last one.
        """
        # KIP-32: the records of a stamped batch keep the producer's deltas; the max timestamp replaces all of them.
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE_MASK else None
        body = self.decompressed_records(limit_bytes)
        return read_records(body, self.count, self.base_offset, self.base_timestamp, append_time)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}-{self.last_offset}, {self.count} records, {self.length} bytes,"
            f" epoch {self.partition_leader_epoch}, attributes {self.attributes:#x}, producer {self.producer_id}"
            f"/{self.producer_epoch} from {self.base_sequence})"
        )


def is_whole_batch(buffer: Buffer, position: int) -> bool:
    """Return whether a whole batch or message, of any format, lies at `position`."""
    available = len(buffer) - position
    if available < MAGIC_POSITION + 1:
        return False
    # A negative size passes for a whole batch here: the batch's own constructor raises CorruptRecord for it.
    size = int.from_bytes(buffer[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    return available >= size + LOG_OVERHEAD


def batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Iterate over the whole v2 batches from `position` on, up to one that the end of the buffer cuts off.

    Checksums are the caller's to check. Raises CorruptRecord at a header that is wrong, or of magic 0 or 1: where those
    can occur, use `memory_records.any_batches`.
    """
    end = len(buffer)
    while is_whole_batch(buffer, position):
        batch = RecordBatch(buffer, position)
        position += batch.length
        if position > end:
            return
        yield batch


# -- batches as an encoder leaves them
#
# The encoder of tables makes them. The idempotent producer writes its id and the sequence numbers into the header just
# before it sends a batch, long after encoding it, and again when its own id changes. The checksum covers both: so the
# checksum is computed then, once, over all bytes. Kafka: MemoryRecordsBuilder.setProducerState.

_PRODUCER_STATE: Final = struct.Struct(">qhi")


class EncodedBatch(NamedTuple):
    """One batch with offsets from 0 and no producer id. `unsealed`: its bytes, with 0 for the checksum."""

    unsealed: bytes
    record_count: int

    @property
    def size(self) -> int:
        """The batch's bytes."""
        return len(self.unsealed)

    @property
    def data(self) -> bytes:
        """A copy with the checksum: a batch that any broker takes."""
        return with_checksum(self.unsealed)


def with_checksum(batch: bytes) -> bytes:
    """Return a copy of the batch with the checksum of its bytes."""
    return sealed(bytearray(batch[:HEADER_SIZE]), memoryview(batch)[HEADER_SIZE:])


def sealed(header: bytearray, records: Buffer) -> bytes:
    """Return the batch of this header and these records. Writes the checksum into the header."""
    # The checksum goes on from the header to the records: they are copied once, by the join.
    crc = crc32c(records, crc32c(header[ATTRIBUTES_POSITION:]))
    header[CRC_POSITION:ATTRIBUTES_POSITION] = crc.to_bytes(4, "big")
    return b"".join((header, records))


def with_producer_state(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> bytes:
    """Return a copy of the batch with this producer state and a new checksum; part of a transaction, or as it was."""
    # Producer id, epoch and base sequence lie side by side in the header, and the checksum covers all three.
    header = bytearray(batch[:HEADER_SIZE])
    _PRODUCER_STATE.pack_into(header, PRODUCER_ID_POSITION, producer_id, producer_epoch, base_sequence)
    if is_transactional:
        header[ATTRIBUTES_POSITION + 1] |= TRANSACTIONAL_MASK
    return sealed(header, memoryview(batch)[HEADER_SIZE:])
