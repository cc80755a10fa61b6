"""What both source generators need: facts about a message in one version, and a writer of the generated module.

Used by `decoder_source` and `encoder_source` while a codec is compiled. The functions on the classes of `messages/` are
pure; a SourceWriter belongs to the calling thread for the length of one call.
"""

from __future__ import annotations

from barnabas.protocol.message_struct import Struct
from barnabas.protocol.schema import UNSET, FieldSchema, WireType

_POINTER_BYTES = 8
_OBJECT_BYTES = 32
_LIST_BYTES = 64
_NUMBER_BYTES = 16
_UUID_BYTES = 64
_LARGE_NUMBER = 4
"""The bytes on the wire from which on a number may be larger than those that Python shares."""
_FIXED_BYTES = {WireType.UUID: _UUID_BYTES, WireType.RECORDS: 192}
"""Records are a memoryview."""


def fields_of(struct: type[Struct]) -> tuple[FieldSchema, ...]:
    """Return all fields of a struct, of all versions, in the order of its constructor."""
    return struct.field_schemas()


def untagged_fields(struct: type[Struct], version: int) -> list[FieldSchema]:
    """Return the fields that lie on the wire in order."""
    return [field for field in fields_of(struct) if field.is_present(version) and not field.is_tagged(version)]


def tagged_fields(struct: type[Struct], version: int) -> list[FieldSchema]:
    """Return the tagged fields, by rising tag."""
    tagged = [field for field in fields_of(struct) if field.is_present(version) and field.is_tagged(version)]
    return sorted(tagged, key=lambda field: field.declaration.tag or 0)


def least_size(struct: type[Struct], version: int, *, flexible: bool) -> int:
    """Return the fewest bytes that a struct can take, which bounds a count of structs by the bytes left."""
    # The count of tagged fields, which every flexible struct ends with.
    size = 1 if flexible else 0
    return size + sum(
        _least_field_size(field, version, flexible=flexible) for field in untagged_fields(struct, version)
    )


def _least_field_size(field: FieldSchema, version: int, *, flexible: bool) -> int:
    if not field.is_array and field.wire_type.is_fixed:
        return field.wire_type.size
    if not field.is_array and field.struct is not None:
        # A nullable struct that is null takes one byte.
        return 1 if field.is_nullable(version) else least_size(field.struct, version, flexible=flexible)
    if flexible:
        return 1
    return 2 if field.wire_type is WireType.STRING and not field.is_array else 4


def memory_of(field: FieldSchema, version: int) -> int:
    """Return the memory that an element of an array takes, in bytes, without the elements of its own arrays.

    Strings and bytes count only where they are longer than what Python shares; numbers by half, since most are small
    and shared.
    """
    if field.struct is None:
        if not field.wire_type.is_fixed:
            return _POINTER_BYTES
        return _POINTER_BYTES + _FIXED_BYTES.get(field.wire_type, _NUMBER_BYTES)
    return _POINTER_BYTES + _struct_memory(field.struct, version)


def _struct_memory(struct: type[Struct], version: int) -> int:
    # Every field has its place in the object, also one that the version lacks.
    memory = _OBJECT_BYTES + _POINTER_BYTES * len(fields_of(struct))
    for field in fields_of(struct):
        if field.is_array:
            memory += _LIST_BYTES if field.is_present(version) or field.default is UNSET else 0
        elif field.struct is not None:
            memory += _struct_memory(field.struct, version)
        elif field.is_present(version):
            memory += _FIXED_BYTES.get(field.wire_type, _NUMBER_BYTES if field.wire_type.size >= _LARGE_NUMBER else 0)
    return memory


def has_records(struct: type[Struct], version: int) -> bool:
    """Return whether the struct contains record batches, at any depth."""
    return any(
        field.wire_type is WireType.RECORDS or (field.struct is not None and has_records(field.struct, version))
        for field in untagged_fields(struct, version)
    )


def default_literal(field: FieldSchema) -> str:
    """Return the Python text of a field's default, which makes a new object where it is mutable."""
    if field.default is not UNSET:
        return repr(field.default)
    if field.is_array:
        return "[]"
    assert field.struct is not None
    return f"{field.struct.__qualname__}()"


class SourceWriter:
    """Collects the indented lines of one function, and the constants it needs, which are defined before it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._definitions: dict[str, str] = {}
        self._last_number = 0

    def line(self, depth: int, text: str) -> None:
        """Add a line, indented by `depth` steps."""
        self._lines.append(" " * 4 * depth + text)

    @property
    def line_count(self) -> int:
        """The number of the function's lines so far."""
        return len(self._lines)

    def name(self, prefix: str) -> str:
        """Return a variable name not used before."""
        self._last_number += 1
        return f"{prefix}{self._last_number}"

    def unpacker(self, format_characters: str) -> str:
        """Return the name of `unpack_from` of a big-endian struct format."""
        return self._struct_method("unpack", format_characters, "unpack_from")

    def packer(self, format_characters: str) -> str:
        """Return the name of `pack` of a big-endian struct format."""
        return self._struct_method("pack", format_characters, "pack")

    def array_unpacker(self, element: WireType) -> str:
        """Return the name of a table: number of elements -> `unpack_from` of that many."""
        return self._define(f"unpack_array_{_identifier(element.format)}", f'array_unpackers("{element.format}")')

    def array_packer(self, element: WireType) -> str:
        """Return the name of a table: number of elements -> `pack` of that many."""
        return self._define(f"pack_array_{_identifier(element.format)}", f'array_packers("{element.format}")')

    def constructor(self, struct: type) -> str:
        """Return the name of a struct's class, bound at module level: nested names cost two look-ups each."""
        return self._define(struct.__qualname__.replace(".", "_"), struct.__qualname__)

    def maker(self, struct: type) -> str:
        """Return the name of a class's `__new__`. A native class (decisions/0009) has one of its own."""
        return self._define(f"new_{struct.__qualname__.replace('.', '_')}", f"{struct.__qualname__}.__new__")

    def default_struct(self, struct: type) -> str:
        """Return the name of one instance of a struct with all its defaults."""
        return self._define(f"default_{struct.__qualname__.replace('.', '_')}", f"{struct.__qualname__}()")

    def module(self, title: str, imports: str) -> str:
        """Return the finished text."""
        head = [f'"""{title}"""', imports, ""]
        # A class that is not nested is in the namespace under its own name already.
        definitions = [f"{name} = {text}" for name, text in self._definitions.items() if name != text]
        return "\n".join([*head, *definitions, "", *self._lines, ""])

    def _struct_method(self, prefix: str, format_characters: str, method: str) -> str:
        return self._define(f"{prefix}_{_identifier(format_characters)}", f'Struct(">{format_characters}").{method}')

    def _define(self, name: str, text: str) -> str:
        self._definitions[name] = text
        return name


def _identifier(format_characters: str) -> str:
    """Return format characters as part of a name: `?` cannot be."""
    return format_characters.replace("?", "z")
