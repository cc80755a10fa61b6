"""Decodes and encodes Protobuf values, framed or not.

Made in the executors' Python workers, by `coded_columns`, once for a column; used by the worker's one thread, no lock.
Protobuf reads a message of one version by the schema of another, so only a framed value's indexes need the schema that
its id stands for: they say which message the value is.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from barnabas_spark.pipeline.coding.coding_errors import BadValue, FormatError
from barnabas_spark.pipeline.coding.confluent_frame import encoded_path, framed, split_path, unframed
from barnabas_spark.pipeline.coding.protobuf_schema import TIMESTAMP, ProtobufSchema
from barnabas_spark.pipeline.coding.schema_registry import PROTOBUF, SchemaRegistry, WriterSchemas
from barnabas_spark.pipeline.coding.schema_text import SchemaText

_VARINT, _BYTES = 0, 2
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class ProtobufDecoder:
    """A reader of values of one message type. Raises FormatError."""

    def __init__(
        self, reader: SchemaText, message: str | None, registry: SchemaRegistry | None, *, is_framed: bool
    ) -> None:
        schema = ProtobufSchema(reader)
        self._name = schema.message_name(message)
        self._class = schema.message_class(self._name)
        self._is_framed = is_framed
        self._writers = WriterSchemas(schema, registry, PROTOBUF, ProtobufSchema)

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's fields. Raises BadValue, RegistryFailed."""
        body = value
        if self._is_framed:
            schema_id, rest = unframed(value)
            path, body = split_path(rest)
            name = self._writers.of(schema_id).name_at(path)
            if name != self._name:
                raise BadValue(f"the value is a message {name or path}, not {self._name}")
        try:
            message = self._class.FromString(body)
        except DecodeError as error:
            raise BadValue(f"the value is no Protobuf of the schema: {error}") from error
        try:
            return _fields(message)
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


# -- messages as rows


def _fields(message: Any) -> dict[str, Any]:
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
            found[field.name] = [(_single(key, keys), _single(value[key], entry)) for key in value]
        elif field.is_repeated:
            found[field.name] = [_single(each, field) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _single(value, field)
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


def _single(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            if not 0 <= value.nanos < 1_000_000_000:
                raise BadValue(f"{field.full_name}: {value.nanos} is no number of nanoseconds in a second")
            return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
        return _fields(value)
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
    if message.DESCRIPTOR.full_name == TIMESTAMP:
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
