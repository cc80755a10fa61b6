"""Frames of a wanted size: requests whose arrays have as many elements as fit, and requests full of tagged fields.

The table of kinds uses it. A frame of 20 MB may have seven million elements; so one element is encoded, by the
project's own encoders, and its bytes are repeated. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.kafka_releases import served_versions
from barnabas.protocol.message_index import MESSAGES, request_class
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.schema import FieldSchema, WireType

CLIENT_ID = "stalls"
NUMBER_MARK = "########"
"""In a string of an array's element: eight digits, another number in each element."""
EXISTING_NAME = "stall"
"""A topic of the broker; also the name of whatever has one and contains the array."""
_UNKNOWN_TAG = b"\x64\x00"
"""Tag 100, of no bytes: the shortest tagged field that no version knows."""
_FEW = 3


class _Encoded(NamedTuple):
    """An encoded message around an array: the bytes before the array's length, of one element, and behind the last."""

    before: bytes
    element: bytes
    behind: bytes
    is_compact: bool

    def of_size(self, size: int) -> bytes:
        """Return the message with so many elements that it has about `size` bytes, one element at least."""
        count = max(1, (size - len(self.before) - len(self.behind)) // len(self.element))
        length = unsigned_varint(count + 1) if self.is_compact else struct.pack(">i", count)
        return b"".join((self.before, length, *self._elements(count), self.behind))

    def _elements(self, count: int) -> Iterator[bytes]:
        mark = NUMBER_MARK.encode()
        if mark not in self.element:
            yield self.element * count
            return
        start, end = self.element.split(mark, 1)
        for number in range(count):
            yield b"%b%08d%b" % (start, number, end)


def unsigned_varint(value: int) -> bytes:
    """Encode a number as seven bits a byte, lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def version_for_both(message: type[Message]) -> int:
    """Return the newest version that this project and Apache Kafka 3.9 know; the project's where 3.9 has none."""
    known = served_versions("3.9").get(message.api_key)
    return message.max_version if known is None else min(known[1], message.max_version)


def frame_of(api_key: int, version: int, body: bytes, header: bytes | None = None) -> bytes:
    """Return a whole frame, size prefix included. header: instead of an ordinary one."""
    if header is None:
        header = encode_request_header(api_key, version, 1, CLIENT_ID)
    return struct.pack(">i", len(header) + len(body)) + header + body


def request_frame(message: Message, version: int | None = None) -> bytes:
    """Return the frame of a request as it stands."""
    version = version_for_both(type(message)) if version is None else version
    return frame_of(message.api_key, version, _body(message, version))


def wide_frame(make: Callable[[int], Message], size: int, version: int | None = None) -> bytes:
    """Return a request of about `size` bytes. make: the message whose array has so many equal elements."""
    few = make(_FEW)
    version = version_for_both(type(few)) if version is None else version
    encoded = _split(_body(few, version), _body(make(_FEW + 1), version), is_compact=few.is_flexible(version))
    return frame_of(few.api_key, version, encoded.of_size(size))


def tagged_header_frame(message: Message, size: int) -> bytes:
    """Return a request whose header has as many unknown tagged fields as fit."""
    version = version_for_both(type(message))
    header = encode_request_header(message.api_key, version, 1, CLIENT_ID, 2)
    return frame_of(message.api_key, version, _body(message, version), header[:-1] + _tagged_fields(size))


def tagged_body_frame(message: Message, size: int) -> bytes:
    """Return a request that ends with as many unknown tagged fields as fit."""
    version = version_for_both(type(message))
    return frame_of(message.api_key, version, _body(message, version)[:-1] + _tagged_fields(size))


def _tagged_fields(size: int) -> bytes:
    count = max(1, size // len(_UNKNOWN_TAG))
    return unsigned_varint(count) + _UNKNOWN_TAG * count


def _body(message: Message, version: int) -> bytes:
    return b"".join(bytes(piece) for piece in message.encode(version))


def _split(few: bytes, one_more: bytes, *, is_compact: bool) -> _Encoded:
    """Find the array by comparing two messages, of which the second has one element more."""
    element_size = len(one_more) - len(few)
    differs_at = next(position for position, byte in enumerate(few) if byte != one_more[position])
    start = differs_at + 1
    length_size = 1 if is_compact else 4
    behind = start + _FEW * element_size
    return _Encoded(few[: start - length_size], few[start : start + element_size], few[behind:], is_compact)


# -- every array of every request


class ArrayPath(NamedTuple):
    """An array of a request, by the names of the fields that lead to it."""

    message: type[Message]
    fields: tuple[str, ...]

    @property
    def name(self) -> str:
        """The API and the fields, as in `create-topics.topics.configs`."""
        api = self.message.api_key.name.lower().replace("_", "-")
        return ".".join((api, *(field.replace("_", "-") for field in self.fields)))

    def frame(self, size: int) -> bytes:
        """Return a request whose array has as many elements as fit, each as short as an element can be."""
        version = version_for_both(self.message)

        def make(count: int) -> Message:
            made: Message = _with_array(self.message, self.fields, version, count)
            return made

        return wide_frame(make, size, version)


def all_arrays() -> Iterator[ArrayPath]:
    """Iterate over the arrays of all requests, in the versions that both brokers know."""
    for api_key in MESSAGES:
        if api_key < ApiKey.SHARE_GROUP_HEARTBEAT:
            message = request_class(api_key)
            for fields in _array_paths(message, version_for_both(message)):
                yield ArrayPath(message, fields)


def _array_paths(struct_class: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    for field in struct_class.field_schemas():
        if not field.is_present(version) or field.is_tagged(version):
            continue
        if field.is_array:
            yield (field.name,)
        if field.struct is not None:
            yield from ((field.name, *deeper) for deeper in _array_paths(field.struct, version))


def _with_array(struct_class: type[Any], fields: tuple[str, ...], version: int, count: int) -> Any:
    """Make a struct whose array at `fields` has `count` elements; the arrays on the way have one."""
    values: dict[str, Any] = {}
    for field in struct_class.field_schemas():
        if field.name == fields[0]:
            values[field.name] = _towards_array(field, fields[1:], version, count)
        elif field.wire_type is WireType.STRING and not field.is_array and field.is_present(version):
            values[field.name] = EXISTING_NAME
    return struct_class(**values)


def _towards_array(field: FieldSchema, deeper: tuple[str, ...], version: int, count: int) -> Any:
    if not deeper:
        return [_shortest(field)] * count
    inner = _with_array(field.struct, deeper, version, count) if field.struct is not None else None
    return [inner] if field.is_array else inner


def _shortest(field: FieldSchema) -> Any:
    """Return an element that takes as few bytes as the array's type allows."""
    if field.struct is not None:
        return field.struct()
    return {WireType.STRING: "", WireType.BYTES: b"", WireType.UUID: bytes(16)}.get(field.wire_type, 0)
