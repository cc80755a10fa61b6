"""Facts about a message in one version that both source generators need: fields in wire order, least sizes.

Pure functions on the classes of `messages/`; called while a codec is compiled.
"""

from __future__ import annotations

from barnabas.protocol.message_struct import Struct
from barnabas.protocol.schema import UNSET, FieldSchema, WireType


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


def has_records(struct: type[Struct], version: int) -> bool:
    """Return whether the struct contains record batches, at any depth."""
    return any(
        field.wire_type is WireType.RECORDS or (field.struct is not None and has_records(field.struct, version))
        for field in untagged_fields(struct, version)
    )


def default_literal(field: FieldSchema) -> str:
    """Return the Python text of a field's default, made anew where it is mutable."""
    if field.default is not UNSET:
        return repr(field.default)
    if field.is_array:
        return "[]"
    assert field.struct is not None
    return f"{field.struct.__qualname__}()"
