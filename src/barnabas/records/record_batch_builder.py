"""Builds a batch of format v2 record by record, or a plain one at once.

The producer's accumulator appends under its partition's lock; conversions and tests build on their own thread.
Kafka: MemoryRecordsBuilder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.records.compression import Buffer, Codec, compress
from barnabas.records.crc import crc32c
from barnabas.records.record_batch import (
    CONTROL_MASK,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    sealed,
)
from barnabas.records.v2.layout import ZIGZAG, encode_zigzag, zigzag

MAX_RECORD_OVERHEAD: Final = 21
"""Length 5, attributes 1, timestamp delta 10, offset delta 5."""
_NULL: Final = b"\x01"
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = b"\x00"

_HEAD: Final = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic, CRC."""
_COVERED: Final = struct.Struct(">hiqqqhii")
"""Attributes, last offset delta, base and max timestamp, producer id, epoch and sequence, count."""
_AFTER_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
"""Bytes of the header that its length field counts."""


class _FixedFields(NamedTuple):
    """Fields of the header that do not depend on the records. log_append_time: None for create time."""

    partition_leader_epoch: int
    attributes: int
    log_append_time: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int


class RecordBatchBuilder:
    """A batch in the making. Offsets count from `base_offset`, or rise as the caller gives them.

    timestamp_type: LOG_APPEND_TIME stamps the whole batch with `log_append_time`. compression_level: None is the
    codec's default.
    """

    __slots__ = (
        "_base_timestamp",
        "_compression_level",
        "_fixed",
        "_max_timestamp",
        "_next_offset",
        "_pieces",
        "base_offset",
        "codec",
        "count",
        "size",
    )

    def __init__(  # noqa: PLR0913 - the fields of the header, each with its usual value
        self,
        codec: Codec = Codec.NONE,
        *,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        timestamp_type: int = CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        partition_leader_epoch: int = NO_LEADER_EPOCH,
        is_transactional: bool = False,
        is_control: bool = False,
        compression_level: int | None = None,
    ) -> None:
        self.codec = codec
        self.base_offset = base_offset
        self.count = 0
        self.size = HEADER_SIZE
        """Bytes of the batch so far, before compression."""
        attributes = (
            codec
            | timestamp_type << 3
            | (TRANSACTIONAL_MASK if is_transactional else 0)
            | (CONTROL_MASK if is_control else 0)
        )
        append_time = log_append_time if timestamp_type == LOG_APPEND_TIME else None
        self._fixed = _FixedFields(
            partition_leader_epoch, attributes, append_time, producer_id, producer_epoch, base_sequence
        )
        self._compression_level = compression_level
        self._next_offset = base_offset
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._pieces: list[Buffer] = []

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        *,
        offset: int | None = None,
    ) -> int:
        """Add a record, and return the size of the batch so far in bytes, before compression.

        Buffers are kept, not copied, until `build`. Raises ValueError when `offset` does not rise.
        """
        if offset is None:
            offset = self._next_offset
        elif offset < self._next_offset:
            raise ValueError(f"offset {offset} is not above the last one, {self._next_offset - 1}")
        # As in Kafka, the first record's timestamp is the base, not the smallest one: deltas may be negative.
        delta = timestamp_ms - self._base_timestamp if self.count else 0
        time_bytes = ZIGZAG[delta] if 0 <= delta < 4096 else encode_zigzag(delta)
        delta = offset - self.base_offset
        offset_bytes = ZIGZAG[delta] if delta < 4096 else encode_zigzag(delta)
        # The record's length comes before its fields, so their sizes are summed first. 3 is for the attributes and for
        # the lengths of key and value, a byte each at least. The table is indexed in line: a call of `zigzag`
        # per field would cost more than the look-up.
        size = 3 + len(time_bytes) + len(offset_bytes)
        if key is None:
            key_prefix, key = _NULL, b""
        else:
            length = len(key)
            key_prefix = ZIGZAG[length] if length < 4096 else encode_zigzag(length)
            size += len(key_prefix) - 1 + length
        if value is None:
            value_prefix, value = _NULL, b""
        else:
            length = len(value)
            value_prefix = ZIGZAG[length] if length < 4096 else encode_zigzag(length)
            size += len(value_prefix) - 1 + length
        header_bytes = encode_headers(headers) if headers else _NO_HEADERS
        size += len(header_bytes)
        prefix = ZIGZAG[size] if size < 4096 else encode_zigzag(size)
        self._pieces += (
            prefix,
            _NO_ATTRIBUTES,
            time_bytes,
            offset_bytes,
            key_prefix,
            key,
            value_prefix,
            value,
            header_bytes,
        )
        # Last, so that a record that cannot be encoded leaves the builder unchanged.
        if self.count == 0:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        self._next_offset = offset + 1
        self.count += 1
        self.size += len(prefix) + size
        return self.size

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
    ) -> None:
        """Set the producer's fields of the header, for a producer that knows them only once the batch is full."""
        attributes = self._fixed.attributes
        self._fixed = self._fixed._replace(
            attributes=attributes | TRANSACTIONAL_MASK if is_transactional else attributes,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )

    def join_pieces(self, first: int) -> int:
        """Join the pieces from number `first` on, and return how many there are now: the `first` of the next call.

        For very many records: there are nine pieces a record, and `build` takes 80 bytes for each, and as one call the
        interpreter for 0.2 s when there are 7 million.
        """
        self._pieces[first:] = (b"".join(self._pieces[first:]),)
        return first + 1

    def build(self) -> bytes:
        """Return the batch of the records so far. More may be added afterwards, and the batch built again."""
        body = b"".join(self._pieces)
        if self.codec:
            body = compress(self.codec, body, self._compression_level)
        fixed = self._fixed
        header = bytearray(HEADER_SIZE)
        HEADER.pack_into(
            header,
            0,
            self.base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(body),
            fixed.partition_leader_epoch,
            2,
            0,
            fixed.attributes,
            self._next_offset - self.base_offset - 1,
            self._base_timestamp,
            self._max_timestamp if fixed.log_append_time is None else fixed.log_append_time,
            fixed.producer_id,
            fixed.producer_epoch,
            fixed.base_sequence,
            self.count,
        )
        return sealed(header, body)


def plain_batch(timestamp_ms: int, records: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Return the uncompressed batch of these keys and values, at least one: one time, no headers, no producer.

    Coordinators write such batches. Their keys and values are mostly of one size each, as those of the offsets of one
    commit are: then nothing of a record but its offset is encoded anew.
    """
    count = len(records)
    if count > len(ZIGZAG):
        builder = RecordBatchBuilder()
        for key, value in records:
            builder.append(timestamp_ms, key, value)
        return builder.build()
    pieces = [_COVERED.pack(0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)]
    key_length = value_length = offset_length = -2
    head = key_size = value_size = b""
    for offset, (key, value) in zip(ZIGZAG, list(records)):  # noqa: B905 - mypyc makes a loop of indexes of this form
        length = -1 if value is None else len(value)
        if len(key) != key_length or length != value_length or len(offset) != offset_length:
            key_length, value_length, offset_length = len(key), length, len(offset)
            key_size, value_size = zigzag(key_length), _NULL if value is None else zigzag(length)
            # 3: attributes, timestamp delta and header count take a byte each.
            size = 3 + offset_length + len(key_size) + key_length + len(value_size) + max(length, 0)
            head = zigzag(size) + b"\x00\x00"  # attributes, timestamp delta
        pieces += (head, offset, key_size, key, value_size, value or b"", _NO_HEADERS)
    covered = b"".join(pieces)
    length = len(covered) - _COVERED.size + _AFTER_LENGTH
    return _HEAD.pack(0, length, -1, 2, crc32c(covered)) + covered


def encode_headers(headers: Iterable[tuple[str, Buffer | None]]) -> bytes:
    """Encode the headers of a record, their count first."""
    pieces: list[Buffer] = []
    count = 0
    for name, value in headers:
        encoded = name.encode()
        pieces += (zigzag(len(encoded)), encoded)
        if value is None:
            pieces.append(_NULL)
        else:
            pieces += (zigzag(len(value)), value)
        count += 1
    return zigzag(count) + b"".join(pieces)


def estimate_size(key: Buffer | None, value: Buffer | None, headers: Iterable[tuple[str, Buffer | None]] = ()) -> int:
    """Return an upper bound of the bytes that one record takes in a batch, the batch's header aside."""
    size = MAX_RECORD_OVERHEAD + 5 + 5 + 1
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    return size + len(encode_headers(headers)) if headers else size
