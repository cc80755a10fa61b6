"""Columns that are decoded from values, or encoded into them, by a schema: Avro and Protobuf, and JSON when it is read.

`decoded_column` and `encoded_column` are called by `value_formats` on the driver, which reads the schema and so knows
the columns. What they return runs in the executors' Python workers, on Arrow batches; each worker makes a codec once
for each column. No lock.
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type

from barnabas_spark.pipeline.coding.avro_codec import AvroDecoder, AvroEncoder
from barnabas_spark.pipeline.coding.avro_schema import AvroSchema
from barnabas_spark.pipeline.coding.coding_errors import BadValue, FormatError
from barnabas_spark.pipeline.coding.protobuf_codec import ProtobufDecoder, ProtobufEncoder
from barnabas_spark.pipeline.coding.protobuf_schema import ProtobufSchema
from barnabas_spark.pipeline.coding.schema_files import avro_file, protobuf_file
from barnabas_spark.pipeline.coding.schema_registry import AVRO, PROTOBUF, registry_at
from barnabas_spark.pipeline.coding.schema_text import SchemaText
from barnabas_spark.pipeline.coding.strict_json import StrictJsonDecoder
from barnabas_spark.pipeline.specification import AVRO_FORMAT, ValueCoding

VALUE, ERROR = "value", "error"
"""The fields of a decoded column: the value's columns, or why there are none."""


class _Codec(NamedTuple):
    """What an executor needs to know: hashable, and small enough to go with each task."""

    format: str
    coding: ValueCoding
    schema: SchemaText


class _JsonCodec(NamedTuple):
    """What an executor needs to know of JSON values: the columns, as Spark writes types, and the session's zone."""

    columns: str
    zone: str

    def decoder(self) -> StrictJsonDecoder:
        """Return a decoder. Raises FormatError."""
        return StrictJsonDecoder(types.StructType.fromJson(json.loads(self.columns)), self.zone)


def decoded_column(values: Column, value_format: str, coding: ValueCoding) -> Column:
    """Return a struct of VALUE and ERROR for a column of bytes. Raises FormatError, RegistryFailed."""
    schema = _reader_schema(value_format, coding)
    codec = _Codec(value_format, coding, schema)
    return _decoding_column(values, codec, _columns(codec))


def strict_json_column(values: Column, columns: types.StructType, zone: str) -> Column:
    """Return a struct of VALUE and ERROR for a column of bytes, which are JSON. Raises FormatError.

    zone: the session's time zone, for timestamps that name none.
    """
    codec = _JsonCodec(columns.json(), zone)
    # Wrong types are told on the driver.
    codec.decoder()
    return _decoding_column(values, codec, _nullable(columns))


def _decoding_column(values: Column, codec: _Codec | _JsonCodec, columns: types.StructType) -> Column:
    told = types.StructType([types.StructField(VALUE, columns), types.StructField(ERROR, types.StringType())])

    def decode(batch: pa.Array) -> pa.Array:
        return _decoded(batch, codec, to_arrow_type(told, timezone="UTC"))

    # Nondeterministic, or Spark would push a filter on its error below it, and decode every value twice.
    column: Column = sql.arrow_udf(decode, told).asNondeterministic()(values)
    return column


def encoded_column(rows: DataFrame, names: list[str], value_format: str, coding: ValueCoding) -> Column:
    """Return the bytes of the rows' columns. Raises FormatError: columns that do not fit the schema. RegistryFailed."""
    schema = _writer_schema(value_format, coding)
    codec = _Codec(value_format, coding, schema)
    fitted = _fitted(rows, names, codec)

    def encode(batch: pa.Array) -> pa.Array:
        encoder = _encoder(codec)
        return pa.array([encoder.encode(row) for row in batch.to_pylist(maps_as_pydicts="strict")], pa.binary())

    column: Column = sql.arrow_udf(encode, types.BinaryType())(sql.struct(*fitted))
    return column


# -- on the driver


def _reader_schema(value_format: str, coding: ValueCoding) -> SchemaText:
    """Return the schema whose fields are the columns. Raises FormatError, RegistryFailed."""
    if coding.schema_file is not None:
        return _file_schema(value_format, coding, coding.schema_file)
    assert coding.registry is not None
    assert coding.subject is not None
    return registry_at(coding.registry).latest(coding.subject, _kind(value_format))


def _writer_schema(value_format: str, coding: ValueCoding) -> SchemaText:
    """Return the schema to write by, with its id if values are framed. Raises FormatError, RegistryFailed."""
    if coding.schema_file is None:
        return _reader_schema(value_format, coding)
    schema = _file_schema(value_format, coding, coding.schema_file)
    if coding.registry is None:
        return schema._replace(schema_id=coding.schema_id)
    if schema.references:
        raise FormatError(
            f"{coding.schema_file} imports files: register them yourself, and leave 'schema_file' out, so that the"
            " registry's newest schema is taken"
        )
    assert coding.subject is not None
    # Wrong schemas are told before they are registered for good.
    _columns(_Codec(value_format, coding, schema))
    return registry_at(coding.registry).register(coding.subject, schema, _kind(value_format))


def _file_schema(value_format: str, coding: ValueCoding, path: str) -> SchemaText:
    return avro_file(path) if value_format == AVRO_FORMAT else protobuf_file(path, coding.message)


def _kind(value_format: str) -> str:
    return AVRO if value_format == AVRO_FORMAT else PROTOBUF


def _nullable(kind: Any) -> Any:
    """Return a type whose fields may all be NULL, as those of a value are that could not be decoded."""
    if isinstance(kind, types.StructType):
        return types.StructType([types.StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_nullable(kind.elementType))
    return types.MapType(kind.keyType, _nullable(kind.valueType)) if isinstance(kind, types.MapType) else kind


def _columns(codec: _Codec) -> types.StructType:
    """Return the schema's fields as columns. Raises FormatError."""
    if codec.format == AVRO_FORMAT:
        return AvroSchema(codec.schema).columns()
    parsed = ProtobufSchema(codec.schema)
    return parsed.columns(parsed.message_name(codec.coding.message))


def _fitted(rows: DataFrame, names: list[str], codec: _Codec) -> list[Column]:
    """Return the rows' columns with the types of the schema's fields. Raises FormatError."""
    fields = {field.name: field.dataType for field in _columns(codec).fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise FormatError(f"the schema has no field {unknown[0]!r}; it has {', '.join(fields)}")
    if codec.format == AVRO_FORMAT:
        missing = sorted(fields.keys() - set(names) - AvroSchema(codec.schema).optional_fields())
        if missing:
            raise FormatError(f"there is no column for the schema's field {missing[0]!r}, which has no default")
    found = []
    for name in names:
        given, wanted = rows.schema[name].dataType, fields[name]
        if given != wanted and not _widens(given, wanted):
            raise FormatError(
                f"the column {name} is {given.simpleString()}, the schema's field {wanted.simpleString()}:"
                " cast it in a transform"
            )
        found.append(sql.col(f"`{name}`").cast(wanted).alias(name))
    return found


_NUMBERS = (
    types.ByteType, types.ShortType, types.IntegerType, types.LongType, types.FloatType, types.DoubleType,
)  # fmt: skip


def _widens(given: types.DataType, wanted: types.DataType) -> bool:
    """Whether every value of one type is one of the other, or can only be NULL where the other forbids it."""
    if isinstance(given, types.NullType):
        return True
    if isinstance(given, types.StructType) and isinstance(wanted, types.StructType):
        pairs = zip(given.fields, wanted.fields, strict=False)
        return given.fieldNames() == wanted.fieldNames() and all(_widens(a.dataType, b.dataType) for a, b in pairs)
    if isinstance(given, types.ArrayType) and isinstance(wanted, types.ArrayType):
        return _widens(given.elementType, wanted.elementType)
    if isinstance(given, types.MapType) and isinstance(wanted, types.MapType):
        return _widens(given.keyType, wanted.keyType) and _widens(given.valueType, wanted.valueType)
    if isinstance(given, types.DecimalType) and isinstance(wanted, types.DecimalType):
        digits = given.precision - given.scale
        return bool(given.scale <= wanted.scale and digits <= wanted.precision - wanted.scale)
    if isinstance(given, _NUMBERS) and isinstance(wanted, _NUMBERS):
        # Doubles hold integers up to 2**53 exactly; a bigint does not widen to them.
        exact = not (isinstance(given, types.LongType) and isinstance(wanted, (types.FloatType, types.DoubleType)))
        exact &= not (isinstance(given, types.IntegerType) and isinstance(wanted, types.FloatType))
        return exact and _NUMBERS.index(type(given)) <= _NUMBERS.index(type(wanted))
    return bool(given == wanted)


# -- in the executors


def _decoded(batch: pa.Array, codec: _Codec | _JsonCodec, told: pa.StructType) -> pa.Array:
    """Return VALUE and ERROR for each value. Raises RegistryFailed."""
    decoder = _decoder(codec)
    rows: list[dict[str, Any]] = []
    for value in batch.to_pylist():
        row: dict[str, Any] = {VALUE: None, ERROR: None}
        try:
            if value is not None:
                row[VALUE] = decoder.decode(value)
            elif isinstance(decoder, StrictJsonDecoder):
                decoder.check_null()
        except BadValue as error:
            row[ERROR] = str(error)
        rows.append(row)
    try:
        return pa.array(rows, told)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
        # A decoded value that the column's type cannot hold, such as a decimal with too many digits: which one?
        return pa.array([_that_fits(row, told) for row in rows], told)


def _that_fits(row: dict[str, Any], told: pa.StructType) -> dict[str, Any]:
    try:
        pa.array([row], told)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
        return {VALUE: None, ERROR: f"the value does not fit the columns: {error}"}
    return row


@functools.cache
def _decoder(codec: _Codec | _JsonCodec) -> AvroDecoder | ProtobufDecoder | StrictJsonDecoder:
    if isinstance(codec, _JsonCodec):
        return codec.decoder()
    coding = codec.coding
    registry = None if coding.registry is None else registry_at(coding.registry)
    if codec.format == AVRO_FORMAT:
        return AvroDecoder(codec.schema, registry, is_framed=coding.is_framed)
    return ProtobufDecoder(codec.schema, coding.message, registry, is_framed=coding.is_framed)


@functools.cache
def _encoder(codec: _Codec) -> AvroEncoder | ProtobufEncoder:
    if codec.format == AVRO_FORMAT:
        return AvroEncoder(codec.schema, is_framed=codec.coding.is_framed)
    return ProtobufEncoder(codec.schema, codec.coding.message, is_framed=codec.coding.is_framed)
