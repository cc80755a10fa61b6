"""The four codecs of Kafka, with bounded decompression. Pure; the GIL is released inside the compiled codecs.

Called by the batch builder, readers and log validation. Three things are peculiar to Kafka. LZ4 frames need independent
blocks and no content checksum, since Java refuses linked blocks. Snappy means xerial framing; raw blocks are accepted
on reading. LZ4 in message format 0 has a wrong header checksum (KAFKA-3160, `compress_lz4_magic_0`).

Xerial framing is 82 "SNAPPY" 00, then 4 bytes of version and 4 of the oldest compatible version, both 1; then for each
block of at most 32 KB its compressed size in 4 bytes, big-endian, and a raw snappy block.

Decompression never believes a length inside the data: the output grows with what really comes out, up to a limit.
For example, 8 KB of zstd may claim 256 MB. The first buffer has 64 KB, then 256 KB, then 1 MB; a caller that allows
1 MB is told DecompressedTooLarge after 1.3 MB of work.

Compressed data come in pieces: members of gzip, blocks of snappy, frames and blocks of LZ4 and zstd. 1 MB may be 50,000
empty members, so a piece costs its own bytes and a few microseconds, and never a copy of the bytes behind it. Blocks
and frames of LZ4 and zstd that are smaller than a writer makes them are left to the codec, which reads them without
the GIL. `limit_pieces` bounds the members and the blocks that are read in Python.

`decompress` returns the whole; `decompressed_pieces` yields one part after another, for callers that skip most of it.
Kafka: CompressionType, Compression.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from barnabas.records.errors import CorruptRecord, DecompressedTooLarge, TooManyPieces
from barnabas.records.recycling_memory_pool import RecyclingMemoryPool

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LIMIT_BYTES: Final = 256 << 20
"""The most a single batch may decompress to, unless the caller says otherwise: 8 KB of zstd can claim 256 MB."""

XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC: Final = XERIAL_HEADER[:8]
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 24  # a three-byte copy element yields 64 bytes, and nothing yields more per byte
_GZIP_WBITS: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_LEFTOVER_BYTES: Final = 18
"""So many bytes behind a member are no member for Java's GZIPInputStream: a header of 10 and a trailer of 8."""
_GZIP_FIRST_INPUT_BYTES: Final = 512
"""The input that a second or later member is given first. The codec copies what the member does not use of it."""
_GZIP_INPUT_BYTES: Final = 64 * 1024
_LZ4_PLAIN_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Version 1, independent blocks of up to 64 KB, nothing optional: what Java and librdkafka write."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_END_MARK: Final = bytes(4)
_LZ4_STORED: Final = 0x80000000
"""The bit in the size of a block that says that the block is not compressed."""
_LZ4_SHORT_BLOCKS: Final = 8
"""The most blocks of less than half the size that are read in Python. A writer's last block may be short."""
LZ4_OUTPUTS: Final = RecyclingMemoryPool(_LZ4_BLOCK_BYTES, kept_buffers=16)
"""More threads than 16 rarely decompress at once."""
_FIRST_GUESS_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1 << 20
"""The largest part that `decompressed_pieces` yields of data that come in one piece."""
ANY_NUMBER: Final = 1 << 62
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


def decompress(
    codec: Codec, data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES, limit_pieces: int = ANY_NUMBER
) -> bytes:
    """Decompress `data` into at most `limit_bytes`, from at most `limit_pieces` members or blocks.

    Raises CorruptRecord when the data is damaged, cut off or (but for gzip) followed by other bytes,
    DecompressedTooLarge or TooManyPieces (which are ones, too) when a limit does not suffice.
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, limit_bytes, limit_pieces)
    if codec == Codec.SNAPPY:
        return _joined(_snappy_blocks(data, limit_bytes, limit_pieces))
    if codec == Codec.LZ4:
        plain = _decompress_plain_lz4(data, limit_bytes)
        if plain is not None:
            return plain
        return _decompress_growing(cramjam.lz4.decompress_into, data, limit_bytes)
    return _decompress_growing(cramjam.zstd.decompress_into, data, limit_bytes)


def decompressed_pieces(
    codec: Codec, data: Buffer, limit_bytes: int = DEFAULT_LIMIT_BYTES, limit_pieces: int = ANY_NUMBER
) -> Iterator[bytes]:
    """Yield what `decompress` returns in parts, so that a large output need not be in memory as a whole.

    LZ4 and zstd can only be decompressed at once: into memory that takes the size of the output, outside of the heap
    and without the GIL. Raises what `decompress` raises, perhaps after some parts.
    """
    if codec == Codec.NONE:
        with memoryview(data) as view:
            for start in range(0, len(view), PIECE_BYTES):
                yield bytes(view[start : start + PIECE_BYTES])
    elif codec == Codec.GZIP:
        yield from _gzip_parts(data, limit_bytes, PIECE_BYTES, limit_pieces)
    elif codec == Codec.SNAPPY:
        yield from _snappy_blocks(data, limit_bytes, limit_pieces)
    else:
        decompress_into = cramjam.lz4.decompress_into if codec == Codec.LZ4 else cramjam.zstd.decompress_into
        yield from _mapped_parts(decompress_into, data, limit_bytes)


def _mapped_parts(
    decompress_into: Callable[[Buffer, mmap.mmap], int], data: Buffer, limit_bytes: int
) -> Iterator[bytes]:
    """Decompress into pages that the system gives only as they are written, and yield the output in parts.

    A bytearray of the limit's size would be filled with zeros first, while every other thread waits for the GIL.
    Raises CorruptRecord, DecompressedTooLarge.
    """
    with mmap.mmap(-1, max(limit_bytes, 1)) as output:
        try:
            written = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise CorruptRecord(str(error)) from None
            raise DecompressedTooLarge(f"the batch decompresses to more than {limit_bytes} bytes") from None
        if written > limit_bytes:
            raise DecompressedTooLarge(f"the batch decompresses to more than {limit_bytes} bytes")
        for start in range(0, written, PIECE_BYTES):
            yield output[start : min(start + PIECE_BYTES, written)]


def _joined(pieces: Iterator[bytes]) -> bytes:
    """Return the pieces as one; the only one without a copy."""
    found = list(pieces)
    return found[0] if len(found) == 1 else b"".join(found)


def _compress_xerial(data: Buffer) -> bytes:
    pieces = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


def _snappy_blocks(data: Buffer, limit_bytes: int, limit_pieces: int) -> Iterator[bytes]:
    """Yield the decompressed blocks of xerial framing, or one raw block.

    Raises CorruptRecord, DecompressedTooLarge, TooManyPieces.
    """
    view = memoryview(data)
    allowed = limit_pieces
    if view[:8] != _XERIAL_MAGIC:
        # librdkafka and others write one raw block.
        yield _decompress_snappy_block(view, limit_bytes)
        return
    position = len(XERIAL_HEADER)
    if len(view) < position:
        raise CorruptRecord("snappy: the stream header is cut off")
    while position < len(view):
        limit_pieces -= 1
        if limit_pieces < 0:
            raise TooManyPieces(f"snappy: more than {allowed} blocks")
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
        position += size
        yield piece


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


def _decompress_gzip(data: Buffer, limit_bytes: int, limit_pieces: int) -> bytes:
    """Decompress one member or more. Raises CorruptRecord, DecompressedTooLarge, TooManyPieces."""
    member = zlib.decompressobj(_GZIP_WBITS)
    try:
        # One byte more than allowed tells a full output from a too long one; a limit of 0 would mean none.
        first = member.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise CorruptRecord(f"gzip: {error}") from None
    if len(first) > limit_bytes:
        raise DecompressedTooLarge(f"the batch decompresses to more than the {limit_bytes} bytes left for it")
    if not member.eof:
        raise CorruptRecord("gzip: the stream is cut off" if len(data) else "gzip: no data")
    # Nearly all data are one member.
    rest = member.unused_data
    if len(rest) <= _GZIP_LEFTOVER_BYTES:
        return first
    behind = _gzip_parts(rest, limit_bytes - len(first), limit_bytes + 1, limit_pieces - 1, is_first=False)
    return b"".join((first, *behind))


# What may follow a member. Concatenated members are one stream for Java's GZIPInputStream, through which Kafka reads.
# It takes bytes behind a member for another member when they are more than 18 and begin with a header; all others it
# ignores, whatever they are. (It counts within its buffer of 8 KB, so that Kafka may overlook a member of less than 19
# bytes; there is none, since an empty one has 20.)


def _gzip_parts(
    data: Buffer, limit_bytes: int, part_bytes: int, limit_members: int = ANY_NUMBER, *, is_first: bool = True
) -> Iterator[bytes]:
    """Yield the decompressed members, each in parts of at most `part_bytes`.

    is_first: whether there must be a member at the beginning of `data`.
    Raises CorruptRecord, DecompressedTooLarge, TooManyPieces.
    """
    with memoryview(data) as view:
        position, end = 0, len(view)
        allowed = limit_members
        while is_first or (
            end - position > _GZIP_LEFTOVER_BYTES and bytes(view[position : position + 3]) == _GZIP_MAGIC
        ):
            limit_members -= 1
            if limit_members < 0:
                raise TooManyPieces(f"gzip: more than {allowed} members")
            # A member is given its input bit by bit, each twice as long as the one before. What it does not use is
            # copied by the codec: that is never more than what it has used, and the first bit.
            size = _GZIP_FIRST_INPUT_BYTES
            member = zlib.decompressobj(_GZIP_WBITS)
            is_first = False
            try:
                while not member.eof:
                    given = member.unconsumed_tail or view[position : position + size]
                    if not len(given):
                        raise CorruptRecord("gzip: the stream is cut off" if end else "gzip: no data")
                    if given is not member.unconsumed_tail:
                        position += len(given)
                        size = min(2 * size, _GZIP_INPUT_BYTES)
                    part = member.decompress(given, min(part_bytes, limit_bytes + 1))
                    limit_bytes -= len(part)
                    if limit_bytes < 0:
                        raise DecompressedTooLarge("the batch decompresses to more than the bytes left for it")
                    if part:
                        yield part
            except zlib.error as error:
                raise CorruptRecord(f"gzip: {error}") from None
            position -= len(member.unused_data)


def _decompress_plain_lz4(data: Buffer, limit_bytes: int) -> bytes | None:
    """Decompress a frame with the plain header block by block; None if anything about it is not plain or not right.

    The codec's reader of frames takes four times as long for a batch of 16 KiB. It reads what this function does not,
    and names the damage. A frame of many short blocks is not plain: reading them one by one takes this function hundred
    times as long, with the GIL.
    """
    if data[: len(_LZ4_PLAIN_HEADER)] != _LZ4_PLAIN_HEADER:
        return None
    output = LZ4_OUTPUTS.allocate(_LZ4_BLOCK_BYTES)
    try:
        return _plain_lz4_blocks(data, output, limit_bytes)
    finally:
        LZ4_OUTPUTS.release(output)


def _plain_lz4_blocks(data: Buffer, output: bytearray, limit_bytes: int) -> bytes | None:
    """Decompress the blocks behind a plain header, each by way of `output`; None as `_decompress_plain_lz4`."""
    pieces: list[bytes] = []
    position, end = len(_LZ4_PLAIN_HEADER), len(data)
    short_left = _LZ4_SHORT_BLOCKS
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
            if len(piece) < _LZ4_BLOCK_BYTES // 2:
                short_left -= 1
                if short_left < 0:
                    return None
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
