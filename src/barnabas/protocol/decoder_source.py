"""Writes the source of a function that decodes one message in one version.

Called by `codec` under its lock; executes nothing. The text is straight-line code: adjacent fields of fixed size, and
the length of the field behind them, are read by one precompiled struct. HeartbeatRequest v0 becomes, shortened:

    n2, = unpack_h(buffer, start)                    # length of group_id
    p = start + 2
    e3 = p + n2
    v1.group_id = buffer[p:e3].decode()
    p = e3
    v1.generation_id, n4 = unpack_ih(buffer, p)      # an int32, and the length of member_id
    p += 6
    e5 = p + n4
    v1.member_id = buffer[p:e5].decode()
    p = e5

The damage a hostile frame can do is bounded here. Slices never copy more than the frame holds; a count is refused when
its elements, at their least size, do not fit the bytes left; every turn of a loop reads at least one byte or runs off
the end; the position is checked against the frame's length at the end. A known tagged field must have the size it says,
so that no byte is decoded twice. A struct has at most MOST_TAGGED_FIELDS tagged fields.

A message has up to three decoders in each version, which differ in what they bound (`DecoderBound`): a short frame is
bounded by its bytes; a Produce of any size is decoded at once if it has few elements; a large request is decoded beside
the network threads, its memory is counted before it is taken.

A string that is not UTF-8 is no error, as in Kafka: U+FFFD stands for what cannot be read. A slice of a bytes object is
decoded strictly, which is the fastest way; at the first malformed string the decoder begins again on a memoryview,
whose slices are decoded with replacements.

Kafka: MessageDataGenerator.
"""

from __future__ import annotations

from enum import Enum

from barnabas.protocol.codec_runtime import AS_JAVA
from barnabas.protocol.message_struct import Struct, VersionedStruct
from barnabas.protocol.schema import FieldSchema, WireType
from barnabas.protocol.wire_layout import (
    SourceWriter,
    default_literal,
    fields_of,
    has_records,
    least_size,
    memory_of,
    tagged_fields,
    untagged_fields,
)

_IMPORTS = """\
from struct import Struct, error as StructError

from barnabas.protocol.codec_runtime import (
    DECODED_FREELY_BYTES, DECODED_PER_BYTE, DECODED_PER_BYTE_OF_CONTROLLER, FEW_ELEMENTS, MOST_ELEMENTS,
    MOST_TAGGED_FIELDS, UNPACKED_AT_ONCE, array_unpackers, read_string_length, read_unsigned_varint, refuse_elements,
    refuse_length, refuse_many, refuse_memory, refuse_null, refuse_tag, refuse_tags, skip_tagged_fields,
)
from barnabas.protocol.errors import DecodeError
"""


class DecoderBound(Enum):
    """What a decoder bounds, besides what the bytes of the frame bound."""

    FRAME = "nothing: the frame is short, or comes from a server that the client trusts"
    FEW = "the elements of all arrays, by FEW_ELEMENTS. Raises ManyElements"
    MEMORY = "the elements of each array, by MOST_ELEMENTS, and the memory of all objects"


_STATES_OF_PARTITIONS = frozenset(("LeaderAndIsrRequest", "UpdateMetadataRequest"))
_STRING_BYTES = 56
"""A string of more than one character, without its bytes. Shorter ones are shared."""


class DecoderSource:
    """Writes one decoder: `text()` is a module that defines `decode(buffer, start=0)`.

    Variables of the generated text: `buffer`, `start` (of the message), `size` (of the frame), `flat` (it is a bytes
    object), `p` (position), `view` (of the frame, for records), `v1`... (objects), `n1`... (lengths, counts; one more
    while compact), `e1`... (ends), `a1`... (arrays), `t1`... (tags), `left` (elements or bytes of memory that may
    still be taken), `most` (bytes of memory in all).
    """

    def __init__(self, message: type[VersionedStruct], version: int, bound: DecoderBound = DecoderBound.FRAME) -> None:
        self._message = message
        self._bound = bound
        self._version = version
        self._flexible = message.is_flexible(version)
        self._writer = SourceWriter()
        self._line = self._writer.line
        self._has_read = False

    def text(self) -> str:
        """Return the module's text."""
        title = f"{self._message.__name__} v{self._version}"
        # A default, and not an assignment: the most frequent requests are decoded by this one.
        self._line(0, f"def decode(buffer, start=0{', left=FEW_ELEMENTS' if self._bound is DecoderBound.FEW else ''}):")
        self._line(1, "size = len(buffer)")
        if self._bound is DecoderBound.MEMORY:
            factor = "DECODED_PER_BYTE" + ("_OF_CONTROLLER" if self._message.__name__ in _STATES_OF_PARTITIONS else "")
            self._line(1, f"left = most = size * {factor} + DECODED_FREELY_BYTES")
        # A slice of bytes is bytes already, one of a bytearray or memoryview is not: asked once, used at every string.
        self._line(1, "flat = buffer.__class__ is bytes")
        if has_records(self._message, self._version):
            self._line(1, "view = memoryview(buffer)")
        self._line(1, "try:")
        message = self._struct(self._message, 2)
        if not self._has_read:
            self._line(2, "p = start")
        self._line(1, "except (IndexError, StructError) as error:")
        self._line(2, f'raise DecodeError(f"{title} ends early, within its {{size}} bytes") from error')
        self._line(1, "except UnicodeDecodeError:")
        self._line(2, "return decode(memoryview(buffer), start)")
        # Slices beyond the end of the frame are short and raise nothing, so this comparison finds what they missed.
        self._line(1, "if p > size:")
        self._line(2, f'raise DecodeError(f"{title} ends early: {{size}} bytes of {{p}}")')
        self._line(1, f"return {message}, p")
        return self._writer.module(f"Decoder of {title}, generated.", _IMPORTS)

    def _struct(self, struct: type[Struct], depth: int) -> str:
        """Read a struct into a new object, field by field; return the object's variable.

        The object is made without its constructor, whose call costs more than reading the fields.
        """
        made = self._writer.name("v")
        self._line(depth, f"{made} = {self._writer.maker(struct)}({self._writer.constructor(struct)})")
        for field in fields_of(struct):
            if not field.is_present(self._version) or field.is_tagged(self._version):
                self._line(depth, f"{made}.{field.name} = {default_literal(field)}")
        pending: list[tuple[str, str, int]] = []  # target, format, size: fixed fields not read yet
        for field in untagged_fields(struct, self._version):
            target = f"{made}.{field.name}"
            if not field.is_array and field.wire_type.is_fixed:
                pending.append((target, field.wire_type.format, field.wire_type.size))
            elif not field.is_array and field.struct is not None:
                self._nested(field, target, pending, depth)
            else:
                length = self._writer.name("n")
                pending.append((length, *self._length_format(field)))
                self._read(pending, depth)
                self._sized(field, target, length, depth)
        if self._flexible:
            count = self._writer.name("n")
            pending.append((count, "B", 1))
            self._read(pending, depth)
            self._tags(struct, made, count, depth)
        else:
            self._read(pending, depth)
        return made

    def _read(self, pending: list[tuple[str, str, int]], depth: int) -> None:
        """Read the fixed fields gathered so far, by one struct."""
        if not pending:
            return
        formats = "".join(entry[1] for entry in pending)
        # The first read, outside of every branch and loop, leaves `start` as it was: the decoder may begin again.
        position, advance = ("p", "p +=") if self._has_read else ("start", "p = start +")
        self._has_read = True
        if formats == "B":
            self._line(depth, f"{pending[0][0]} = buffer[{position}]")
            self._line(depth, f"{advance} 1")
        else:
            names = ", ".join(entry[0] for entry in pending) + ("," if len(pending) == 1 else "")
            self._line(depth, f"{names} = {self._writer.unpacker(formats)}(buffer, {position})")
            self._line(depth, f"{advance} {sum(entry[2] for entry in pending)}")
        pending.clear()

    def _length_format(self, field: FieldSchema) -> tuple[str, int]:
        """Return format and size of a length prefix; of a varint, those of its first byte."""
        if self._flexible:
            return "B", 1
        return ("h", 2) if field.wire_type is WireType.STRING and not field.is_array else ("i", 4)

    def _nested(
        self, field: FieldSchema, name: str, pending: list[tuple[str, str, int]], depth: int, null: str = "< 0"
    ) -> None:
        """Read a struct that is a field by itself; a nullable one has a byte before it, below 0 for null."""
        assert field.struct is not None
        if field.is_nullable(self._version):
            mark = self._writer.name("n")
            pending.append((mark, "b", 1))
            self._read(pending, depth)
            self._line(depth, f"if {mark} {null}:")
            self._line(depth + 1, f"{name} = None")
            self._line(depth, "else:")
            self._line(depth + 1, f"{name} = {self._struct(field.struct, depth + 1)}")
        else:
            self._read(pending, depth)
            self._line(depth, f"{name} = {self._struct(field.struct, depth)}")

    def _sized(self, field: FieldSchema, name: str, length: str, depth: int) -> None:
        """Read a string, bytes, records or array whose length prefix (or its first byte) is in `length`."""
        self._long_length(field, length, depth)
        self._line(depth, f"if not {length}:" if self._flexible else f"if {length} < 0:")
        if field.is_nullable(self._version):
            self._line(depth + 1, f"{name} = None")
            self._line(depth, "else:")
            depth += 1
        else:
            self._line(depth + 1, f'refuse_null("{field.name}")')
        if field.is_array:
            if self._flexible:
                self._line(depth, f"{length} -= 1")
            self._array(field, name, length, depth)
        else:
            self._blob(field, name, length, depth)

    def _long_length(self, field: FieldSchema, length: str, depth: int, *, of_element: bool = False) -> None:
        """Read on when the length, a varint, has more bytes than its first."""
        if not self._flexible:
            return
        is_string = field.wire_type is WireType.STRING and (of_element or not field.is_array)
        reader = "read_string_length" if is_string else "read_unsigned_varint"
        self._line(depth, f"if {length} > 127:")
        # The first byte was read together with the fields before it; a long varint is read again from its start.
        self._line(depth + 1, f"{length}, p = {reader}(buffer, p - 1)")

    def _blob(self, field: FieldSchema, name: str, length: str, depth: int) -> None:
        """Read bytes of a known length, as what they are."""
        end = self._writer.name("e")
        self._line(depth, f"{end} = p + {length}" + (" - 1" if self._flexible else ""))
        self._line(depth, f"{name} = {_slice(field.wire_type, end)}")
        self._line(depth, f"p = {end}")
        if self._bound is DecoderBound.MEMORY and field.wire_type is not WireType.RECORDS:
            self._line(depth, f"if {length} > {2 if self._flexible else 1}:")
            self._take(str(_STRING_BYTES), depth + 1)

    def _array(self, field: FieldSchema, name: str, count: str, depth: int) -> None:
        """Read an array of `count` elements, after a look whether that many can be there."""
        if field.wire_type.is_fixed:
            least = field.wire_type.size
        elif field.struct is not None:
            # Elements of no size still cost memory: as if they were a byte each.
            least = max(1, least_size(field.struct, self._version, flexible=self._flexible))
        else:
            least = (
                self._length_format(field)[1] if self._flexible else (2 if field.wire_type is WireType.STRING else 4)
            )
        # Before anything is allocated: a count of two thousand million in a frame of 20 bytes must cost nothing.
        if self._bound is DecoderBound.FEW:
            # No look at the bytes left: so few elements cost nothing, and the first one that is missing ends the loop.
            self._line(depth, f"left -= {count}")
            self._line(depth, "if left < 0:")
            self._line(depth + 1, f"refuse_many({count})")
        else:
            self._line(depth, f"if {count} * {least} > size - p:")
            self._line(depth + 1, f'refuse_length("{field.name}", {count})')
        if self._bound is DecoderBound.MEMORY:
            self._line(depth, f"if {count} > MOST_ELEMENTS:")
            self._line(depth + 1, f'refuse_elements("{field.name}", {count})')
            self._take(f"{count} * {memory_of(field, self._version)}", depth)
        if field.wire_type.is_fixed:
            unpackers = self._writer.array_unpacker(field.wire_type)
            if self._bound is DecoderBound.MEMORY:
                array, first = self._writer.name("a"), self._writer.name("n")
                self._line(depth, f"{name} = {array} = []")
                self._line(depth, f"for {first} in range(0, {count}, UNPACKED_AT_ONCE):")
                slice_count = f"min(UNPACKED_AT_ONCE, {count} - {first})"
                self._line(depth + 1, f"{array} += {unpackers}[{slice_count}](buffer, p + {least} * {first})")
            else:
                self._line(depth, f"{name} = list({unpackers}[{count}](buffer, p))")
            self._line(depth, f"p += {least} * {count}")
            return
        array = self._writer.name("a")
        self._line(depth, f"{name} = {array} = []")
        self._line(depth, f"for _ in range({count}):")
        if field.struct is not None:
            self._line(depth + 1, f"{array}.append({self._struct(field.struct, depth + 1)})")
            return
        element, length = self._writer.name("v"), self._writer.name("n")
        width = "B" if self._flexible else ("h" if field.wire_type is WireType.STRING else "i")
        self._read([(length, width, {"B": 1, "h": 2, "i": 4}[width])], depth + 1)
        self._long_length(field, length, depth + 1, of_element=True)
        self._line(depth + 1, f"if not {length}:" if self._flexible else f"if {length} < 0:")
        self._line(depth + 2, f'refuse_null("{field.name} element")')
        self._blob(field, element, length, depth + 1)
        self._line(depth + 1, f"{array}.append({element})")

    def _take(self, memory: str, depth: int) -> None:
        """Take memory, in bytes, before it is allocated."""
        self._line(depth, f"left -= {memory}")
        self._line(depth, "if left < 0:")
        self._line(depth + 1, "refuse_memory(size, most)")

    def _tags(self, struct: type[Struct], made: str, count: str, depth: int) -> None:
        """Read the tagged fields: known ones into the object, unknown ones are skipped."""
        tagged = tagged_fields(struct, self._version)
        self._line(depth, f"if {count}:")
        if not tagged:
            self._line(depth + 1, "p = skip_tagged_fields(buffer, p - 1)")
            return
        tag, end = self._writer.name("t"), self._writer.name("e")
        self._line(depth + 1, f"if {count} > 127:")
        self._line(depth + 2, f"{count}, p = read_unsigned_varint(buffer, p - 1)")
        self._line(depth + 1, f"if {count} > MOST_TAGGED_FIELDS:")
        self._line(depth + 2, f"refuse_tags({count})")
        if self._bound is DecoderBound.FEW:
            # A field without content costs what a small element costs.
            self._line(depth + 1, f"left -= {count}")
            self._line(depth + 1, "if left < 0:")
            self._line(depth + 2, f"refuse_many({count})")
        self._line(depth + 1, f"for _ in range({count}):")
        self._line(depth + 2, f"{tag}, p = read_unsigned_varint(buffer, p)")
        self._line(depth + 2, f"{end}, p = read_unsigned_varint(buffer, p)")
        self._line(depth + 2, f"{end} += p")
        for number, field in enumerate(tagged):
            self._line(depth + 2, f"{'elif' if number else 'if'} {tag} == {field.declaration.tag}:")
            self._tag_value(field, f"{made}.{field.name}", depth + 3)
            self._line(depth + 3, f"if p != {end}:")
            self._line(depth + 4, f"refuse_tag({tag})")
        self._line(depth + 2, "else:")
        self._line(depth + 3, f"p = {end}")

    def _tag_value(self, field: FieldSchema, name: str, depth: int) -> None:
        pending: list[tuple[str, str, int]] = []
        if not field.is_array and field.wire_type.is_fixed:
            self._read([(name, field.wire_type.format, field.wire_type.size)], depth)
        elif not field.is_array and field.struct is not None:
            self._nested(field, name, pending, depth, null="<= 0")  # an unsigned varint, unlike that of untagged ones
        else:
            length = self._writer.name("n")
            self._read([(length, "B", 1)], depth)
            self._sized(field, name, length, depth)


def _slice(wire_type: WireType, end: str) -> str:
    """Return the expression for the bytes from `p` to `end`: a fast one for bytes, a general one for other buffers."""
    if wire_type is WireType.STRING:
        return f'buffer[p:{end}].decode() if flat else str(buffer[p:{end}], "utf-8", "{AS_JAVA}")'
    if wire_type is WireType.RECORDS:
        return f"view[p:{end}]"
    return f"buffer[p:{end}] if flat else bytes(buffer[p:{end}])"
