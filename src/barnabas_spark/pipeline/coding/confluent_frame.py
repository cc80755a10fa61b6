"""The frame that Confluent's serializers put before a value: a zero byte, the schema's id, and the message's indexes.

    0x00 | schema id, 4 bytes, big-endian | Protobuf only: indexes | body

The indexes say which message of a Protobuf file the body is: the position of the outermost message in the file, then of
each nested message. They are zigzag varints after their count; one zero byte alone stands for the first message. For
example 0x04 0x02 0x00 is the path (1, 0): the first message inside the file's second one.

Called by the codecs in the executors' Python workers; no state, no lock.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas_spark.pipeline.coding.schema_text import BadValue

_MAGIC = 0
_HEADER_BYTES = 5
_LONGEST_PATH = 100
"""More than anyone nests: Protobuf itself stops at 100 levels."""


class Frame(NamedTuple):
    """A value without its frame."""

    schema_id: int
    body: bytes


class MessageFrame(NamedTuple):
    """A Protobuf body without its indexes."""

    path: tuple[int, ...]
    body: bytes


def unframed(value: bytes) -> Frame:
    """Return the schema's id and what follows it. Raises BadValue: there is no such frame."""
    if len(value) < _HEADER_BYTES:
        raise BadValue(f"the value has {len(value)} bytes, too few for a schema id")
    if value[0] != _MAGIC:
        raise BadValue(f"the value begins with the byte {value[0]:#04x}, not with 0x00 and a schema id")
    return Frame(int.from_bytes(value[1:_HEADER_BYTES], "big"), value[_HEADER_BYTES:])


def framed(schema_id: int, body: bytes) -> bytes:
    """Return a value: the frame and the body."""
    return bytes([_MAGIC]) + schema_id.to_bytes(4, "big") + body


def split_path(body: bytes) -> MessageFrame:
    """Return the message's indexes and the body behind them. Raises BadValue."""
    count, position = _read_index(body, 0)
    if count == 0:
        return MessageFrame((0,), body[position:])
    if not 0 < count <= _LONGEST_PATH:
        raise BadValue(f"the value has {count} message indexes")
    path = []
    for _ in range(count):
        index, position = _read_index(body, position)
        path.append(index)
    return MessageFrame(tuple(path), body[position:])


def encoded_path(path: tuple[int, ...]) -> bytes:
    """Return a message's indexes as they stand before the body."""
    if path == (0,):
        return b"\x00"
    return b"".join(_encoded_index(index) for index in (len(path), *path))


class _Index(NamedTuple):
    value: int
    position: int
    """Behind the varint."""


def _read_index(data: bytes, position: int) -> _Index:
    """Read a zigzag varint of at most five bytes. Raises BadValue."""
    value = shift = 0
    for byte in data[position : position + 5]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _Index((value >> 1) ^ -(value & 1), position)
        shift += 7
    raise BadValue("the message indexes of the value are cut off")


def _encoded_index(index: int) -> bytes:
    left = index << 1
    encoded = bytearray()
    while left >= 0x80:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
