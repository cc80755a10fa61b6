"""Protobuf schemas: descriptors made of serialized files, and messages as columns of Spark.

Called on the driver and in the executors' Python workers; no state, no lock. A field that tells whether it is set is
NULL when it is not; others have their default. An enum's value is its name, an unsigned number the next larger type.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from pyspark.sql import types

from barnabas_spark.pipeline.coding.coding_errors import FormatError
from barnabas_spark.pipeline.coding.schema_text import SchemaText

TIMESTAMP = "google.protobuf.Timestamp"

_MAIN = "barnabas-pipeline.proto"
"""The name of a file that has none, as registries give them."""
_WELL_KNOWN: dict[str, Any] = {
    each.DESCRIPTOR.name: each.DESCRIPTOR
    for each in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
"""Protobuf's own files, which a schema imports without bringing them."""
_PLAIN: dict[int, types.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: types.IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: types.LongType(),
    FieldDescriptor.CPPTYPE_UINT32: types.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: types.DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: types.DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: types.FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: types.BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: types.StringType(),
}


class ProtobufSchema:
    """A file of message types. Raises FormatError."""

    def __init__(self, schema: SchemaText) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._given = {reference.name: _file(reference.text, reference.name) for reference in schema.references}
        self._added: set[str] = set()
        self._file = _file(schema.text, _MAIN)
        try:
            self._add(self._file)
        except TypeError as error:
            raise FormatError(f"the Protobuf schema is wrong: {error}") from error

    def name_at(self, path: tuple[int, ...]) -> str | None:
        """Return the full name of the message at a path of indexes, or None if there is none."""
        level, names = self._file.message_type, [self._file.package] if self._file.package else []
        for index in path:
            if not 0 <= index < len(level):
                return None
            names.append(level[index].name)
            level = level[index].nested_type
        return ".".join(names)

    def path_of(self, name: str) -> tuple[int, ...]:
        """Return the path of a message. Raises FormatError: it is not in this file, but in one that is imported."""
        prefix = f"{self._file.package}." if self._file.package else ""
        found = _path_in(self._file.message_type, prefix, name)
        if found is None:
            raise FormatError(f"the Protobuf file has no message {name!r}; it has {', '.join(self.names())}")
        return found

    def names(self) -> list[str]:
        """Return the full names of the outermost messages."""
        names = [self.name_at((index,)) for index in range(len(self._file.message_type))]
        return [name for name in names if name is not None]

    def message_name(self, wanted: str | None) -> str:
        """Return the name of a message: the one that is wanted, or else the first. Raises FormatError."""
        name = wanted if wanted is not None else self.name_at((0,))
        if name is None:
            raise FormatError("the Protobuf file has no message")
        self.path_of(name)
        return name

    def message_class(self, name: str) -> Any:
        """Return the class for a message of this file."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def columns(self, name: str) -> types.StructType:
        """Return a message's fields as columns. Raises FormatError: a message that contains itself."""
        return _columns(self._pool.FindMessageTypeByName(name), ())

    def _add(self, file: FileDescriptorProto) -> None:
        """Add a file, after those that it imports. Raises FormatError, TypeError."""
        self._added.add(file.name)
        for name in file.dependency:
            if name in self._added:
                continue
            if name in self._given:
                self._add(self._given[name])
            elif name in _WELL_KNOWN:
                self._add(_well_known(name))
            else:
                raise FormatError(
                    f"the Protobuf schema imports {name}, which is not there: protoc needs --include_imports"
                )
        self._pool.AddSerializedFile(file.SerializeToString())


def _file(text: str, name: str) -> FileDescriptorProto:
    """Return a serialized file. Raises FormatError."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise FormatError(f"the Protobuf schema is no serialized file descriptor: {error}") from error
    if name != _MAIN or not file.name:
        # Others import it by the name of the reference, and registries leave the name out.
        file.name = name
    return file


def _well_known(name: str) -> FileDescriptorProto:
    """Return one of Protobuf's own files."""
    file = FileDescriptorProto()
    _WELL_KNOWN[name].CopyToProto(file)
    return file


def _path_in(level: Any, prefix: str, name: str) -> tuple[int, ...] | None:
    message: DescriptorProto
    for index, message in enumerate(level):
        full = f"{prefix}{message.name}"
        if full == name:
            return (index,)
        inside = _path_in(message.nested_type, f"{full}.", name)
        if inside is not None:
            return (index, *inside)
    return None


def _columns(message: Descriptor, above: tuple[str, ...]) -> types.StructType:
    if message.full_name in above:
        raise FormatError(f"the Protobuf message {message.full_name} contains itself: columns cannot")
    inside = (*above, message.full_name)
    return types.StructType([types.StructField(field.name, _type(field, inside)) for field in message.fields])


def _type(field: FieldDescriptor, above: tuple[str, ...]) -> types.DataType:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return types.MapType(_single(key, above), _single(value, above))
    single = _single(field, above)
    return types.ArrayType(single) if field.is_repeated else single


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> types.DataType:
    if field.message_type is not None:
        return (
            types.TimestampType() if field.message_type.full_name == TIMESTAMP else _columns(field.message_type, above)
        )
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return types.BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else types.StringType()
    return _PLAIN[field.cpp_type]
