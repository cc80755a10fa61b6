"""Helpers of the generated functions, for steps that are too long or too rare to be written out in line.

Called from every thread. The tables below only ever grow by single assignments of finished values, and are bounded.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NoReturn

from barnabas.protocol.errors import DecodeError, EncodeError, ManyElements

# Five bytes of seven bits hold every int32. A sixth byte would begin at bit 35.
_LONGEST_VARINT_SHIFT = 28
_LARGEST_LENGTH = 0x7FFFFFFF
LONGEST_STRING: Final = 0x7FFF
# Bounds of the caches below, whose keys come from clients: lengths of strings and counts of arrays.
_CACHED_VARINTS = 1 << 16
_CACHED_ARRAY_LENGTHS = 1 << 10

MOST_TAGGED_FIELDS: Final = 64
"""Of one struct. No message of Kafka's has ten; a field without content takes two bytes and half a microsecond."""
MOST_ELEMENTS: Final = 1_000_000
"""Of one array of a large request, as in Kafka 4.4."""
FEW_ELEMENTS: Final = 1_000
"""Of all arrays of a request whose bytes say little about its elements, such as a Produce, and that is decoded at once:
about a millisecond. `api.brief` says where."""
DECODED_PER_BYTE: Final = 10
"""The most bytes of memory that the objects of a large request may take, for each byte of its frame."""
DECODED_PER_BYTE_OF_CONTROLLER: Final = 20
"""The same for the state of partitions: each of them has four lists, most of one or three numbers."""
DECODED_FREELY_BYTES: Final = 4 * 1024 * 1024
"""What they may take beyond that, whatever the frame: 20,000 partitions, of any request."""
UNPACKED_AT_ONCE: Final = 16_384
"""Numbers of a large array that are read by one call, which keeps the GIL: a third of a millisecond."""

AS_JAVA: Final = "barnabas.replace-as-java"
"""The error handler with which `str(data, "utf-8", AS_JAVA)` is Java's `new String(bytes, UTF_8)`: U+FFFD stands for
what is not UTF-8. Python's "replace" agrees, except about surrogates."""
# A surrogate (U+D800 to U+DFFF) in UTF-8, whole or without its last byte: Java replaces it once, Python byte by byte.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Decode from the first malformed byte to the end, so that a string costs one call, however malformed it is.

    Raises DecodeError: with three bytes for each U+FFFD the string is too long for an answer that repeats it. (Kafka
    reads such a string, and fails at the answer.)
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data = error.object
    rest = _SURROGATE.sub(_REPLACEMENT, data[error.start :]).decode("utf-8", "replace")
    if 3 * len(data) > LONGEST_STRING and error.start + len(rest.encode()) > LONGEST_STRING:
        raise DecodeError(f"a string of {len(data)} bytes is not UTF-8, and too long with U+FFFD for what is not")
    return rest, len(data)


codecs.register_error(AS_JAVA, _replace_as_java)


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes; return it and the position behind it.

    Raises DecodeError when it is longer, or above what an int32 holds; IndexError at the end of the buffer.
    """
    byte = buffer[position]
    position += 1
    result = byte & 127
    shift = 7
    while byte > 127:
        # Without the bound a frame of 100 MB of 0xff would be one number, built in quadratic time.
        if shift > _LONGEST_VARINT_SHIFT:
            raise DecodeError("varint is longer than five bytes")
        byte = buffer[position]
        position += 1
        result |= (byte & 127) << shift
        shift += 7
    # Kafka reads the varint as a Java int, where this would be a negative length.
    if result > _LARGEST_LENGTH:
        raise DecodeError(f"length {result} is above the limit of an int32")
    return result, position


def read_string_length(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read the compact length of a string, which is one more than its bytes; return it and the position behind it.

    Raises DecodeError when the string is longer than an int16 can say; IndexError at the end of the buffer.
    """
    length, position = read_unsigned_varint(buffer, position)
    if length > LONGEST_STRING + 1:
        raise DecodeError(f"string of {length - 1} bytes is longer than {LONGEST_STRING}")
    return length, position


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Step over tagged fields, none of which is known; return the position behind them.

    The position may lie behind the end of the buffer: the caller compares once, at the end. Raises DecodeError for a
    bad varint or very many fields, IndexError at the end of the buffer.
    """
    count, position = read_unsigned_varint(buffer, position)
    if count > MOST_TAGGED_FIELDS:
        refuse_tags(count)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        # Not checked here: a slice or an index beyond the end fails later, and the decoder compares once at its end.
        position += size
    return position


def write_unsigned_varint(value: int) -> bytes:
    """Write an unsigned varint. Raises EncodeError above what an int32 holds."""
    if not 0 <= value <= _LARGEST_LENGTH:
        raise EncodeError(f"length {value} doesn't fit an int32")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """The varint of each number. The varints of small numbers are kept."""

    __slots__ = ()

    def __missing__(self, value: int) -> bytes:
        if _CACHED_VARINTS <= value < 1 << 21:  # three bytes: the usual length of fetched records
            return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
        encoded = write_unsigned_varint(value)
        if value < _CACHED_VARINTS:
            self[value] = encoded
        return encoded


VARINTS: Final = _Varints()


class _ArrayMethods(dict[int, Callable[..., Any]]):
    """A method of the struct format for n elements, by n. The methods of short arrays are kept."""

    __slots__ = ("_format", "_method")

    def __init__(self, format_character: str, method: str) -> None:
        super().__init__()
        self._format = format_character
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        # 3s would be one string of three bytes: repeat what is no single character.
        repeated = f"{count}{self._format}" if len(self._format) == 1 else self._format * count
        method: Callable[..., Any] = getattr(Struct(f">{repeated}"), self._method)
        if count < _CACHED_ARRAY_LENGTHS:
            self[count] = method
        return method


_array_methods: dict[tuple[str, str], _ArrayMethods] = {}


def array_unpackers(format_character: str) -> _ArrayMethods:
    """Return the table of `unpack_from` by number of elements."""
    return _array_methods.setdefault((format_character, "unpack_from"), _ArrayMethods(format_character, "unpack_from"))


def array_packers(format_character: str) -> _ArrayMethods:
    """Return the table of `pack` by number of elements."""
    return _array_methods.setdefault((format_character, "pack"), _ArrayMethods(format_character, "pack"))


def refuse_null(name: str) -> NoReturn:
    """Refuse null where none is allowed. Raises DecodeError."""
    raise DecodeError(f"non-nullable field {name} was serialized as null")


def refuse_length(name: str, length: int) -> NoReturn:
    """Refuse a length or count that the rest of the frame cannot hold. Raises DecodeError."""
    raise DecodeError(f"field {name} has invalid length {length}")


def refuse_many(count: int) -> NoReturn:
    """Leave the decoding of very many elements to another thread. Raises ManyElements."""
    raise ManyElements(f"another {count} elements, {FEW_ELEMENTS} in all are decoded at once")


def refuse_elements(name: str, count: int) -> NoReturn:
    """Refuse a longer array than any client sends. Raises DecodeError."""
    raise DecodeError(f"field {name} has {count} elements, and at most {MOST_ELEMENTS} are allowed")


def refuse_memory(size: int, bound: int) -> NoReturn:
    """Refuse a message whose objects would take very much more memory than its bytes. Raises DecodeError."""
    raise DecodeError(f"its {size} bytes have so many small elements that they would take more than {bound} bytes")


def refuse_tags(count: int) -> NoReturn:
    """Refuse more tagged fields than any client sends. Raises DecodeError."""
    raise DecodeError(f"{count} tagged fields in one struct, and at most {MOST_TAGGED_FIELDS} are allowed")


def refuse_tag(tag: int) -> NoReturn:
    """Refuse a known tagged field that is shorter or longer than it says. Raises DecodeError."""
    raise DecodeError(f"tagged field {tag} doesn't have the size it says")


def refuse_version(name: str, version: int) -> NoReturn:
    """Refuse a value that this version cannot express (Kafka: UnsupportedVersionException). Raises EncodeError."""
    raise EncodeError(f"Attempted to write a non-default {name} at version {version}")


def refuse_long_string(name: str, length: int) -> NoReturn:
    """Refuse a string above the limit of the protocol. Raises EncodeError."""
    raise EncodeError(f"'{name}' field is too long to be serialized: {length} bytes of at most {LONGEST_STRING}")
