"""Message sets, the formats of magic 0 and 1: reading and writing them. Pure.

Old clients produce message sets and old logs hold them. Every outer message counts as a batch, as in Kafka: of one
record, or of the records compressed in its value. Log validation and consumers read; `record_conversion` converts both
ways.

    position  size  field
           0     8  offset
           8     4  size: the bytes behind this field
          12     4  CRC-32 of everything behind it
          16     1  magic: 0 or 1
          17     1  attributes: bits 0-2 the codec, bit 3 the timestamp type (magic 1)
          18     8  timestamp, only in magic 1 (KIP-32): the fields behind it begin at 26 there, at 18 in magic 0
       18/26     4  key length, negative for null; then the key
                 4  value length, negative for null; then the value

Offsets of compressed messages are the surprising part (KIP-31). Three records at offsets 10 to 12 lie in a wrapper of
offset 12, the last one's. In magic 0 the inner messages say 10, 11 and 12; in magic 1 they say 0, 1 and 2, so that a
broker can assign offsets without compressing anew: the first is 12 - 2.
Kafka: AbstractLegacyRecordBatch, LegacyRecord.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence

from barnabas.records.compression import (
    ANY_NUMBER,
    DEFAULT_LIMIT_BYTES,
    Buffer,
    Codec,
    compress,
    decompress,
)
from barnabas.records.errors import CorruptRecord, InvalidMessageSet, UnsupportedCodec
from barnabas.records.record_batch import (
    CODEC_MASK,
    CREATE_TIME,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    is_whole_batch,
)
from barnabas.records.v2.walk import Record

MIN_MESSAGE_SIZE = (14, 22)
"""Smallest value of the size field per magic: CRC, magic, attributes, timestamp, two lengths."""
_CRC_START = 16
_UNSIGNED_64 = 0xFFFFFFFFFFFFFFFF
_HEADER = struct.Struct(">qiIbB")
_LENGTH = struct.Struct(">i")


class LegacyBatch:
    """The outer message at `position` of `buffer`: one record, or a wrapper of compressed ones.

    It has the members of RecordBatch that readers of mixed logs use. length: with offset and size. The constructor
    raises CorruptRecord when the message is cut off, of another magic, or too small.
    """

    __slots__ = ("attributes", "buffer", "crc", "last_offset", "length", "magic", "position", "timestamp")

    is_control = False
    is_transactional = False
    attributes: int
    crc: int
    last_offset: int
    length: int
    magic: int
    timestamp: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        try:
            self.last_offset, size, self.crc, self.magic, self.attributes = _HEADER.unpack_from(buffer, position)
        except struct.error:
            raise CorruptRecord(f"{len(buffer) - position} bytes are too few for a message header") from None
        if self.magic not in (0, 1):
            raise CorruptRecord(f"a message of magic {self.magic} where 0 or 1 was expected")
        if size < MIN_MESSAGE_SIZE[self.magic]:
            raise CorruptRecord(f"a message claims a size of {size} bytes, less than its header")
        self.length = size + LOG_OVERHEAD
        if self.length > len(buffer) - position:
            raise CorruptRecord(f"the message at offset {self.last_offset} is cut off")
        self.timestamp = NO_TIMESTAMP
        if self.magic == 1:
            self.timestamp = int.from_bytes(buffer[position + 18 : position + 26], "big", signed=True)

    @property
    def codec(self) -> Codec:
        """The codec of the wrapped messages.

        Raises CorruptRecord for a number that no codec has, InvalidMessageSet for zstd, which the formats do not have.
        """
        codec = self.attributes & CODEC_MASK
        if codec > Codec.LZ4:
            error = InvalidMessageSet if codec == Codec.ZSTD else CorruptRecord
            raise error(f"unknown compression codec {codec} in a message of magic {self.magic}")
        return Codec(codec)

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME, which magic 0 counts as, or LOG_APPEND_TIME."""
        return LOG_APPEND_TIME if self.magic and self.attributes & TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def max_timestamp(self) -> int:
        """Timestamp of the message, which for a wrapper is the largest of those inside; -1 in magic 0."""
        return self.timestamp

    @property
    def next_offset(self) -> int:
        """The offset behind the batch: a wrapper carries the offset of its last record."""
        return self.last_offset + 1

    @property
    def base_offset(self) -> int:
        """Offset of the first record. Raises CorruptRecord when a wrapper cannot be decompressed for it."""
        return next(self.records()).offset if self.codec else self.last_offset

    @property
    def end(self) -> int:
        """Position behind the message in its buffer."""
        return self.position + self.length

    def is_valid_crc(self) -> bool:
        """Return whether the checksum (CRC-32 of everything behind it) is right."""
        with memoryview(self.buffer) as view, view[self.position + _CRC_START : self.end] as covered:
            return zlib.crc32(covered) == self.crc

    def check(self) -> None:
        """Check the checksum. Raises CorruptRecord when it is wrong."""
        if not self.is_valid_crc():
            raise CorruptRecord(f"the message at offset {self.last_offset} does not have checksum {self.crc:#010x}")

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Return the fields of this message itself. Raises CorruptRecord when the message is shorter than they claim.

        As in Kafka, any negative length stands for null, and the message may be longer than its fields.
        """
        key, position = self._field(self.position + (18 if self.magic == 0 else 26))
        value, _ = self._field(position)
        return key, value

    def records(self, limit_bytes: int = DEFAULT_LIMIT_BYTES, limit_pieces: int = ANY_NUMBER) -> Iterator[Record]:
        """Iterate over the records with their absolute offsets.

        A wrapper stamped with append time stamps the messages inside. Raises CorruptRecord or InvalidMessageSet, before
        the first record.
        """
        if not self.codec:
            key, value = self.key_and_value()
            yield Record(self.last_offset, self.timestamp, key, value)
            return
        body = self._body(limit_bytes, limit_pieces)
        positions = self._checked_positions(body)
        # KIP-31: inner offsets of magic 1 are relative, and the wrapper has the absolute offset of the last one.
        base = self.last_offset - _offset_at(body, positions[-1]) if self.magic == 1 else -1
        append_time = self.timestamp if self.timestamp_type == LOG_APPEND_TIME else None
        for position in positions:
            message = LegacyBatch(body, position)
            key, value = message.key_and_value()
            # Some early clients left the wrapper at offset 0: then the inner offsets stand as they are, as in Kafka.
            offset = message.last_offset + base if base >= 0 else message.last_offset
            yield Record(offset, message.timestamp if append_time is None else append_time, key, value)

    def _body(self, limit_bytes: int, limit_pieces: int) -> bytes:
        """Decompress the messages inside a wrapper. Raises CorruptRecord, InvalidMessageSet when it has no value."""
        value = self.key_and_value()[1]
        if value is None:
            raise InvalidMessageSet(f"the compressed message at offset {self.last_offset} has no value")
        if self.codec == Codec.LZ4 and self.magic == 0:
            from barnabas.records.xxhash32 import decompress_lz4_magic_0  # noqa: PLC0415 - very old logs have it

            return decompress_lz4_magic_0(value, limit_bytes)
        return decompress(self.codec, value, limit_bytes, limit_pieces)

    def _checked_positions(self, body: bytes) -> array[int]:
        """Return where the messages inside a wrapper begin, after a check of each.

        Not the messages: 800,000 of them take 300 MB, and to free them keeps the interpreter for 0.2 s. Raises
        CorruptRecord when they cannot be read, InvalidMessageSet when they can and Kafka refuses them.
        """
        positions = array("q")
        position = 0
        # A message that is cut off by the end is left out, as Kafka does it here and for outer messages.
        while position + LOG_OVERHEAD <= len(body):
            size = int.from_bytes(body[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
            if size < MIN_MESSAGE_SIZE[0]:
                raise CorruptRecord(f"a message claims a size of {size} bytes, less than its header")
            if position + LOG_OVERHEAD + size > len(body):
                break
            positions.append(position)
            position += LOG_OVERHEAD + size
        if not positions:
            raise InvalidMessageSet(f"the compressed message at offset {self.last_offset} holds nothing")
        if self.magic and self.last_offset:
            # Some early clients left offset 0 in the wrapper; Kafka uses any other as it stands.
            last = _offset_at(body, positions[-1])
            if self.last_offset < last:
                raise InvalidMessageSet(f"the wrapper's offset {self.last_offset} is below that of a message, {last}")
        for position in positions:
            self._check_inner(body, position)
        return positions

    def _check_inner(self, body: bytes, position: int) -> None:
        """Check the message at `position` inside a wrapper. Raises CorruptRecord, InvalidMessageSet."""
        magic = body[position + MAGIC_POSITION]
        if magic != self.magic:
            raise InvalidMessageSet(f"a message of magic {magic} inside one of magic {self.magic}")
        message = LegacyBatch(body, position)
        if message.attributes & CODEC_MASK:
            raise InvalidMessageSet("a compressed message inside a compressed message")
        message.check()

    def _field(self, position: int) -> tuple[bytes | None, int]:
        """Return the field at `position`, and the position behind it. Raises CorruptRecord when it is cut off."""
        if position + 4 > self.end:
            raise CorruptRecord(f"the message at offset {self.last_offset} is shorter than its fields")
        (length,) = _LENGTH.unpack_from(self.buffer, position)
        position += 4
        if length < 0:
            return None, position
        if length > self.end - position:
            raise CorruptRecord(f"a field of the message at offset {self.last_offset} claims {length} bytes")
        return bytes(self.buffer[position : position + length]), position + length

    def __repr__(self) -> str:
        return f"LegacyBatch(magic {self.magic}, last offset {self.last_offset}, {self.length} bytes)"


def _offset_at(buffer: Buffer, position: int) -> int:
    return int.from_bytes(buffer[position : position + 8], "big", signed=True)


def legacy_batches(buffer: Buffer, position: int = 0) -> Iterator[LegacyBatch]:
    """Iterate over the whole outer messages from `position` on, up to one that the end of the buffer cuts off.

    Raises CorruptRecord at a message that is no message.
    """
    while is_whole_batch(buffer, position):
        batch = LegacyBatch(buffer, position)
        yield batch
        position = batch.end


def encode_message(
    magic: int,
    offset: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    attributes: int = 0,
) -> bytes:
    """Encode one message with its offset and size. Numbers beyond 64 bits wrap around, as in Java."""
    body = b"".join(
        (
            struct.pack(">bB", magic, attributes),
            struct.pack(">Q", timestamp & _UNSIGNED_64) if magic else b"",
            _encode_field(key),
            _encode_field(value),
        )
    )
    return struct.pack(">QiI", offset & _UNSIGNED_64, len(body) + 4, zlib.crc32(body)) + body


def encode_message_set(
    magic: int, records: Sequence[Record], codec: Codec = Codec.NONE, timestamp_type: int = CREATE_TIME
) -> bytes:
    """Encode records, of which there must be one, as messages of `magic`, or as one wrapper if there is a codec.

    Headers are dropped, since the formats have none, and timestamps in magic 0. Raises UnsupportedCodec for zstd.
    """
    if codec:
        wrapper = MessageWrapper(magic, codec, timestamp_type)
        wrapper.add(records)
        return wrapper.build()
    stamp_attribute = timestamp_type << 3 if magic else 0
    return b"".join(
        encode_message(magic, record.offset, record.timestamp, record.key, record.value, stamp_attribute)
        for record in records
    )


class MessageWrapper:
    """A message in the making that holds other messages compressed, at least one.

    The constructor raises UnsupportedCodec for zstd, which the formats do not have.
    """

    __slots__ = ("_codec", "_first_offset", "_last_offset", "_magic", "_max_timestamp", "_pieces", "_stamp_attribute")

    def __init__(self, magic: int, codec: Codec, timestamp_type: int = CREATE_TIME) -> None:
        if codec > Codec.LZ4:
            raise UnsupportedCodec(f"{codec.name.lower()} does not exist in message format {magic}")
        self._magic = magic
        self._codec = codec
        self._stamp_attribute = timestamp_type << 3 if magic else 0
        self._pieces: list[bytes] = []
        self._first_offset: int | None = None
        self._last_offset = -1
        self._max_timestamp = NO_TIMESTAMP

    def add(self, records: Sequence[Record]) -> None:
        """Add records, in the order of their offsets."""
        magic, attribute = self._magic, self._stamp_attribute
        if self._first_offset is None:
            self._first_offset = records[0].offset
        relative_to = self._first_offset if magic else 0
        self._pieces += [
            encode_message(magic, record.offset - relative_to, record.timestamp, record.key, record.value, attribute)
            for record in records
        ]
        self._last_offset = records[-1].offset
        self._max_timestamp = max(self._max_timestamp, *(record.timestamp for record in records))

    def build(self) -> bytes:
        """Return the wrapper, which carries the offset of the last record and the largest timestamp."""
        body = b"".join(self._pieces)
        is_old_lz4 = self._codec == Codec.LZ4 and self._magic == 0
        if is_old_lz4:
            from barnabas.records.xxhash32 import compress_lz4_magic_0  # noqa: PLC0415 - very old clients have it

            packed = compress_lz4_magic_0(body)
        else:
            packed = compress(self._codec, body)
        attributes = self._stamp_attribute | self._codec
        return encode_message(self._magic, self._last_offset, self._max_timestamp, None, packed, attributes)


def _encode_field(field: Buffer | None) -> bytes:
    return b"\xff\xff\xff\xff" if field is None else _LENGTH.pack(len(field)) + field
