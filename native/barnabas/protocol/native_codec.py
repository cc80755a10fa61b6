"""Reads and writes the fields of native messages, whose classes the build writes (`native/write_messages.py`).

In the compiled build alone. A Reader or Writer belongs to the thread that decodes or encodes, for one message. The
rules are those of `decoder_source` and `encoder_source`, field by field; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)

from barnabas.protocol.codec_runtime import (
    LONGEST_STRING,
    MOST_TAGGED_FIELDS,
    refuse_length,
    refuse_long_string,
    refuse_many,
    refuse_null,
    refuse_tag,
    refuse_tags,
)
from barnabas.protocol.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from mypy_extensions import i64

_LARGEST_LENGTH: Final = 0x7FFFFFFF
_LONGEST_VARINT_SHIFT: Final = 28
_UUID_BYTES: Final = 16
_UNBOUNDED: Final = -1


@final
class Reader:
    """The bytes of one frame, and the position up to which they were read. Raises IndexError at their end."""

    __slots__ = ("data", "elements_left", "position", "size")

    def __init__(self, data: bytes, position: i64, most_elements: i64) -> None:
        """most_elements: of all arrays together; -1: as many as the bytes allow."""
        self.data = data
        self.position: i64 = position
        self.size: i64 = len(data)
        self.elements_left: i64 = most_elements

    # -- fixed sizes

    def boolean(self) -> bool:
        """Read a byte, 0 for False."""
        position = self.position
        self.position = position + 1
        return self.data[position] != 0

    def int8(self) -> i64:
        """Read a signed byte."""
        position = self.position
        self.position = position + 1
        value = self.data[position]
        return value - 256 if value > 127 else value

    def int16(self) -> i64:
        """Read two bytes."""
        position = self.position
        self.position = position + 2
        value: int = read_i16_be(self.data, position)
        return value

    def int32(self) -> i64:
        """Read four bytes."""
        position = self.position
        self.position = position + 4
        value: int = read_i32_be(self.data, position)
        return value

    def int64(self) -> i64:
        """Read eight bytes."""
        position = self.position
        self.position = position + 8
        return read_i64_be(self.data, position)

    def uint16(self) -> i64:
        """Read two bytes without a sign."""
        position = self.position
        self.position = position + 2
        value: int = read_i16_be(self.data, position)
        return value + 65536 if value < 0 else value

    def uint32(self) -> i64:
        """Read four bytes without a sign."""
        position = self.position
        self.position = position + 4
        value: int = read_i32_be(self.data, position)
        return value + 4294967296 if value < 0 else value

    def float64(self) -> float:
        """Read eight bytes."""
        position = self.position
        self.position = position + 8
        return read_f64_be(self.data, position)

    def uuid(self) -> bytes:
        """Read sixteen bytes."""
        return self._slice(_UUID_BYTES)

    # -- lengths

    def varint(self) -> i64:
        """Read an unsigned varint. Raises DecodeError above an int32, or for more than five bytes."""
        data = self.data
        position = self.position
        byte: i64 = data[position]
        position += 1
        result: i64 = byte & 127
        shift: i64 = 7
        while byte > 127:
            if shift > _LONGEST_VARINT_SHIFT:
                raise DecodeError("varint is longer than five bytes")
            byte = data[position]
            position += 1
            result |= (byte & 127) << shift
            shift += 7
        if result > _LARGEST_LENGTH:
            raise DecodeError(f"length {result} is above the limit of an int32")
        self.position = position
        return result

    def _string_length(self, flexible: bool) -> i64:
        """Return the bytes of a string; below 0 for null."""
        if not flexible:
            position = self.position
            self.position = position + 2
            length: int = read_i16_be(self.data, position)
            return length
        compact: i64 = self.varint()
        if compact > LONGEST_STRING + 1:
            raise DecodeError(f"string of {compact - 1} bytes is longer than {LONGEST_STRING}")
        return compact - 1

    def _length(self, flexible: bool) -> i64:
        """Return the bytes or elements of anything else; below 0 for null."""
        if flexible:
            return self.varint() - 1
        position = self.position
        self.position = position + 4
        length: int = read_i32_be(self.data, position)
        return length

    def _slice(self, length: i64) -> bytes:
        position = self.position
        end = position + length
        if end > self.size:
            raise IndexError
        self.position = end
        return self.data[position:end]

    # -- strings and bytes

    def string(self, name: str, flexible: bool) -> str:
        """Read a string. Raises DecodeError for null, UnicodeDecodeError."""
        length = self._string_length(flexible)
        if length < 0:
            refuse_null(name)
        return self._slice(length).decode()

    def nullable_string(self, flexible: bool) -> str | None:
        """Read a string, or None. Raises UnicodeDecodeError."""
        length = self._string_length(flexible)
        return None if length < 0 else self._slice(length).decode()

    def binary(self, name: str, flexible: bool) -> bytes:
        """Read bytes, or records: a slice of a frame is a copy of it. Raises DecodeError for null."""
        length = self._length(flexible)
        if length < 0:
            refuse_null(name)
        return self._slice(length)

    def nullable_binary(self, flexible: bool) -> bytes | None:
        """Read bytes or records, or None."""
        length = self._length(flexible)
        return None if length < 0 else self._slice(length)

    # -- arrays

    def count(self, name: str, flexible: bool, least: i64) -> i64:
        """Read the number of elements, of at least so many bytes each. Raises DecodeError for null or too many."""
        count = self.nullable_count(name, flexible, least)
        if count < 0:
            refuse_null(name)
        return count

    def nullable_count(self, name: str, flexible: bool, least: i64) -> i64:
        """Read the number of elements, -1 for null. Raises DecodeError for more than can be there."""
        count = self._length(flexible)
        if count < 0:
            return -1
        if self.elements_left >= 0:
            if count > self.elements_left:
                refuse_many(count)
            self.elements_left -= count
        elif count * least > self.size - self.position:
            refuse_length(name, count)
        return count

    # -- tagged fields

    def tag_count(self) -> i64:
        """Read the number of tagged fields. Raises DecodeError for very many."""
        count = self.varint()
        if count > MOST_TAGGED_FIELDS:
            refuse_tags(count)
        if self.elements_left >= 0 and count:
            if count > self.elements_left:
                refuse_many(count)
            self.elements_left -= count
        return count

    def end_of_tag(self) -> i64:
        """Read the size of a tagged field; return where it ends."""
        size = self.varint()
        return self.position + size

    def check_tag(self, tag: i64, end: i64) -> None:
        """Check that a known tagged field had the size that it said. Raises DecodeError."""
        if self.position != end:
            refuse_tag(tag)

    def skip_tags(self) -> None:
        """Step over tagged fields, none of which is known."""
        if self.data[self.position] == 0:
            self.position += 1
            return
        count = self.varint()
        if count > MOST_TAGGED_FIELDS:
            refuse_tags(count)
        for _ in range(count):
            self.varint()
            self.position = self.end_of_tag()


class NativeDecoder:
    """The decoder of one message in one version: `(buffer, offset) -> (message, end offset)`."""

    def __init__(
        self, title: str, version: i64, most_elements: int | None, make_careful: Callable[[], Callable[..., Any]]
    ) -> None:
        """most_elements: of all arrays together; None: as many as the frame's bytes allow. make_careful: makes the
        decoder for other buffers than bytes, and for strings that are not UTF-8."""
        self._title = f"{title} v{version}"
        self._version: i64 = version
        self._most_elements: i64 = _UNBOUNDED if most_elements is None else most_elements
        self._make_careful = make_careful
        self._careful: Callable[..., Any] | None = None

    def read(self, reader: Reader, version: i64) -> object:
        """Read a message: the class of each message has its own."""
        raise NotImplementedError

    def __call__(self, buffer: object, start: i64 = 0) -> object:
        """Decode the message at `start`; return it and the position behind it. Raises DecodeError, ManyElements."""
        if type(buffer) is bytes:
            reader = Reader(buffer, start, self._most_elements)
            try:
                message = self.read(reader, self._version)
            except IndexError as error:
                raise DecodeError(f"{self._title} ends early, within its {len(buffer)} bytes") from error
            except UnicodeDecodeError:
                return self._decode_carefully(buffer, start)
            if reader.position > reader.size:
                raise DecodeError(f"{self._title} ends early: {len(buffer)} bytes of {reader.position}")
            return message, reader.position
        return self._decode_carefully(buffer, start)

    def _decode_carefully(self, buffer: object, start: i64) -> object:
        careful = self._careful
        if careful is None:
            careful = self._careful = self._make_careful()
        return careful(buffer, start)


@final
class Writer:
    """The bytes of one message, up to records, which are pieces of their own."""

    __slots__ = ("out", "pieces")

    def __init__(self) -> None:
        self.out = BytesWriter()
        self.pieces: list[Any] | None = None
        """What was written before the last records; None if there are none."""

    def boolean(self, value: bool) -> None:
        """Write a byte."""
        self.out.append(1 if value else 0)

    def int8(self, value: i64) -> None:
        """Write a signed byte. Raises EncodeError for a number outside of an int8."""
        if value < -128 or value > 127:
            raise EncodeError(f"{value} doesn't fit an int8")
        byte: int = value & 255
        self.out.append(byte)

    def int16(self, value: i64) -> None:
        """Write two bytes. Raises OverflowError."""
        number: int = value
        write_i16_be(self.out, number)

    def int32(self, value: i64) -> None:
        """Write four bytes. Raises OverflowError."""
        number: int = value
        write_i32_be(self.out, number)

    def int64(self, value: i64) -> None:
        """Write eight bytes."""
        write_i64_be(self.out, value)

    def uint16(self, value: i64) -> None:
        """Write two bytes without a sign. Raises EncodeError."""
        if value < 0 or value > 65535:
            raise EncodeError(f"{value} doesn't fit a uint16")
        byte: int = value >> 8
        self.out.append(byte)
        byte = value & 255
        self.out.append(byte)

    def uint32(self, value: i64) -> None:
        """Write four bytes without a sign. Raises EncodeError."""
        if value < 0 or value > 4294967295:
            raise EncodeError(f"{value} doesn't fit a uint32")
        signed: int = value - 4294967296 if value > 2147483647 else value
        write_i32_be(self.out, signed)

    def float64(self, value: float) -> None:
        """Write eight bytes."""
        write_f64_be(self.out, value)

    def uuid(self, value: bytes) -> None:
        """Write sixteen bytes. Raises EncodeError for another number."""
        if len(value) != _UUID_BYTES:
            raise EncodeError(f"a UUID has 16 bytes, not {len(value)}")
        self.out.write(value)

    def varint(self, value: i64) -> None:
        """Write an unsigned varint. Raises EncodeError above what an int32 holds."""
        if value > _LARGEST_LENGTH:
            raise EncodeError(f"length {value} doesn't fit an int32")
        out = self.out
        # Through an int: of a machine integer the compiler finds `append` by its name.
        byte: int
        while value > 127:
            byte = value & 127 | 128
            out.append(byte)
            value >>= 7
        byte = value
        out.append(byte)

    def null(self, flexible: bool, *, is_string: bool) -> None:
        """Write the length that stands for null."""
        if flexible:
            self.out.append(0)
        elif is_string:
            write_i16_be(self.out, -1)
        else:
            write_i32_be(self.out, -1)

    def string(self, name: str, value: str, flexible: bool) -> None:
        """Write a string. Raises EncodeError for a long one, UnicodeEncodeError."""
        encoded = value.encode()
        length: i64 = len(encoded)
        if length > LONGEST_STRING:
            refuse_long_string(name, length)
        if flexible:
            self.varint(length + 1)
        else:
            short: int = length
            write_i16_be(self.out, short)
        self.out.write(encoded)

    def nullable_string(self, name: str, value: str | None, flexible: bool) -> None:
        """Write a string or null."""
        if value is None:
            self.null(flexible, is_string=True)
        else:
            self.string(name, value, flexible)

    def length(self, length: i64, flexible: bool) -> None:
        """Write the length of bytes, or the number of elements."""
        if flexible:
            self.varint(length + 1)
        else:
            number: int = length
            write_i32_be(self.out, number)

    def binary(self, value: bytes, flexible: bool) -> None:
        """Write bytes."""
        self.length(len(value), flexible)
        self.out.write(value)

    def nullable_binary(self, value: bytes | None, flexible: bool) -> None:
        """Write bytes or null."""
        if value is None:
            self.null(flexible, is_string=False)
        else:
            self.binary(value, flexible)

    def records(self, value: Any, flexible: bool) -> None:
        """Put records between two pieces, as they are. Empty bytes are left out; other empties may own a file."""
        size: i64 = len(value)
        self.length(size, flexible)
        if size or type(value) is not bytes:
            pieces = self.pieces
            if pieces is None:
                pieces = self.pieces = []
            pieces.append(self.out.getvalue())
            pieces.append(value)
            self.out = BytesWriter()

    def nullable_records(self, value: Any, flexible: bool) -> None:
        """Write records or null."""
        if value is None:
            self.null(flexible, is_string=False)
        else:
            self.records(value, flexible)

    def tag(self, tag: i64, content: BytesWriter, before: BytesWriter) -> None:
        """Write a tagged field, whose content was written in place of `before`, which is the output again."""
        self.out = before
        written = content.getvalue()
        self.varint(tag)
        self.varint(len(written))
        before.write(written)


class NativeEncoder:
    """The encoder of one message in one version: `(message, out=None) -> list of buffers`."""

    def __init__(self, title: str, version: i64) -> None:
        self._title = f"{title} v{version}"
        self._version: i64 = version

    def write(self, writer: Writer, message: object, version: i64) -> None:
        """Write a message: the class of each message has its own."""
        raise NotImplementedError

    def __call__(self, message: object, out: bytearray | None = None) -> list[Any]:
        """Encode a message; return the buffers that are to be sent, the first of which begins with `out`.

        Raises EncodeError when the version cannot express a value.
        """
        writer = Writer()
        try:
            self.write(writer, message, self._version)
        except (AttributeError, OverflowError, TypeError, UnicodeEncodeError) as error:
            raise EncodeError(f"{self._title}: {error}") from error
        last = writer.out.getvalue()
        if out is None:
            out = bytearray()
        pieces = writer.pieces
        if pieces is None:
            out += last
            return [out]
        out += pieces[0]
        pieces[0] = out
        if last:
            pieces.append(last)
        return pieces
