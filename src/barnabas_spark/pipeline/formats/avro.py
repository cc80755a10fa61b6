"""Avro schemas, also as columns of Spark, and what decodes and encodes values of them, framed or not.

Schemas are parsed on the driver and in the executors' Python workers. Decoders and encoders are made in the workers,
once for a column, and used by the worker's one thread. No lock.

fastavro trusts what it reads: the index -1 of a union is its last branch, a length of 2**40 empty records is a loop for
hours, numbers of too many bytes wrap around. `_check_of` makes what walks over a value first, and rejects what Avro
does not have.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from pyspark.sql import types

from barnabas_spark.pipeline.formats.coded_columns import SchemaCodec
from barnabas_spark.pipeline.formats.schemas import (
    AVRO,
    SchemaRegistry,
    SchemaText,
    framed,
    registry_of,
    unframed,
    writer_schemas,
)
from barnabas_spark.pipeline.formats.value_format import ValueCoding
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError

# -- schemas

_PLAIN_TYPES: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "bytes": types.BinaryType(),
    "fixed": types.BinaryType(),
    "string": types.StringType(),
    "enum": types.StringType(),
}
_LOGICAL_TYPES: dict[str, types.DataType] = {
    "date": types.DateType(),
    "timestamp-millis": types.TimestampType(),
    "timestamp-micros": types.TimestampType(),
    "local-timestamp-millis": types.TimestampNTZType(),
    "local-timestamp-micros": types.TimestampNTZType(),
}
_DECIMAL = "decimal"
_LARGEST_PRECISION = 38


class AvroSchema:
    """A parsed schema, whose outermost type is a record. Raises FormatError.

    Types of Avro that Spark has no match for keep what is stored: times of day and durations their numbers or bytes,
    UUIDs their text.
    """

    def __init__(self, schema: SchemaText) -> None:
        self._named: dict[str, Any] = {}
        for reference in schema.references:
            self._parse(reference.text)
        self.parsed: Any = self._parse(schema.text)
        if not isinstance(self.parsed, dict) or self.parsed.get("type") != "record":
            raise FormatError("the Avro schema is no record: its fields would be the columns")

    def columns(self) -> types.StructType:
        """Return the fields as columns. Raises FormatError: a type that Spark has no match for."""
        found = self._type(self.parsed, ())
        assert isinstance(found, types.StructType)
        return found

    def columns_in(self, name: str, told: str) -> types.StructType:
        """Return the fields of the record in one field, as columns. Raises FormatError, which begins with `told`."""
        kinds = {field["name"]: field["type"] for field in self.parsed["fields"]}
        if name not in kinds:
            raise FormatError(f"{told}: it has no field {name!r}, but {', '.join(kinds)}")
        found = self._type(kinds[name], (self.parsed["name"],))
        if not isinstance(found, types.StructType):
            raise FormatError(f"{told}: its field {name!r} is no record")
        return found

    def required(self) -> set[str]:
        """Return the fields that have no default, so that rows may not lack them."""
        return {field["name"] for field in self.parsed["fields"] if "default" not in field}

    def _parse(self, text: str) -> Any:
        try:
            return fastavro.parse_schema(_readable(json.loads(text)), named_schemas=self._named)
        except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as error:
            raise FormatError(f"the Avro schema is wrong: {type(error).__name__}: {error}") from error

    def _type(self, schema: Any, above: tuple[str, ...]) -> types.DataType:
        """Return the type of Spark. `above`: the records that this one is in. Raises FormatError."""
        if isinstance(schema, list):
            kinds = [kind for kind in schema if kind != "null"]
            if len(kinds) != 1:
                raise FormatError(f"the Avro schema has a union of {len(kinds)} types: a column has one, or null")
            return self._type(kinds[0], above)
        if isinstance(schema, str):
            if schema in _PLAIN_TYPES:
                return _PLAIN_TYPES[schema]
            return self._type(self._named[schema], above) if schema in self._named else self._refused(schema)
        kind = schema["type"]
        logical = schema.get("logicalType")
        if logical == _DECIMAL:
            return types.DecimalType(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL_TYPES:
            return _LOGICAL_TYPES[logical]
        if kind == "array":
            return types.ArrayType(self._type(schema["items"], above))
        if kind == "map":
            return types.MapType(types.StringType(), self._type(schema["values"], above))
        if kind == "record":
            if schema["name"] in above:
                raise FormatError(f"the Avro record {schema['name']} contains itself: columns cannot")
            inside = (*above, schema["name"])
            fields = [types.StructField(each["name"], self._type(each["type"], inside)) for each in schema["fields"]]
            return types.StructType(fields)
        # A type may be written as {"type": "string"}, or be wrapped once more.
        return _PLAIN_TYPES[kind] if isinstance(kind, str) and kind in _PLAIN_TYPES else self._type(kind, above)

    def _refused(self, kind: str) -> types.DataType:
        raise FormatError(f"a column cannot have the Avro type {kind}")


def _readable(schema: Any) -> Any:
    """Return the schema without the logical types that Spark has no match for: their stored values are read."""
    if isinstance(schema, list):
        return [_readable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    read = {
        name: _readable(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
    }
    logical = read.get("logicalType")
    is_decimal = logical == _DECIMAL and read.get("precision", 0) <= _LARGEST_PRECISION
    if logical is not None and not is_decimal and logical not in _LOGICAL_TYPES:
        del read["logicalType"]
    return read


# -- values


class AvroDecoder:
    """A reader of values. Those of other versions of the schema are resolved by Avro's rules, if there is a registry.

    Without a registry every value is taken as one of the reader's schema.
    """

    def __init__(self, reader: SchemaText, registry: SchemaRegistry | None, *, is_framed: bool) -> None:
        self._reader = AvroSchema(reader).parsed
        self._is_framed = is_framed
        self._checks: dict[int, _Check] = {}
        """By the identity of the writer's schema, which is kept by `_writer_of`."""
        self._writer_of = writer_schemas(self._reader, registry, AVRO, lambda text: AvroSchema(text).parsed)

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's fields. Raises BadValue, RegistryFailed."""
        writer = self._reader
        body = value
        if self._is_framed:
            schema_id, body = unframed(value)
            writer = self._writer_of(schema_id)
        check = self._checks.get(id(writer))
        if check is None:
            check = self._checks[id(writer)] = _check_of(writer, {}, writer.get("__named_schemas", {}))
        try:
            end = check(body, 0)
        except IndexError:
            raise BadValue("the value is no Avro of the schema: it is cut off") from None
        except RecursionError:
            raise BadValue("the value is Avro that is nested too deeply") from None
        if end != len(body):
            raise BadValue(f"the value is no Avro of the schema: {len(body) - end} bytes are left")
        stream = io.BytesIO(body)
        try:
            decoded = fastavro.schemaless_reader(stream, writer, self._reader)
        except Exception as error:
            raise BadValue(f"the value is no Avro of the schema: {type(error).__name__} {error}".rstrip()) from error
        assert isinstance(decoded, dict)
        return decoded


class AvroEncoder:
    """A writer of values."""

    def __init__(self, schema: SchemaText, *, is_framed: bool) -> None:
        self._schema = AvroSchema(schema).parsed
        self._frame_id = schema.schema_id if is_framed else None

    def encode(self, fields: dict[str, Any]) -> bytes:
        """Return the value of a row. Raises FormatError: a field that the schema does not allow."""
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, self._schema, fields, strict_allow_default=True)
        except Exception as error:
            raise FormatError(f"a row cannot be written as Avro: {error}") from error
        return stream.getvalue() if self._frame_id is None else framed(self._frame_id, stream.getvalue())


def avro_codec(schema: SchemaText, coding: ValueCoding) -> SchemaCodec:
    """Return how values of a schema are read and written. Raises FormatError."""
    parsed = AvroSchema(schema)
    return SchemaCodec(
        parsed.columns(),
        parsed.required(),
        partial(AvroDecoder, schema, registry_of(coding), is_framed=coding.is_framed),
        partial(AvroEncoder, schema, is_framed=coding.is_framed),
    )


# -- checks

_Check = Callable[[bytes, int], int]
"""Walks over one value from a position on, and returns the position behind it. Raises BadValue, IndexError: cut off."""

_SIZES = {"null": 0, "float": 4, "double": 8}
_MOST_EMPTY = 10_000
"""How many elements without a byte an array may have."""


def _check_of(schema: Any, named: dict[str, list[_Check]], known: Mapping[str, Any]) -> _Check:
    """Return what walks over the values of a parsed schema.

    named: the checks of types that have names, so far; known: the types themselves, also those that are referred to.
    """
    if isinstance(schema, list):
        return _union([_check_of(each, named, known) for each in schema])
    if isinstance(schema, str):
        if schema in named:
            slot = named[schema]
            # Not its check itself: that of a record which contains itself is still being made.
            return lambda data, position: slot[0](data, position)  # noqa: PLW0108
        return _check_of(known[schema], named, known) if schema in known else _plain_check(schema)
    kind = schema["type"]
    if kind in ("record", "enum", "fixed"):
        slot = named.setdefault(schema["name"], [])
        if kind == "record":
            made = _record([(each["name"], _check_of(each["type"], named, known)) for each in schema["fields"]])
        else:
            made = _enum(len(schema["symbols"])) if kind == "enum" else _fixed(schema["size"])
        slot.append(made)
        return made
    if kind == "array":
        return _blocks(_check_of(schema["items"], named, known))
    if kind == "map":
        return _blocks(_record([("key", _plain_check("string")), ("value", _check_of(schema["values"], named, known))]))
    return _check_of(kind, named, known)


def _plain_check(kind: str) -> _Check:
    if kind == "boolean":
        return _boolean
    if kind in ("bytes", "string"):
        return _sized
    return {"int": _int, "long": _skipped_long}.get(kind) or _fixed(_SIZES[kind])


def _long(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise BadValue("the value is no Avro of the schema: a number has more than ten bytes")
    if value >> 64:
        raise BadValue("the value is no Avro of the schema: a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def _skipped_long(data: bytes, position: int) -> int:
    return _long(data, position)[1]


def _int(data: bytes, position: int) -> int:
    value, position = _long(data, position)
    if not -(2**31) <= value < 2**31:
        raise BadValue(f"the value is no Avro of the schema: {value} is out of the range of int")
    return position


def _boolean(data: bytes, position: int) -> int:
    if data[position] > 1:
        raise BadValue(f"the value is no Avro of the schema: {data[position]:#04x} is no boolean")
    return position + 1


def _fixed(size: int) -> _Check:
    return lambda data, position: _behind(data, position, size)


def _sized(data: bytes, position: int) -> int:
    size, position = _long(data, position)
    if size < 0:
        raise BadValue(f"the value is no Avro of the schema: {size} is no length")
    return _behind(data, position, size)


def _behind(data: bytes, position: int, size: int) -> int:
    if position + size > len(data):
        raise IndexError
    return position + size


def _enum(count: int) -> _Check:
    def check(data: bytes, position: int) -> int:
        index, position = _long(data, position)
        if not 0 <= index < count:
            raise BadValue(f"the value is no Avro of the schema: an enum of {count} symbols has no number {index}")
        return position

    return check


def _union(branches: list[_Check]) -> _Check:
    def check(data: bytes, position: int) -> int:
        index, position = _long(data, position)
        if not 0 <= index < len(branches):
            raise BadValue(f"the value is no Avro of the schema: a union of {len(branches)} has no branch {index}")
        return branches[index](data, position)

    return check


def _record(fields: list[tuple[str, _Check]]) -> _Check:
    singles = [single for _, single in fields]

    def check(data: bytes, position: int) -> int:
        index = 0
        try:
            for single in singles:
                position = single(data, position)
                index += 1
        except BadValue as error:
            raise BadValue(f"{fields[index][0]}: {error}") from None
        return position

    return check


def _blocks(single: _Check) -> _Check:
    def check(data: bytes, position: int) -> int:
        empty = 0
        while True:
            count, position = _long(data, position)
            if count == 0:
                return position
            if count < 0:
                # Its size in bytes follows, for readers that skip it.
                count, position = -count, _skipped_long(data, position)
            while count:
                before, position = position, single(data, position)
                count -= 1
                if position == before:
                    empty += 1
                    if empty > _MOST_EMPTY:
                        raise BadValue(
                            f"the value is no Avro of the schema: an array has more than {_MOST_EMPTY:,} elements"
                            " without a byte"
                        )

    return check
