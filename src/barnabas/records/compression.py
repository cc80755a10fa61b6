"""The four codecs of Kafka, with bounded decompression. Pure; the GIL is released inside the compiled codecs.

Called by the batch builder, readers and log validation. Three things are peculiar to Kafka. LZ4 frames need independent
blocks and no content checksum, since Java refuses linked blocks. Snappy means xerial framing; raw blocks are accepted
on reading. LZ4 in message format 0 has a wrong header checksum (KAFKA-3160, `compress_lz4_magic_0`).

Xerial framing is 82 "SNAPPY" 00, then 4 bytes of version and 4 of the oldest compatible version, both 1; then for each
block of at most 32 KB its compressed size in 4 bytes, big-endian, and a raw snappy block.

Decompression never believes a length inside the data: the output grows with what really comes out, up to a limit.
For example, 8 KB of zstd may claim 256 MB. The first buffer has 64 KB, then 256 KB, then 1 MB; a caller that allows
1 MB is told DecompressedTooLarge after 1.3 MB of work.
Kafka: CompressionType, Compression.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from barnabas.records.errors import CorruptRecord, DecompressedTooLarge
from barnabas.records.xxhash32 import xxhash32

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LIMIT_BYTES: Final = 256 << 20
"""The most a single batch may decompress to, unless the caller says otherwise: 8 KB of zstd can claim 256 MB."""

XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC: Final = XERIAL_HEADER[:8]
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 24  # a three-byte copy element yields 64 bytes, and nothing yields more per byte
_GZIP_WBITS: Final = 31
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_PLAIN_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Version 1, independent blocks of up to 64 KB, nothing optional: what Java and librdkafka write."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_END_MARK: Final = bytes(4)
_LZ4_STORED: Final = 0x80000000
"""The bit in the size of a block that says that the block is not compressed."""
_FIRST_GUESS_BYTES: Final = 64 * 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"


class Codec(IntEnum):
    """Compression of a batch: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Codec:
        """Return the codec of a `compression.type` value. Raises ValueError when no codec has the name."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"unknown compression type {name!r}; known are {known}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`. level: None is Kafka's default of the codec; snappy has no levels."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return compressor.compress(data) + compressor.flush()
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        if level is None:
            return _compress_plain_lz4(data)
        # cramjam's default writes linked blocks and a content checksum, which Java refuses.
        frame = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
        frame.compress(data if isinstance(data, bytes) else bytes(data))
        return bytes(frame.finish())
    return bytes(cramjam.zstd.compress(data, 3 if level is None else level))


def _compress_plain_lz4(data: Buffer) -> bytes:
    """Compress into a frame with the plain header: twice as fast as the codec's writer of frames, and read faster."""
    frame = bytearray(_LZ4_PLAIN_HEADER)
    with memoryview(data) as view:
        for start in range(0, len(view), _LZ4_BLOCK_BYTES):
            block = view[start : start + _LZ4_BLOCK_BYTES]
            compressed = cramjam.lz4.compress_block(block, store_size=False)
            size = len(compressed)
            if size < len(block):
                frame += size.to_bytes(4, "little")
                frame += memoryview(compressed)
            else:
                frame += (len(block) | _LZ4_STORED).to_bytes(4, "little")
                frame += block
    return bytes(frame) + _LZ4_END_MARK


def decompress(codec: Codec, data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Decompress `data` into at most `limit_bytes`.

    Raises CorruptRecord when the data is damaged, cut off or followed by other bytes, DecompressedTooLarge (which is
    one, too) when it decompresses to more.
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, limit_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, limit_bytes)
    if codec == Codec.LZ4:
        plain = _decompress_plain_lz4(data, limit_bytes)
        if plain is not None:
            return plain
        return _decompress_growing(cramjam.lz4.decompress_into, data, limit_bytes)
    return _decompress_growing(cramjam.zstd.decompress_into, data, limit_bytes)


def compress_lz4_magic_0(data: Buffer) -> bytes:
    """Compress for message format 0, whose LZ4 header checksum covers the frame's magic, too (KAFKA-3160)."""
    frame = compress(Codec.LZ4, data)
    end = _lz4_checksum_position(frame)
    return frame[:end] + bytes([xxhash32(frame[:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def decompress_lz4_magic_0(data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Decompress the LZ4 of message format 0, whose header checksum may be right, or wrong in Kafka's way.

    Raises what `decompress` raises.
    """
    frame = bytes(data)
    end = _lz4_checksum_position(frame)
    repaired = frame[:end] + bytes([xxhash32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]
    return decompress(Codec.LZ4, repaired, limit_bytes)


def _lz4_checksum_position(frame: bytes) -> int:
    """Return the position of the header's checksum byte. Raises CorruptRecord when there is no whole header.

    Before the checksum lie the magic, FLG, BD, and as FLG says, 8 bytes of content size and 4 of a dictionary id.
    """
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC:
        raise CorruptRecord("lz4: the data do not begin with a frame header")
    flags = frame[4]
    position = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if position >= len(frame):
        raise CorruptRecord("lz4: the frame header is cut off")
    return position


def _compress_xerial(data: Buffer) -> bytes:
    pieces = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytes:
    """Decompress xerial framing, or one raw block. Raises CorruptRecord, DecompressedTooLarge."""
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        # librdkafka and others write one raw block.
        return _decompress_snappy_block(view, limit_bytes)
    pieces = []
    position = len(XERIAL_HEADER)
    if len(view) < position:
        raise CorruptRecord("snappy: the stream header is cut off")
    while position < len(view):
        # Java's reader takes concatenated streams. The magic cannot be a block's size: that would be negative.
        if view[position : position + 8] == _XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            continue
        if position + 4 > len(view):
            raise CorruptRecord("snappy: the size of a block is cut off")
        size = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if size < 0 or position + size > len(view):
            raise CorruptRecord(f"snappy: a block claims {size} bytes, {len(view) - position} are there")
        piece = _decompress_snappy_block(view[position : position + size], limit_bytes)
        limit_bytes -= len(piece)
        pieces.append(piece)
        position += size
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    """Decompress a raw block, which begins with its size. Raises CorruptRecord, DecompressedTooLarge."""
    try:
        # A block states its decompressed size. It is tested before memory is allocated: it may be wrong.
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_MAX_RATIO:
            raise CorruptRecord(f"snappy: a block of {len(block)} bytes claims to hold {size}")
        if size > limit_bytes:
            raise DecompressedTooLarge(f"the batch decompresses to more than the {limit_bytes} bytes left for it")
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(str(error)) from None
    if written != size:
        raise CorruptRecord(f"snappy: a block holds {written} bytes, its header says {size}")
    return bytes(output)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    """Decompress one member or more. Raises CorruptRecord, DecompressedTooLarge."""
    pieces = []
    rest: Buffer = data
    try:
        # Concatenated members are one stream, as for Java's GZIPInputStream.
        while len(rest):
            member = zlib.decompressobj(_GZIP_WBITS)
            # One byte more than allowed tells a full output from a too long one; a limit of 0 would mean none.
            piece = member.decompress(rest, limit_bytes + 1)
            if len(piece) > limit_bytes:
                raise DecompressedTooLarge(f"the batch decompresses to more than the {limit_bytes} bytes left for it")
            if not member.eof:
                raise CorruptRecord("gzip: the stream is cut off")
            limit_bytes -= len(piece)
            pieces.append(piece)
            rest = member.unused_data
    except zlib.error as error:
        raise CorruptRecord(f"gzip: {error}") from None
    if not pieces:
        raise CorruptRecord("gzip: no data")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_plain_lz4(data: Buffer, limit_bytes: int) -> bytes | None:
    """Decompress a frame with the plain header block by block; None if anything about it is not plain or not right.

    The codec's reader of frames takes four times as long for a batch of 16 KiB. It reads what this function does not,
    and names the damage.
    """
    if data[: len(_LZ4_PLAIN_HEADER)] != _LZ4_PLAIN_HEADER:
        return None
    pieces: list[bytes] = []
    position, end = len(_LZ4_PLAIN_HEADER), len(data)
    output = bytearray(min(_LZ4_BLOCK_BYTES, limit_bytes))
    with memoryview(data) as source, memoryview(output) as target:
        while position + 4 <= end:
            size = int.from_bytes(source[position : position + 4], "little")
            position += 4
            if not size:
                # The end mark, which must be the last thing of all.
                return b"".join(pieces) if position == end else None
            room = min(_LZ4_BLOCK_BYTES, limit_bytes)
            is_stored = size & _LZ4_STORED != 0
            size &= ~_LZ4_STORED
            if not 0 < size <= min(end - position, room if is_stored else _LZ4_BLOCK_BYTES):
                return None
            block = source[position : position + size]
            if is_stored:
                piece = bytes(block)
            else:
                try:
                    written = cramjam.lz4.decompress_block_into(block, target[:room], room)
                except cramjam.DecompressionError:
                    return None
                piece = bytes(target[:written])
            pieces.append(piece)
            limit_bytes -= len(piece)
            position += size
    return None


def _decompress_growing(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit_bytes: int) -> bytes:
    """Decompress into a buffer that grows fourfold until the output fits; at most 4/3 of the work is wasted.

    Raises CorruptRecord when the data is damaged, DecompressedTooLarge when the output does not fit `limit_bytes`.
    """
    capacity = min(max(_FIRST_GUESS_BYTES, 4 * len(data)), limit_bytes)
    while True:
        output = bytearray(capacity)
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise CorruptRecord(str(error)) from None
        else:
            with memoryview(output) as view:
                return bytes(view[:written])
        if capacity >= limit_bytes:
            raise DecompressedTooLarge(f"the batch decompresses to more than {limit_bytes} bytes")
        capacity = min(4 * capacity, limit_bytes)
