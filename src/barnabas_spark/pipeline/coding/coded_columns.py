"""Columns that are decoded from values, or encoded into them, by a schema: Avro, Protobuf, JSON, Debezium's events.

The functions whose names end with `_column` are called by `value_formats` on the driver, which reads the schema and so
knows the columns. What they return runs in the executors' Python workers, on Arrow batches; each worker makes a codec
once for each column. No lock.
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type

from barnabas_spark.pipeline.coding.avro import AvroDecoder, AvroEncoder, AvroSchema
from barnabas_spark.pipeline.coding.debezium import (
    OPERATION,
    AvroImages,
    DebeziumDecoder,
    JsonImages,
    envelope_columns,
)
from barnabas_spark.pipeline.coding.framed_json import FramedJsonEncoder, JsonFrames, json_schema, validator
from barnabas_spark.pipeline.coding.protobuf import ProtobufDecoder, ProtobufEncoder, ProtobufSchema
from barnabas_spark.pipeline.coding.schema_registry import AVRO, JSON, PROTOBUF, SchemaRegistry, registry_at
from barnabas_spark.pipeline.coding.schema_text import (
    BadValue,
    FormatError,
    SchemaText,
    avro_file,
    json_file,
    protobuf_file,
)
from barnabas_spark.pipeline.coding.strict_json import StrictJsonDecoder, nullable
from barnabas_spark.pipeline.coding.value_coding import AVRO_FORMAT, ValueCoding

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
    coding: ValueCoding | None
    """JSON in Confluent's frame alone has one."""

    def decoder(self) -> _JsonDecoder:
        """Return a decoder. Raises FormatError."""
        decoder = StrictJsonDecoder(types.StructType.fromJson(json.loads(self.columns)), self.zone)
        return _JsonDecoder(decoder, _frames(self.coding))


class _JsonDecoder(NamedTuple):
    """A reader of JSON values, framed or not."""

    decoder: StrictJsonDecoder
    frames: JsonFrames | None

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's columns. Raises BadValue, RegistryFailed."""
        return self.decoder.decode(value if self.frames is None else self.frames.body(value))

    def check_null(self) -> None:
        """Check that a record may lack a value. Raises BadValue."""
        self.decoder.check_null()


class _DebeziumCodec(NamedTuple):
    """What an executor needs to know of change events."""

    columns: str
    """JSON: the columns, as Spark writes types."""
    zone: str
    coding: ValueCoding | None
    schema: SchemaText | None
    """Avro: the envelope's schema."""
    takes_tombstones: bool

    def decoder(self) -> DebeziumDecoder:
        """Return a decoder. Raises FormatError."""
        columns = types.StructType.fromJson(json.loads(self.columns))
        images: AvroImages | JsonImages
        if self.schema is None:
            images = JsonImages(columns, self.zone, _frames(self.coding))
        else:
            assert self.coding is not None
            images = AvroImages(self.schema, _registry(self.coding), is_framed=self.coding.is_framed)
        return DebeziumDecoder(images, columns.fieldNames(), takes_tombstones=self.takes_tombstones)


_AnyCodec = _Codec | _JsonCodec | _DebeziumCodec


def decoded_column(values: Column, value_format: str, coding: ValueCoding) -> Column:
    """Return a struct of VALUE and ERROR for a column of bytes. Raises FormatError, RegistryFailed."""
    schema = _reader_schema(value_format, coding)
    codec = _Codec(value_format, coding, schema)
    return _decoding_column([values], codec, _columns(codec))


def strict_json_column(values: Column, columns: types.StructType, zone: str, coding: ValueCoding | None) -> Column:
    """Return a struct of VALUE and ERROR for a column of bytes, which are JSON. Raises FormatError.

    zone: the session's time zone, for timestamps that name none. coding: that of JSON in Confluent's frame.
    """
    codec = _JsonCodec(columns.json(), zone, coding)
    # Wrong types are told on the driver.
    codec.decoder()
    return _decoding_column([values], codec, nullable(columns))


def debezium_column(
    values: Column,
    keys: Column,
    columns: types.StructType | None,
    zone: str,
    coding: ValueCoding | None,
    *,
    takes_tombstones: bool,
) -> Column:
    """Return a struct of VALUE and ERROR for columns of bytes, which are change events of Debezium and their keys.

    VALUE has the row's columns and OPERATION. Both are NULL for a tombstone, unless it `takes_tombstones`.
    columns: those of the rows in JSON. None: the events are Avro, and the rows have the columns of their schema.
    Raises FormatError, RegistryFailed.
    """
    schema = None
    if columns is None:
        assert coding is not None
        schema = _reader_schema(AVRO_FORMAT, coding)
        columns = envelope_columns(schema)
    codec = _DebeziumCodec(columns.json(), zone, coding, schema, takes_tombstones)
    # Wrong types are told on the driver.
    codec.decoder()
    found = [*nullable(columns).fields, types.StructField(OPERATION, types.StringType())]
    return _decoding_column([values, keys], codec, types.StructType(found))


def _decoding_column(inputs: list[Column], codec: _AnyCodec, columns: types.StructType) -> Column:
    """Return the decoded column. inputs: the values and, for change events, the keys."""
    told = types.StructType([types.StructField(VALUE, columns), types.StructField(ERROR, types.StringType())])

    def decode(batch: pa.Array) -> pa.Array:
        return _decoded((batch,), codec, to_arrow_type(told, timezone="UTC"))

    def decode_keyed(batch: pa.Array, keys: pa.Array) -> pa.Array:
        return _decoded((batch, keys), codec, to_arrow_type(told, timezone="UTC"))

    # Nondeterministic, or Spark would push a filter on its error below it, and decode every value twice.
    decoding = sql.arrow_udf(decode if len(inputs) == 1 else decode_keyed, told).asNondeterministic()
    column: Column = decoding(*inputs)
    return column


def encoded_column(
    rows: DataFrame, names: list[str], value_format: str, coding: ValueCoding, deleted: Column | None
) -> Column:
    """Return the bytes of the rows' columns, NULL for those that are deleted.

    Raises FormatError: columns that do not fit the schema. RegistryFailed.
    """
    schema = _writer_schema(value_format, coding)
    codec = _Codec(value_format, coding, schema)
    fitted = _fitted(rows, names, codec)

    def encode(batch: pa.Array) -> pa.Array:
        encoder = _encoder(codec)
        rows = batch.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if row is None else encoder.encode(row) for row in rows], pa.binary())

    whole = sql.struct(*fitted)
    # A deleted row has NULL where the schema may allow none.
    given = whole if deleted is None else sql.when(~deleted, whole)
    column: Column = sql.arrow_udf(encode, types.BinaryType())(given)
    return column


def framed_json_column(rows: DataFrame, names: list[str], texts: Column, coding: ValueCoding, title: str) -> Column:
    """Return the bytes of JSON texts, which are objects of these columns, each in Confluent's frame.

    title: that of the schema which is made of the columns, if no file has one. Raises FormatError, RegistryFailed.
    """
    if coding.schema_file is not None:
        schema = json_file(coding.schema_file)
        validator(schema.text)
    else:
        schema = SchemaText(json_schema(types.StructType([rows.schema[name] for name in names]), title))
    if coding.registry is None:
        schema = schema._replace(schema_id=coding.schema_id)
    else:
        assert coding.subject is not None
        schema = registry_at(coding.registry).register(coding.subject, schema, JSON)
    validates = coding.schema_file is not None

    def encode(batch: pa.Array) -> pa.Array:
        encoder = _json_encoder(schema, validates)
        return pa.array([None if text is None else encoder.encode(text) for text in batch.to_pylist()], pa.binary())

    column: Column = sql.arrow_udf(encode, types.BinaryType())(texts)
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


def _decoded(inputs: tuple[pa.Array, ...], codec: _AnyCodec, told: pa.StructType) -> pa.Array:
    """Return VALUE and ERROR for each value, which is the first input. Raises RegistryFailed."""
    decoder = _decoder(codec)
    rows: list[dict[str, Any]] = []
    for given in zip(*(each.to_pylist() for each in inputs), strict=True):
        row: dict[str, Any] = {VALUE: None, ERROR: None}
        try:
            if isinstance(decoder, DebeziumDecoder):
                row[VALUE] = decoder.decode(*given)
            elif given[0] is not None:
                row[VALUE] = decoder.decode(given[0])
            elif isinstance(decoder, _JsonDecoder):
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
def _decoder(codec: _AnyCodec) -> AvroDecoder | ProtobufDecoder | _JsonDecoder | DebeziumDecoder:
    if not isinstance(codec, _Codec):
        return codec.decoder()
    coding = codec.coding
    registry = _registry(coding)
    if codec.format == AVRO_FORMAT:
        return AvroDecoder(codec.schema, registry, is_framed=coding.is_framed)
    return ProtobufDecoder(codec.schema, coding.message, registry, is_framed=coding.is_framed)


@functools.cache
def _encoder(codec: _Codec) -> AvroEncoder | ProtobufEncoder:
    if codec.format == AVRO_FORMAT:
        return AvroEncoder(codec.schema, is_framed=codec.coding.is_framed)
    return ProtobufEncoder(codec.schema, codec.coding.message, is_framed=codec.coding.is_framed)


@functools.cache
def _json_encoder(schema: SchemaText, validates: bool) -> FramedJsonEncoder:
    return FramedJsonEncoder(schema, validates=validates)


def _registry(coding: ValueCoding) -> SchemaRegistry | None:
    return None if coding.registry is None else registry_at(coding.registry)


def _frames(coding: ValueCoding | None) -> JsonFrames | None:
    return None if coding is None else JsonFrames(_registry(coding))
