"""Record batches that are small to send and dear to look into: pieces without content, bombs, nested messages.

The table of kinds uses it. Pure; sizes in bytes. Payloads of pieces repeat one piece, so that 20 MB are made at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import cramjam

from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.records.compression import XERIAL_HEADER, Codec, compress
from barnabas.records.legacy_records import encode_message
from barnabas.records.record_batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, sealed
from barnabas.records.v2.layout import encode_zigzag
from tests.chaos.stalls.frames import EXISTING_NAME, request_frame
from tests.support.raw_client import make_batch

TIMESTAMP_MS: Final = 1_700_000_000_000
TIMEOUT_MS: Final = 30_000
OLDEST_WITH_BATCHES: Final = 3
BOMB_BYTES: Final = 100_000_000
"""What one batch of a bomb decompresses to."""
_VERSION: Final = 9
_NESTED_LEVELS: Final = 100


def produce(batches: dict[int, bytes], topic: str = EXISTING_NAME, *, version: int = _VERSION, acks: int = 1) -> bytes:
    """Return the frame of a Produce request of one batch, or message set, a partition."""
    partitions = [ProduceRequest.PartitionProduceData(index, batch) for index, batch in batches.items()]
    data = [ProduceRequest.TopicProduceData(name=topic, partition_data=partitions)]
    return request_frame(ProduceRequest(None, acks, TIMEOUT_MS, data), version)


def batch_around(payload: bytes, codec: Codec, count: int = 1, producer_id: int = -1) -> bytes:
    """Return a batch of format v2 with a right checksum around any payload; it says that it has `count` records."""
    header = bytearray(HEADER_SIZE)
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    times = (TIMESTAMP_MS, TIMESTAMP_MS)
    producer = (producer_id, 0, 0) if producer_id >= 0 else (-1, -1, -1)
    HEADER.pack_into(header, 0, 0, length, -1, 2, 0, codec, count - 1, *times, *producer, count)
    return sealed(header, payload)


# -- pieces of compressed streams


def _lz4_frame(content: bytes) -> bytes:
    return bytes(compress(Codec.LZ4, content))


def _xerial_block(content: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(content))
    return len(block).to_bytes(4, "big") + block


def piece_of(codec: Codec, content: bytes) -> bytes:
    """Return a piece that can be repeated in a stream: a gzip member, a snappy block, a frame of lz4 or zstd."""
    if codec == Codec.SNAPPY:
        return _xerial_block(content)
    return compress(codec, content)


def pieces(codec: Codec, content: bytes, size: int) -> bytes:
    """Return a batch of about `size` bytes whose payload is the same piece again and again."""
    piece = piece_of(codec, content)
    payload = piece * max(1, (size - HEADER_SIZE) // len(piece))
    return batch_around(XERIAL_HEADER + payload if codec == Codec.SNAPPY else payload, codec)


def lz4_blocks(size: int) -> bytes:
    """Return a batch of one lz4 frame of about `size` bytes whose blocks hold one byte each."""
    frame = _lz4_frame(b"")
    block = (1 | 1 << 31).to_bytes(4, "little") + b"\0"
    return batch_around(frame[:-4] + block * max(1, size // len(block)) + frame[-4:], Codec.LZ4)


def bomb(codec: Codec) -> bytes:
    """Return a small valid batch of one record of zeros, `BOMB_BYTES` of them."""
    record = _record(bytes(BOMB_BYTES))
    return batch_around(compress(codec, record), codec)


def _record(value: bytes) -> bytes:
    body = b"\0\0\0\x01" + encode_zigzag(len(value)) + value + b"\0"
    return encode_zigzag(len(body)) + body


# -- records


def large_record(size: int) -> bytes:
    """Return a batch of one record."""
    return make_batch([bytes(size)], timestamp_ms=TIMESTAMP_MS)


def tiny_records(size: int, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of records of no key and no value: about `size` bytes before compression."""
    return make_batch((b"" for _ in range(size // 9)), codec, TIMESTAMP_MS)


def headers_of_one_record(size: int) -> bytes:
    """Return a batch of one record that has as many empty headers as fit."""
    count = size // 2
    body = b"\0\0\0\x01\x01" + encode_zigzag(count) + b"\0\x01" * count
    return batch_around(encode_zigzag(len(body)) + body, Codec.NONE)


def new_producers(size: int) -> Iterator[bytes]:
    """Iterate over requests of one record, each of an idempotent producer of its own, of `size` bytes together."""
    payload = _record(b"x")
    sent = 0
    producer_id = 1_000_000
    while sent < size:
        frame = produce({0: batch_around(payload, Codec.NONE, producer_id=producer_id)}, acks=-1)
        producer_id += 1
        sent += len(frame)
        yield frame


# -- message sets of formats 0 and 1


def tiny_messages(magic: int, size: int) -> bytes:
    """Return an uncompressed message set of empty messages; each of them counts as a batch."""
    message = encode_message(magic, 0, TIMESTAMP_MS, None, b"")
    return message * (size // len(message))


def wrapped_messages(magic: int, codec: Codec, size: int) -> bytes:
    """Return a message that holds empty messages compressed: about `size` bytes before compression."""
    count = max(1, size // (34 if magic else 26))
    inner = b"".join(encode_message(magic, offset, TIMESTAMP_MS, None, b"") for offset in range(count))
    return encode_message(magic, count - 1, TIMESTAMP_MS, None, compress(codec, inner), codec)


def wrapped_pieces(size: int) -> bytes:
    """Return a message of format 1 whose compressed value is a row of empty gzip members."""
    member = compress(Codec.GZIP, b"")
    return encode_message(1, 0, TIMESTAMP_MS, None, member * (size // len(member)), Codec.GZIP)


def nested_messages(size: int) -> bytes:
    """Return compressed messages that hold one another, many levels deep, repeated up to about `size` bytes."""
    message = encode_message(1, 0, TIMESTAMP_MS, None, b"")
    for _ in range(_NESTED_LEVELS):
        compressor = zlib.compressobj(0, zlib.DEFLATED, 31)
        packed = compressor.compress(message) + compressor.flush()
        message = encode_message(1, 0, TIMESTAMP_MS, None, packed, Codec.GZIP)
    return message * max(1, size // len(message))
