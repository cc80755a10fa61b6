"""Writes the source of a function that encodes one message in one version.

Called by `codec` under its lock; executes nothing. Adjacent fields of fixed size, and the length of the field behind
them, are written by one precompiled struct into one bytearray; records end that bytearray and begin the next, so that
they are never copied.

As in Kafka, a value that the version cannot express is dropped when its field is ignorable or the value is the default,
and refused otherwise. HeartbeatRequest v0 becomes, shortened:

    if message.group_instance_id is not None:
        refuse_version("group_instance_id", 0)           # a field of v3
    b3 = message.group_id.encode()
    out += pack_h(len(b3))
    out += b3
    b6 = message.member_id.encode()
    out += pack_ih(message.generation_id, len(b6))       # an int32, and the length of member_id
    out += b6

Kafka: MessageDataGenerator.
"""

from __future__ import annotations

from barnabas.protocol.message_struct import Struct, VersionedStruct
from barnabas.protocol.schema import UNSET, FieldSchema, WireType
from barnabas.protocol.wire_layout import SourceWriter, fields_of, has_records, tagged_fields, untagged_fields

_IMPORTS = """\
from struct import Struct, error as StructError

from barnabas.protocol.codec_runtime import (
    VARINTS, array_packers, refuse_long_string, refuse_version,
)
from barnabas.protocol.errors import EncodeError
"""
_Pending = list[tuple[str, str]]  # expression, format: fixed values not written yet
_CONSTANTS = {("0", "B"): 'b"\\x00"', ("-1", "h"): 'b"\\xff\\xff"', ("-1", "i"): 'b"\\xff\\xff\\xff\\xff"'}


class EncoderSource:
    """Writes one encoder: `text()` is a module that defines `encode(message, out=None)`.

    Variables of the generated text: `message`, `out` (the bytearray that grows), `pieces` (finished buffers, only
    where there are records), `x1`... (values), `n1`... (lengths; one more than that when compact).
    """

    def __init__(self, message: type[VersionedStruct], version: int) -> None:
        self._message = message
        self._version = version
        self._flexible = message.is_flexible(version)
        self._writer = SourceWriter()
        self._line = self._writer.line

    def text(self) -> str:
        """Return the module's text."""
        title = f"{self._message.__name__} v{self._version}"
        pieces = has_records(self._message, self._version)
        self._line(0, "def encode(message, out=None):")
        self._line(1, "if out is None:")
        self._line(2, "out = bytearray()")
        if pieces:
            self._line(1, "pieces = []")
        self._line(1, "try:")
        self._struct(self._message, "message", 2, "out")
        # One try block for the whole message: it costs nothing unless it is left, where checks of each value would.
        self._line(1, "except (AttributeError, StructError, TypeError, UnicodeEncodeError) as error:")
        self._line(2, f'raise EncodeError(f"{title}: {{error}}") from error')
        if pieces:
            self._line(1, "if out:")
            self._line(2, "pieces.append(out)")
            self._line(1, "return pieces")
        else:
            self._line(1, "return [out]")
        return self._writer.module(f"Encoder of {title}, generated.", _IMPORTS)

    def _struct(self, struct: type[Struct], value: str, depth: int, out: str) -> None:
        """Write the struct in the variable `value` to the bytearray `out`."""
        lines_before = self._writer.line_count

        self._refuse_inexpressible(struct, value, depth)
        pending: _Pending = []
        for field in untagged_fields(struct, self._version):
            expression = f"{value}.{field.name}"
            if not field.is_array and field.wire_type.is_fixed:
                pending.append((expression, field.wire_type.format))
                continue
            name = self._writer.name("x")
            self._line(depth, f"{name} = {expression}")
            if not field.is_array and field.struct is not None:
                self._nested(field, name, pending, depth, out)
            else:
                self._sized(field, name, pending, depth, out)
        if self._flexible:
            self._tags(struct, value, pending, depth, out)
        self._write(pending, depth, out)
        if self._writer.line_count == lines_before:
            self._line(depth, "pass")

    def _refuse_inexpressible(self, struct: type[Struct], value: str, depth: int) -> None:
        """Write checks of the fields that this version lacks and that may not be dropped silently."""
        for field in fields_of(struct):
            if field.is_present(self._version) or field.declaration.ignorable:
                continue
            expression = f"{value}.{field.name}"
            if field.default is not UNSET:
                condition = (
                    f"{expression} != {field.default!r}" if field.default is not None else f"{expression} is not None"
                )
            elif field.is_array:
                condition = expression
            else:
                condition = self._differs_from_defaults(field, expression)
            self._line(depth, f"if {condition}:")
            self._line(depth + 1, f'refuse_version("{field.name}", {self._version})')

    def _differs_from_defaults(self, field: FieldSchema, value: str) -> str:
        """Return the condition under which a struct is not one of defaults."""
        assert field.struct is not None
        parts = fields_of(field.struct)
        # One by one where they are plain values, as in each Fetch of a follower: `Struct.__eq__` looks each name up.
        if all(isinstance(each.default, bool | int | str | bytes) and not each.is_array for each in parts):
            return f"({' or '.join(f'{value}.{each.name} != {each.default!r}' for each in parts)})"
        return f"{value} != {self._writer.default_struct(field.struct)}"

    def _write(self, pending: _Pending, depth: int, out: str) -> None:
        """Write the fixed values gathered so far."""
        if pending:
            self._line(depth, f"{out} += {self._pack(pending)}")
            pending.clear()

    def _pack(self, values: _Pending) -> str:
        """Return the expression for fixed values as bytes; a lone constant byte is written out."""
        constants = [_CONSTANTS.get(value) for value in values]
        if len(constants) == 1 and constants[0] is not None:
            return constants[0]
        packer = self._writer.packer("".join(entry[1] for entry in values))
        return f"{packer}({', '.join(entry[0] for entry in values)})"

    def _nested(
        self, field: FieldSchema, name: str, pending: _Pending, depth: int, out: str, null: str = "\\xff"
    ) -> None:
        """Write a struct that is a field by itself; a nullable one after a byte that says whether it is there."""
        assert field.struct is not None
        if field.is_nullable(self._version):
            self._write(pending, depth, out)
            self._line(depth, f"if {name} is None:")
            self._line(depth + 1, f'{out} += b"{null}"')
            self._line(depth, "else:")
            self._line(depth + 1, f'{out} += b"\\x01"')
            self._struct(field.struct, name, depth + 1, out)
        else:
            self._write(pending, depth, out)
            self._struct(field.struct, name, depth, out)

    def _sized(self, field: FieldSchema, name: str, pending: _Pending, depth: int, out: str) -> None:
        """Write a string, bytes, records or array, together with the fixed values before it."""
        length_format = (
            "B" if self._flexible else ("h" if field.wire_type is WireType.STRING and not field.is_array else "i")
        )
        if field.is_nullable(self._version):
            null = "0" if self._flexible else "-1"
            self._line(depth, f"if {name} is None:")
            self._line(depth + 1, f"{out} += {self._pack([*pending, (null, length_format)])}")
            self._line(depth, "else:")
            depth += 1
        length = self._writer.name("n")
        if field.wire_type is WireType.STRING and not field.is_array:
            text, name = name, self._writer.name("b")
            self._line(depth, f"{name} = {text}.encode()")
        self._line(depth, f"{length} = len({name})" + (" + 1" if self._flexible else ""))
        self._length(field, length, pending, length_format, depth, out)
        pending.clear()
        if field.is_array:
            self._elements(field, name, depth, out)
        elif field.wire_type is WireType.RECORDS:
            self._records(name, length, depth)
        else:
            self._line(depth, f"{out} += {name}")

    def _length(
        self, field: FieldSchema, length: str, pending: _Pending, length_format: str, depth: int, out: str
    ) -> None:
        """Write the pending values and a length, by one struct when the length is short."""
        short = f"{out} += {self._pack([*pending, (length, length_format)])}"
        if not self._flexible:
            self._line(depth, short)
            return
        is_string = field.wire_type is WireType.STRING and not field.is_array
        if not pending and not is_string:
            self._line(depth, f"{out} += VARINTS[{length}]")
            return
        # Nearly all lengths take one byte: those are packed together with the fixed values before them.
        self._line(depth, f"if {length} < 128:")
        self._line(depth + 1, short if pending else f"{out} += VARINTS[{length}]")
        self._line(depth, "else:")
        if is_string:
            # The length counts one more than the bytes. Kafka limits strings to what an int16 can say in every version.
            self._line(depth + 1, f"if {length} > 0x8000:")
            self._line(depth + 2, f'refuse_long_string("{field.name}", {length} - 1)')
        if pending:
            self._line(depth + 1, f"{out} += {self._pack(pending)}")
        self._line(depth + 1, f"{out} += VARINTS[{length}]")

    def _records(self, name: str, length: str, depth: int) -> None:
        """Put records into the list of buffers as they are. Empty bytes are left out; other empties may own a file."""
        self._line(depth, f"if {length} > {1 if self._flexible else 0} or {name}.__class__ is not bytes:")
        self._line(depth + 1, "pieces.append(out)")
        self._line(depth + 1, f"pieces.append({name})")
        self._line(depth + 1, "out = bytearray()")

    def _elements(self, field: FieldSchema, name: str, depth: int, out: str) -> None:
        """Write the elements of an array behind its count."""
        if field.wire_type.is_fixed:
            self._line(depth, f"if {name}:")
            self._line(depth + 1, f"{out} += {self._writer.array_packer(field.wire_type)}[len({name})](*{name})")
            return
        element = self._writer.name("x")
        self._line(depth, f"for {element} in {name}:")
        if field.struct is not None:
            self._struct(field.struct, element, depth + 1, out)
            return
        if field.wire_type is WireType.STRING:
            self._line(depth + 1, f"{element} = {element}.encode()")
        length = self._writer.name("n")
        self._line(depth + 1, f"{length} = len({element})" + (" + 1" if self._flexible else ""))
        if self._flexible:
            if field.wire_type is WireType.STRING:
                self._line(depth + 1, f"if {length} > 0x8000:")
                self._line(depth + 2, f'refuse_long_string("{field.name} element", {length} - 1)')
            self._line(depth + 1, f"{out} += VARINTS[{length}]")
        else:
            self._line(
                depth + 1, f"{out} += {self._pack([(length, 'h' if field.wire_type is WireType.STRING else 'i')])}"
            )
        self._line(depth + 1, f"{out} += {element}")

    def _tags(self, struct: type[Struct], value: str, pending: _Pending, depth: int, out: str) -> None:
        """Write the tagged fields that differ from their defaults, by rising tag."""
        tagged = tagged_fields(struct, self._version)
        if not tagged:
            pending.append(("0", "B"))
            return
        self._write(pending, depth, out)
        names = [self._writer.name("x") for _ in tagged]
        for field, name in zip(tagged, names, strict=True):
            self._line(depth, f"{name} = {value}.{field.name}")
        present = [self._differs(field, name) for field, name in zip(tagged, names, strict=True)]
        self._line(depth, f"if {' or '.join(present)}:")
        number, content = self._writer.name("t"), self._writer.name("o")
        if len(tagged) == 1:
            self._line(depth + 1, f'{out} += b"\\x01"')
            self._tag(tagged[0], names[0], depth + 1, content, out)
        else:
            found = self._writer.name("o")
            self._line(depth + 1, f"{number} = 0")
            self._line(depth + 1, f"{found} = bytearray()")
            for field, name, condition in zip(tagged, names, present, strict=True):
                self._line(depth + 1, f"if {condition}:")
                self._line(depth + 2, f"{number} += 1")
                self._tag(field, name, depth + 2, content, found)
            self._line(depth + 1, f"{out} += VARINTS[{number}]")
            self._line(depth + 1, f"{out} += {found}")
        self._line(depth, "else:")
        self._line(depth + 1, f'{out} += b"\\x00"')

    def _differs(self, field: FieldSchema, name: str) -> str:
        """Return the condition under which a tagged field is written."""
        if field.is_array and field.default is UNSET:
            return f"({name} is None or {name})" if field.is_nullable(self._version) else name
        if field.default is None:
            if field.struct is not None and not field.is_array and not field.is_nullable(self._version):
                # None stands for Kafka's struct of defaults, which isn't written either.
                return f"({name} is not None and {self._differs_from_defaults(field, name)})"
            return f"{name} is not None"
        return (
            f"{name} != {field.default!r}" if field.default is not UNSET else self._differs_from_defaults(field, name)
        )

    def _tag(self, field: FieldSchema, name: str, depth: int, content: str, out: str) -> None:
        """Write one tagged field to `out`: number, size, and the value by way of `content`."""
        assert field.declaration.tag is not None
        self._line(depth, f"{content} = bytearray()")
        self._tag_value(field, name, depth, content)
        self._line(depth, f"{out} += VARINTS[{field.declaration.tag}]")
        self._line(depth, f"{out} += VARINTS[len({content})]")
        self._line(depth, f"{out} += {content}")

    def _tag_value(self, field: FieldSchema, name: str, depth: int, out: str) -> None:
        if not field.is_array and field.wire_type.is_fixed:
            self._line(depth, f"{out} += {self._pack([(name, field.wire_type.format)])}")
        elif not field.is_array and field.struct is not None:
            self._nested(field, name, [], depth, out, null="\\x00")  # as an unsigned varint, unlike untagged ones
        else:
            self._sized(field, name, [], depth, out)
