"""Protobuf schemas, also as columns of Spark, and what decodes and encodes values of them, framed or not.

Schemas are parsed on the driver and in the executors' Python workers. Decoders and encoders are made in the workers, by
`coded_columns`, once for a column, and used by the worker's one thread. No lock.

Protobuf reads a message of one version by the schema of another, so only a framed value's indexes need the schema that
its id stands for: they say which message the value is.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

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
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from pyspark.sql import types

from barnabas.records.errors import CorruptRecord
from barnabas.records.v2.layout import MAX_VARINT_BYTES, decode_zigzag, encode_zigzag
from barnabas_spark.pipeline.formats.coded_columns import SchemaCodec
from barnabas_spark.pipeline.formats.schemas import (
    PROTOBUF,
    NamedText,
    SchemaRegistry,
    SchemaText,
    framed,
    read_file,
    registry_of,
    unframed,
    writer_schemas,
)
from barnabas_spark.pipeline.formats.value_format import ValueCoding
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError

_TIMESTAMP = "google.protobuf.Timestamp"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# -- schemas

_MAIN = "barnabas-pipeline.proto"
"""The name of a file that has none, as registries give them."""
_WELL_KNOWN: dict[str, Any] = {
    each.DESCRIPTOR.name: each.DESCRIPTOR
    for each in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
"""Protobuf's own files, which a schema imports without bringing them."""
_PLAIN_TYPES: dict[int, types.DataType] = {
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
    """A file of message types, with descriptors made of it and of those that it imports. Raises FormatError.

    A field that tells whether it is set is NULL when it is not; others have their default. An enum's value is its name,
    an unsigned number the next larger type.
    """

    def __init__(self, schema: SchemaText) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._given = {reference.name: _parsed_file(reference.text, reference.name) for reference in schema.references}
        self._added: set[str] = set()
        self._file = _parsed_file(schema.text, _MAIN)
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
        return _columns_of(self._pool.FindMessageTypeByName(name), ())

    def _add(self, file: FileDescriptorProto) -> None:
        """Add a file, after those that it imports. Raises FormatError, TypeError."""
        self._added.add(file.name)
        for name in file.dependency:
            if name in self._added:
                continue
            if name in self._given:
                self._add(self._given[name])
            elif name in _WELL_KNOWN:
                known = FileDescriptorProto()
                _WELL_KNOWN[name].CopyToProto(known)
                self._add(known)
            else:
                raise FormatError(
                    f"the Protobuf schema imports {name}, which is not there: protoc needs --include_imports"
                )
        self._pool.AddSerializedFile(file.SerializeToString())


def _parsed_file(text: str, name: str) -> FileDescriptorProto:
    """Return a serialized file. Raises FormatError."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise FormatError(f"the Protobuf schema is no serialized file descriptor: {error}") from error
    if name != _MAIN or not file.name:
        # Others import it by the name of the reference, and registries leave the name out.
        file.name = name
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


def _columns_of(message: Descriptor, above: tuple[str, ...]) -> types.StructType:
    if message.full_name in above:
        raise FormatError(f"the Protobuf message {message.full_name} contains itself: columns cannot")
    inside = (*above, message.full_name)
    return types.StructType([types.StructField(field.name, _type_of(field, inside)) for field in message.fields])


def _type_of(field: FieldDescriptor, above: tuple[str, ...]) -> types.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return types.MapType(_single_type_of(key, above), _single_type_of(value, above))
    single = _single_type_of(field, above)
    return types.ArrayType(single) if field.is_repeated else single


def _single_type_of(field: FieldDescriptor, above: tuple[str, ...]) -> types.DataType:
    if field.message_type is not None:
        is_time = field.message_type.full_name == _TIMESTAMP
        return types.TimestampType() if is_time else _columns_of(field.message_type, above)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return types.BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else types.StringType()
    return _PLAIN_TYPES[field.cpp_type]


# -- values


class ProtobufDecoder:
    """A reader of values of one message type. Raises FormatError."""

    def __init__(
        self, reader: SchemaText, message: str | None, registry: SchemaRegistry | None, *, is_framed: bool
    ) -> None:
        schema = ProtobufSchema(reader)
        self._name = schema.message_name(message)
        self._class = schema.message_class(self._name)
        self._is_framed = is_framed
        self._writer_of = writer_schemas(schema, registry, PROTOBUF, ProtobufSchema)

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's fields. Raises BadValue, RegistryFailed."""
        body = value
        if self._is_framed:
            schema_id, rest = unframed(value)
            path, body = split_path(rest)
            name = self._writer_of(schema_id).name_at(path)
            if name != self._name:
                raise BadValue(f"the value is a message {name or path}, not {self._name}")
        try:
            message = self._class.FromString(body)
        except DecodeError as error:
            raise BadValue(f"the value is no Protobuf of the schema: {error}") from error
        try:
            return _fields_of(message)
        except OverflowError as error:
            raise BadValue(f"the value has a timestamp outside of the years 1 to 9999: {error}") from error


class ProtobufEncoder:
    """A writer of values of one message type. Raises FormatError."""

    def __init__(self, schema: SchemaText, message: str | None, *, is_framed: bool) -> None:
        parsed = ProtobufSchema(schema)
        self._name = parsed.message_name(message)
        self._class = parsed.message_class(self._name)
        self._path = encoded_path(parsed.path_of(self._name))
        self._frame_id = schema.schema_id if is_framed else None

    def encode(self, fields: dict[str, Any]) -> bytes:
        """Return the value of a row. Raises FormatError: a field that the schema does not allow."""
        message = self._class()
        try:
            _fill(message, fields)
            body: bytes = message.SerializeToString()
        except (TypeError, ValueError, OverflowError, EncodeError) as error:
            raise FormatError(f"a row cannot be written as Protobuf {self._name}: {error}") from error
        return body if self._frame_id is None else framed(self._frame_id, self._path + body)


def protobuf_codec(schema: SchemaText, coding: ValueCoding) -> SchemaCodec:
    """Return how values of a schema are read and written. Raises FormatError."""
    parsed = ProtobufSchema(schema)
    return SchemaCodec(
        parsed.columns(parsed.message_name(coding.message)),
        set(),
        partial(ProtobufDecoder, schema, coding.message, registry_of(coding), is_framed=coding.is_framed),
        partial(ProtobufEncoder, schema, coding.message, is_framed=coding.is_framed),
    )


def protobuf_file(path: str, message: str | None) -> SchemaText:
    """Return the file of a descriptor set that has a message; without a message the last one. Raises FormatError.

    A descriptor set is what protoc writes with --descriptor_set_out.
    """
    told = f"{path} is no descriptor set: make it with protoc --include_imports --descriptor_set_out={path}"
    try:
        files = list(FileDescriptorSet.FromString(read_file(path)).file)
    except DecodeError as error:
        raise FormatError(told) from error
    if not files:
        raise FormatError(told)
    # protoc writes a file after those that it imports.
    main = next((file for file in files if message is not None and _has_message(file, message)), files[-1])
    others = tuple(NamedText(file.name, _base64_text(file)) for file in files if file is not main)
    return SchemaText(_base64_text(main), others)


def _has_message(file: FileDescriptorProto, message: str) -> bool:
    prefix = f"{file.package}." if file.package else ""
    return any(
        message == f"{prefix}{each.name}" or message.startswith(f"{prefix}{each.name}.") for each in file.message_type
    )


def _base64_text(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


# -- messages as rows

_VARINT, _BYTES = 0, 2
"""Wire types."""


def _fields_of(message: Any) -> dict[str, Any]:
    """Return a message's fields. Raises BadValue, OverflowError."""
    found: dict[str, Any] = {}
    unknown = UnknownFieldSet(message)
    if len(unknown):
        _check_unknown(message, unknown)
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            entry = field.message_type.fields_by_name["value"]
            keys = field.message_type.fields_by_name["key"]
            found[field.name] = [(_single_value(key, keys), _single_value(value[key], entry)) for key in value]
        elif field.is_repeated:
            found[field.name] = [_single_value(each, field) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _single_value(value, field)
    return found


def _check_unknown(message: Any, unknown: Any) -> None:
    """Check the fields that are unknown to the schema. Raises BadValue.

    A newer version's fields are no fault. A known field of another wire type is: Protobuf takes it for an unknown one,
    and the field would be NULL, or its default.
    """
    known = message.DESCRIPTOR.fields_by_number
    for each in unknown:
        field = known.get(each.field_number)
        if field is not None and not _may_be_of_closed_enum(field, each.wire_type):
            raise BadValue(
                f"the value is no Protobuf of the schema: its field {each.field_number} is no {field.full_name},"
                f" but of wire type {each.wire_type}"
            )


def _may_be_of_closed_enum(field: FieldDescriptor, wire_type: int) -> bool:
    """Return whether an unknown field may be a number that a closed enum lacks: Protobuf keeps it among the unknown.

    Of a map with such values it keeps the whole entry there.
    """
    if _is_map(field):
        return wire_type == _BYTES and field.message_type.fields_by_name["value"].enum_type is not None
    return field.enum_type is not None and wire_type == _VARINT


def _single_value(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            if not 0 <= value.nanos < 1_000_000_000:
                raise BadValue(f"{field.full_name}: {value.nanos} is no number of nanoseconds in a second")
            return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
        return _fields_of(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        # An enum's number that this version of the schema does not name.
        return str(value) if known is None else known.name
    if type(value) is bytes and field.type == FieldDescriptor.TYPE_STRING:
        # In files of proto2's syntax a text is not checked while a message is parsed.
        raise BadValue(f"{field.full_name}: the text is not UTF-8: {value[:20]!r}")
    return Decimal(value) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# -- rows as messages


def _fill(message: Any, fields: dict[str, Any]) -> None:
    """Set the fields that are not NULL. Raises TypeError, ValueError: a value that a field cannot have."""
    for field in message.DESCRIPTOR.fields:
        value = fields.get(field.name)
        if value is None:
            if field.is_required:
                raise ValueError(f"the required field {field.name} is NULL")
            continue
        if _is_map(field):
            entry = field.message_type.fields_by_name["value"]
            target = getattr(message, field.name)
            for key, each in value.items():
                if entry.message_type is not None:
                    _fill_message(target[key], each)
                else:
                    target[key] = _scalar(each, entry)
        elif field.is_repeated:
            target = getattr(message, field.name)
            for each in value:
                if field.message_type is not None:
                    _fill_message(target.add(), each)
                else:
                    target.append(_scalar(each, field))
        elif field.message_type is not None:
            child = getattr(message, field.name)
            # A message without fields that are set is there all the same.
            child.SetInParent()
            _fill_message(child, value)
        else:
            setattr(message, field.name, _scalar(value, field))


def _fill_message(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        message.FromDatetime(value.astimezone(dt.UTC).replace(tzinfo=None))
    elif value is not None:
        _fill(message, value)


def _scalar(value: Any, field: FieldDescriptor) -> Any:
    """Return a value as Protobuf takes it. Raises ValueError."""
    if value is None:
        raise ValueError(f"the field {field.name} has a NULL among its values")
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"the enum {field.enum_type.full_name} has no value {value!r}")
        return known.number
    return int(value) if isinstance(value, Decimal) else value


# -- message indexes

_LONGEST_PATH = 100
"""More than anyone nests: Protobuf itself stops at 100 levels."""


class MessageFrame(NamedTuple):
    """A body without its indexes, which say which message of the file it is.

    path: the position of the outermost message in the file, then of each nested message. In a frame the indexes stand
    behind the schema's id, as zigzag varints after their count; one zero byte alone stands for the first message. For
    example 0x04 0x02 0x00 is the path (1, 0): the first message inside the file's second one.
    """

    path: tuple[int, ...]
    body: bytes


def split_path(body: bytes) -> MessageFrame:
    """Return the message's indexes and the body behind them. Raises BadValue."""
    try:
        count, position = decode_zigzag(body, 0, MAX_VARINT_BYTES)
        if count == 0:
            return MessageFrame((0,), body[position:])
        if not 0 < count <= _LONGEST_PATH:
            raise BadValue(f"the value has {count} message indexes")
        path = []
        for _ in range(count):
            index, position = decode_zigzag(body, position, MAX_VARINT_BYTES)
            path.append(index)
    except CorruptRecord:
        raise BadValue("the message indexes of the value are cut off") from None
    return MessageFrame(tuple(path), body[position:])


def encoded_path(path: tuple[int, ...]) -> bytes:
    """Return a message's indexes as they stand before the body."""
    return b"\x00" if path == (0,) else b"".join(map(encode_zigzag, (len(path), *path)))
