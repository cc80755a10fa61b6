"""Writes the families of native messages as source for the compiled build: `write_messages.py DIRECTORY`.

Called by `hatch_build` on its copy of the sources. Each family of NATIVE_FAMILIES is replaced there by a module that
says the same: a class with typed fields for each struct, a function that reads it and one that writes it. As in Kafka's
generated classes, one function serves all versions:

    def read_heartbeat_request(reader: Reader, version: i64) -> HeartbeatRequest:
        flexible = version >= 4
        group_id = reader.string("group_id", flexible)
        generation_id = reader.int32()
        member_id = reader.string("member_id", flexible)
        group_instance_id: str | None = None
        if version >= 3:
            group_instance_id = reader.nullable_string(flexible)
        if flexible:
            reader.skip_tags()
        return HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)

Plain Python makes its codecs from the same notation (`barnabas.protocol.codec`); a test compares the two.
Kafka: MessageDataGenerator.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Final

from barnabas.protocol.message_struct import Struct, VersionedStruct
from barnabas.protocol.messages.message_spec import MessageSpec, structs_of
from barnabas.protocol.schema import UNSET, FieldSchema, VersionRange, WireType
from barnabas.protocol.wire_layout import least_size

NATIVE_FAMILIES: Final = ("classic_groups", "fetch", "offsets", "produce")
"""Modules of `barnabas.protocol.messages`; the list in pyproject.toml has them, too."""

_HEAD: Final = '''\
"""{title}

Written by the build (native/write_messages.py) from the notation of the same name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from librt.strings import BytesWriter

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import DecoderTable, EncoderTable
from barnabas.protocol.codec_runtime import refuse_version
from barnabas.protocol.messages.message_spec import native_fields
from barnabas.protocol.message_struct import Struct
from barnabas.protocol.messages.message import Message
from barnabas.protocol.native_codec import NativeDecoder, NativeEncoder, Reader, Writer
from barnabas.protocol.schema import UNSET, FieldSchema

if TYPE_CHECKING:
    from mypy_extensions import i64
'''
_TYPES: Final = {
    WireType.BOOL: ("bool", "boolean"),
    WireType.INT8: ("i64", "int8"),
    WireType.INT16: ("i64", "int16"),
    WireType.INT32: ("i64", "int32"),
    WireType.INT64: ("i64", "int64"),
    WireType.UINT16: ("i64", "uint16"),
    WireType.UINT32: ("i64", "uint32"),
    WireType.FLOAT64: ("float", "float64"),
    WireType.UUID: ("bytes", "uuid"),
    WireType.STRING: ("str", "string"),
    WireType.BYTES: ("bytes", "binary"),
    WireType.RECORDS: ("Any", "records"),
}
"""Type of a native field; method of Reader and Writer. Integers are of one type, since the compiler mixes no two."""


class FamilyWriter:
    """Writes one family: `text()` is the module."""

    def __init__(self, family: str) -> None:
        """Raises TypeError for two structs of one name: native classes are not nested."""
        module = importlib.import_module(f"barnabas.protocol.messages.{family}")
        self._title = (module.__doc__ or "").partition("\n")[0]
        self._structs = structs_of(module)
        nested = [name for value in self._structs.values() for name, part in vars(value).items() if _is_struct(part)]
        if len(nested) != len(set(nested)) or not set(nested) <= self._structs.keys():
            raise TypeError(f"the structs of {family} need names of their own: {sorted(nested)}")
        self._lines: list[str] = []

    def text(self) -> str:
        """Return the module's text."""
        self._lines = _HEAD.format(title=self._title).splitlines()
        # Parts first: a class body names the structs of a message.
        structs = sorted(self._structs.values(), key=lambda struct: issubclass(struct, VersionedStruct))
        for struct in structs:
            self._class(struct)
        for message in structs:
            if issubclass(message, MessageSpec):
                for struct in (message, *_parts(message)):
                    self._read(struct, message)
                    self._write(struct, message)
                self._tables(message)
        return "\n".join(self._lines) + "\n"

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    # -- classes

    def _class(self, struct: type[Struct]) -> None:
        fields = struct.field_schemas()
        line = self._line
        self._lines += ["", ""]
        is_message = issubclass(struct, MessageSpec)
        line(0, f"class {struct.__name__}({'Message' if is_message else 'Struct'}):")
        line(1, f'"""{struct.__qualname__}."""')
        line(0, "")
        line(1, f"__slots__ = ({', '.join(repr(field.name) for field in fields)}{',' * (len(fields) == 1)})")
        names = f"({', '.join(repr(field.name) for field in fields)}{',' * (len(fields) == 1)})"
        line(1, f"declarations: ClassVar[Collection[str]] = {names}")
        if issubclass(struct, MessageSpec):
            line(1, f"api_key: ClassVar[ApiKey] = ApiKey.{struct.api_key.name}")
            line(1, f"min_version: ClassVar[int] = {struct.min_version}")
            line(1, f"max_version: ClassVar[int] = {struct.max_version}")
            line(1, f"flexible_from: ClassVar[int | None] = {struct.flexible_from}")
        line(0, "")
        parameters = ", ".join(f"{field.name}: {_parameter(field)}" for field in fields)
        line(1, f"def __init__(self{', ' * bool(fields)}{parameters}) -> None:")
        for field in fields:
            value = field.name
            if field.default is UNSET:
                made = "[]" if field.is_array else f"{_struct_name(field)}()"
                value = f"{made} if {field.name} is {_not_given(field)} else {field.name}"
            line(2, f"self.{field.name}: {_type(field)} = {value}")
        if not fields:
            line(2, "pass")
        line(0, "")
        line(1, "@classmethod")
        line(1, "def field_schemas(cls) -> tuple[FieldSchema, ...]:")
        line(2, '"""Return each field in wire order."""')
        line(2, "return native_fields(cls)  # type: ignore[arg-type, unused-ignore]")

    # -- reading

    def _read(self, struct: type[Struct], message: type[MessageSpec]) -> None:
        line = self._line
        self._lines += ["", ""]
        line(0, f"def {_function('read', struct)}(reader: Reader, version: i64) -> {struct.__name__}:")
        self._flexible(message)
        for field in struct.field_schemas():
            self._read_field(field, message)
        if message.flexible_from is not None:
            line(1, "if flexible:")
            tagged = [field for field in struct.field_schemas() if field.declaration.tag is not None]
            if tagged:
                self._read_tags(sorted(tagged, key=lambda field: field.declaration.tag or 0), message)
            else:
                line(2, "reader.skip_tags()")
        line(1, f"return {struct.__name__}({', '.join(field.name for field in struct.field_schemas())})")

    def _flexible(self, message: type[MessageSpec]) -> None:
        first = message.flexible_from
        if first is None:
            self._line(1, "flexible = False")
        elif first <= message.min_version:
            self._line(1, "flexible = True")
        else:
            self._line(1, f"flexible = version >= {first}")

    def _read_field(self, field: FieldSchema, message: type[MessageSpec]) -> None:
        condition = _condition(_untagged(field), message)
        depth = 1
        if condition is None:
            self._line(1, f"{field.name}: {_type(field)}")
        else:
            self._line(1, f"{field.name}: {_type(field)} = {_default(field)}")
            if condition == "False":
                return
            self._line(1, f"if {condition}:")
            depth = 2
        self._read_value(field, message, depth, "flexible")

    def _read_value(self, field: FieldSchema, message: type[MessageSpec], depth: int, flexible: str) -> None:
        nullable = _condition(field.declaration.nullable, message, field.declaration.versions)
        if nullable not in {None, "False"}:  # in some versions
            self._line(depth, f"if {nullable}:")
            self._read_one(field, message, depth + 1, flexible, nullable=True)
            self._line(depth, "else:")
            self._read_one(field, message, depth + 1, flexible, nullable=False)
        else:
            self._read_one(field, message, depth, flexible, nullable=nullable is None)

    def _read_one(
        self, field: FieldSchema, message: type[MessageSpec], depth: int, flexible: str, *, nullable: bool
    ) -> None:
        line, name = self._line, field.name
        count, read = (f"{name}_{part}" + ("_or_none" if nullable else "") for part in ("count", "read"))
        if field.is_array:
            versions = range(max(message.min_version, field.declaration.versions.first), message.max_version + 1)
            least = min(_least(field, message, version) for version in versions)
            if nullable:
                line(depth, f'{count} = reader.nullable_count("{name}", {flexible}, {least})')
                line(depth, f"if {count} < 0:")
                line(depth + 1, f"{name} = None")
                line(depth, "else:")
                depth += 1
            else:
                line(depth, f'{count} = reader.count("{name}", {flexible}, {least})')
            line(depth, f"{read}: {_type(field).removesuffix(' | None')} = []")
            line(depth, f"for _ in range({count}):")
            line(depth + 1, f"{read}.append({_element(field, flexible)})")
            line(depth, f"{name} = {read}")
        elif field.struct is not None:
            read = f"{_function('read', field.struct)}(reader, version)"
            if nullable:
                # A byte below 0 is null; in a tagged field it is an unsigned varint, where 0 is.
                line(depth, f"if reader.int8() {'<= 0' if flexible == 'True' else '< 0'}:")
                line(depth + 1, f"{name} = None")
                line(depth, "else:")
                line(depth + 1, f"{name} = {read}")
            else:
                line(depth, f"{name} = {read}")
        elif field.wire_type.is_fixed:
            line(depth, f"{name} = reader.{_TYPES[field.wire_type][1]}()")
        else:
            # Records of a small frame are bytes, and looked at byte by byte.
            method = "binary" if field.wire_type is WireType.RECORDS else _TYPES[field.wire_type][1]
            read = f"nullable_{method}({flexible})" if nullable else f'{method}("{name}", {flexible})'
            line(depth, f"{name} = reader.{read}")

    def _read_tags(self, tagged: list[FieldSchema], message: type[MessageSpec]) -> None:
        line = self._line
        line(2, "for _ in range(reader.tag_count()):")
        line(3, "tag = reader.varint()")
        line(3, "end = reader.end_of_tag()")
        for number, field in enumerate(tagged):
            condition = _condition(field.declaration.tagged, message)
            also = f" and {condition}" if condition is not None else ""
            line(3, f"{'elif' if number else 'if'} tag == {field.declaration.tag}{also}:")
            self._read_value(field, message, 4, "True")
            line(4, "reader.check_tag(tag, end)")
        line(3, "else:")
        line(4, "reader.position = end")

    # -- writing

    def _write(self, struct: type[Struct], message: type[MessageSpec]) -> None:
        line = self._line
        self._lines += ["", ""]
        line(0, f"def {_function('write', struct)}(writer: Writer, value: {struct.__name__}, version: i64) -> None:")
        self._flexible(message)
        for field in struct.field_schemas():
            present = _condition(field.declaration.versions, message)
            if present is not None and not field.declaration.ignorable:
                line(1, f"if not ({present}) and {_is_told(field, f'value.{field.name}')}:")
                line(2, f'refuse_version("{field.name}", version)')
        for field in struct.field_schemas():
            condition = _condition(_untagged(field), message)
            if condition == "False":
                continue
            if condition is not None:
                line(1, f"if {condition}:")
            self._write_value(field, message, 1 if condition is None else 2, "flexible")
        if message.flexible_from is not None:
            line(1, "if flexible:")
            tagged = [field for field in struct.field_schemas() if field.declaration.tag is not None]
            if tagged:
                self._write_tags(sorted(tagged, key=lambda field: field.declaration.tag or 0), message)
            else:
                line(2, "writer.varint(0)")

    def _write_value(self, field: FieldSchema, message: type[MessageSpec], depth: int, flexible: str) -> None:
        nullable = _condition(field.declaration.nullable, message, field.declaration.versions)
        if nullable not in {None, "False"}:
            self._line(depth, f"if {nullable}:")
            self._write_one(field, depth + 1, flexible, nullable=True)
            self._line(depth, "else:")
            self._write_one(field, depth + 1, flexible, nullable=False)
        else:
            self._write_one(field, depth, flexible, nullable=nullable is None)

    def _write_one(self, field: FieldSchema, depth: int, flexible: str, *, nullable: bool) -> None:
        line, name = self._line, f"value.{field.name}"
        variable = f"{field.name}_{depth}"
        if not field.is_array and field.wire_type.is_fixed:
            line(depth, f"writer.{_TYPES[field.wire_type][1]}({name})")
            return
        if not field.is_array and field.struct is None:
            method = _TYPES[field.wire_type][1]
            prefix = "nullable_" if nullable else ""
            words = [f'"{field.name}"'] if field.wire_type is WireType.STRING else []
            if not nullable and _type(field).endswith("| None"):
                line(depth, f"{variable} = {name}")
                line(depth, f"if {variable} is None:")
                line(depth + 1, f'raise TypeError("{field.name} is None")')
                name = variable
            line(depth, f"writer.{prefix}{method}({', '.join([*words, name, flexible])})")
            return
        line(depth, f"{variable} = {name}")
        if _type(field).endswith("| None"):
            line(depth, f"if {variable} is None:")
            if not nullable:
                line(depth + 1, f'raise TypeError("{field.name} is None")')
            elif field.is_array:
                line(depth + 1, f"writer.null({flexible}, is_string=False)")
            else:
                line(depth + 1, f"writer.int8({0 if flexible == 'True' else -1})")
            line(depth, "else:")
            depth += 1
        if field.is_array:
            line(depth, f"writer.length(len({variable}), {flexible})")
            line(depth, f"for {variable}_item in {variable}:")
            item = f"{variable}_item"
            if field.struct is not None:
                line(depth + 1, f"{_function('write', field.struct)}(writer, {item}, version)")
            elif field.wire_type is WireType.STRING:
                line(depth + 1, f'writer.string("{field.name} element", {item}, {flexible})')
            elif field.wire_type.is_fixed:
                line(depth + 1, f"writer.{_TYPES[field.wire_type][1]}({item})")
            else:
                line(depth + 1, f"writer.{_TYPES[field.wire_type][1]}({item}, {flexible})")
            return
        assert field.struct is not None
        if nullable:
            line(depth, "writer.int8(1)")
        line(depth, f"{_function('write', field.struct)}(writer, {variable}, version)")

    def _write_tags(self, tagged: list[FieldSchema], message: type[MessageSpec]) -> None:
        line = self._line
        written = []
        for field in tagged:
            condition = _condition(field.declaration.tagged, message)
            differs = _differs(field, f"value.{field.name}")
            written.append(differs if condition is None else f"{condition} and {differs}")
        if len(tagged) == 1:
            line(2, f"if not ({written[0]}):")
        else:
            for field, condition in zip(tagged, written, strict=True):
                line(2, f"has_{field.name} = {condition}")
            written = [f"has_{field.name}" for field in tagged]
            line(2, f"if not ({' or '.join(written)}):")
        line(3, "writer.varint(0)")
        line(3, "return")
        if len(tagged) == 1:
            line(2, "writer.varint(1)")
        else:
            line(2, f"writer.varint({' + '.join(f'(1 if {name} else 0)' for name in written)})")
        line(2, "before = writer.out")
        for field, condition in zip(tagged, written, strict=True):
            depth = 2
            if len(tagged) > 1:
                line(2, f"if {condition}:")
                depth = 3
            line(depth, "writer.out = content = BytesWriter()")
            self._write_value(field, message, depth, "True")
            line(depth, f"writer.tag({field.declaration.tag}, content, before)")

    # -- tables

    def _tables(self, message: type[MessageSpec]) -> None:
        line, name = self._line, message.__name__
        self._lines += ["", ""]
        line(0, f"class {name}Decoder(NativeDecoder):")
        line(1, f'"""Decodes {name}."""')
        line(0, "")
        line(1, "def read(self, reader: Reader, version: i64) -> object:")
        line(2, f"return {_function('read', message)}(reader, version)")
        self._lines += ["", ""]
        line(0, f"class {name}Encoder(NativeEncoder):")
        line(1, f'"""Encodes {name}."""')
        line(0, "")
        line(1, "def write(self, writer: Writer, message: object, version: i64) -> None:")
        line(2, f"if not isinstance(message, {name}):")
        line(3, f'raise TypeError(f"{{message!r}} is no {name}")')
        line(2, f"{_function('write', message)}(writer, message, version)")
        self._lines += ["", ""]
        line(
            0, f"def make_{name}_decoder(version: int, most_elements: int | None, make_careful: Any) -> {name}Decoder:"
        )
        line(1, f'return {name}Decoder("{name}", version, most_elements, make_careful)')
        self._lines += ["", ""]
        line(0, f"def make_{name}_encoder(version: int) -> {name}Encoder:")
        line(1, f'return {name}Encoder("{name}", version)')
        self._lines += ["", ""]
        line(0, f"{name}.decoders = DecoderTable({name}, native=make_{name}_decoder)")
        line(0, f"{name}.encoders = EncoderTable({name}, native=make_{name}_encoder)")
        # For callers that are interpreted, who name them as the notation does.
        for part in _parts(message):
            line(0, f'setattr({name}, "{part.__name__}", {part.__name__})')


def _is_struct(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Struct)


def _parts(message: type[Struct]) -> list[type[Struct]]:
    return [part for part in vars(message).values() if isinstance(part, type) and issubclass(part, Struct)]


def _function(verb: str, struct: type[Struct]) -> str:
    return f"{verb}_{re.sub('(?<!^)(?=[A-Z])', '_', struct.__name__).lower()}"


def _struct_name(field: FieldSchema) -> str:
    assert field.struct is not None
    return field.struct.__name__


def _type(field: FieldSchema) -> str:
    """Return the annotation of a field."""
    text = field.struct.__name__ if field.struct is not None else _TYPES[field.wire_type][0]
    if field.is_array:
        text = f"list[{'int' if text.startswith('i') else text}]"
    may_be_none = field.default is None or field.declaration.nullable.last >= 0
    return f"{text} | None" if may_be_none and text != "Any" else text


def _parameter(field: FieldSchema) -> str:
    """Return the annotation and default of a field's parameter of the constructor."""
    if field.default is UNSET:  # made anew for each object
        return "Any = UNSET" if _not_given(field) == "UNSET" else f"{_type(field)} | None = None"
    return f"{_type(field)} = {field.default!r}"


def _not_given(field: FieldSchema) -> str:
    """Return what stands for a value that is made: None, unless None is a value."""
    return "UNSET" if _type(field).endswith("| None") else "None"


def _default(field: FieldSchema) -> str:
    if field.default is not UNSET:
        return repr(field.default)
    return "[]" if field.is_array else f"{_struct_name(field)}()"


def _differs(field: FieldSchema, value: str) -> str:
    """Return the condition under which a value is not the default."""
    if field.is_array and field.default is UNSET:
        return f"({value} is None or len({value}) > 0)" if _type(field).endswith("None") else f"len({value}) > 0"
    if field.default is None:
        if field.struct is not None and not field.is_array and field.declaration.nullable.last < 0:
            # None stands for Kafka's struct of defaults, which isn't written either.
            return f"({value} is not None and {value} != {_struct_name(field)}())"
        return f"{value} is not None"
    return f"{value} != {_default(field)}"


def _is_told(field: FieldSchema, value: str) -> str:
    """Return the condition under which a version without the field cannot express the value: None may stand for no
    list."""
    if field.is_array and field.default is UNSET and _type(field).endswith("None"):
        return f"({value} is not None and len({value}) > 0)"
    return _differs(field, value)


def _untagged(field: FieldSchema) -> VersionRange:
    """Return the versions in which a field lies on the wire in order."""
    versions, tagged = field.declaration.versions, field.declaration.tagged
    if field.declaration.tag is None or tagged.last < 0:
        return versions
    return VersionRange(versions.first, min(versions.last, tagged.first - 1))


def _condition(versions: VersionRange, message: type[MessageSpec], within: VersionRange | None = None) -> str | None:
    """Return the condition under which `version` lies in a range; None: always, of the message's or of `within`."""
    first, last = message.min_version, message.max_version
    if within is not None:
        first, last = max(first, within.first), min(last, within.last)
    if versions.first > min(versions.last, last) or versions.last < first:
        return "False"
    parts = []
    if versions.first > first:
        parts.append(f"version >= {versions.first}")
    if versions.last < last:
        parts.append(f"version <= {versions.last}")
    return " and ".join(parts) or None


def _least(field: FieldSchema, message: type[MessageSpec], version: int) -> int:
    """Return the fewest bytes that an element of an array takes."""
    flexible = message.is_flexible(version)
    if field.wire_type.is_fixed:
        return field.wire_type.size
    if field.struct is not None:
        return max(1, least_size(field.struct, version, flexible=flexible))
    return 1 if flexible else 2 if field.wire_type is WireType.STRING else 4


def _element(field: FieldSchema, flexible: str) -> str:
    """Return the expression that reads an element of an array."""
    if field.struct is not None:
        return f"{_function('read', field.struct)}(reader, version)"
    method = _TYPES[field.wire_type][1]
    return f"reader.{method}()" if field.wire_type.is_fixed else f'reader.{method}("{field.name} element", {flexible})'


def main() -> None:
    """Write the native families over the notation in a directory of sources."""
    for family in NATIVE_FAMILIES:
        place = Path(sys.argv[1]) / "barnabas" / "protocol" / "messages" / f"{family}.py"
        place.write_text(FamilyWriter(family).text())


if __name__ == "__main__":
    main()
