"""Columns that are decoded from values, or encoded into them, in Python.

Called by the formats on the driver, which reads the schema and so knows the columns. What is returned runs in the
executors' Python workers, on Arrow batches; each worker makes a decoder or an encoder once. No lock.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type

from barnabas_spark.pipeline.formats.value_format import DECODED, ERROR
from barnabas_spark.pipeline.pipeline_error import BadValue, FormatError

_VALUE, _ERROR = "value", "error"
"""The fields of a decoded column: the value's columns, or why there are none."""


class SchemaCodec(NamedTuple):
    """How values of one schema are read and written."""

    columns: types.StructType
    """The schema's fields."""
    required: set[str]
    """The fields that a row may not lack."""
    decoder: partial[Any]
    encoder: partial[Any]


def decoded(
    records: DataFrame,
    columns: types.StructType,
    decoder: partial[Any],
    inputs: Sequence[str] = ("value",),
    *,
    takes_nulls: bool = False,
) -> DataFrame:
    """Return the records with DECODED, which has these columns, and ERROR. Raises FormatError.

    decoder: makes what has `decode`, in the executors; its arguments are hashable. inputs: what `decode` gets.
    takes_nulls: whether it gets NULLs too, which otherwise stay NULL.
    """
    # Wrong types are told on the driver.
    decoder()
    told = types.StructType(
        [types.StructField(_VALUE, nullable(columns)), types.StructField(_ERROR, types.StringType())]
    )

    def decode(*batches: pa.Array) -> pa.Array:
        return _decoded(batches, decoder, takes_nulls, to_arrow_type(told, timezone="UTC"))

    # Nondeterministic, or Spark would push a filter on its error below it, and decode every value twice.
    decoding = sql.arrow_udf(decode, told).asNondeterministic()
    return records.select("*", decoding(*inputs).alias(DECODED)).select(
        *records.columns,
        sql.col(f"{DECODED}.{_VALUE}").alias(DECODED),
        sql.col(f"{DECODED}.{_ERROR}").alias(ERROR),
    )


def encoded(values: Column, encoder: partial[Any], deleted: Column | None) -> Column:
    """Return bytes, NULL for rows that are deleted, whose values may be such as no encoder allows."""

    def encode(batch: pa.Array) -> pa.Array:
        encode_one = _made(encoder.func, *encoder.args, **encoder.keywords).encode
        found = batch.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if value is None else encode_one(value) for value in found], pa.binary())

    column: Column = sql.arrow_udf(encode, types.BinaryType())(
        values if deleted is None else sql.when(~deleted, values)
    )
    return column


def encoded_rows(rows: DataFrame, names: Sequence[str], codec: SchemaCodec, deleted: Column | None) -> Column:
    """Return the bytes of these columns, cast to the schema's types. Raises FormatError: they do not fit the schema."""
    fields = {field.name: field.dataType for field in codec.columns.fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise FormatError(f"the schema has no field {unknown[0]!r}; it has {', '.join(fields)}")
    missing = sorted(codec.required - {*names})
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
    return encoded(sql.struct(*found), codec.encoder, deleted)


# -- types

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


def nullable(kind: Any) -> Any:
    """Return a type whose fields may all be NULL, as those of a value are that could not be decoded."""
    if isinstance(kind, types.StructType):
        return types.StructType([types.StructField(each.name, nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(nullable(kind.elementType))
    return types.MapType(kind.keyType, nullable(kind.valueType)) if isinstance(kind, types.MapType) else kind


def zone_of(records: DataFrame) -> str:
    """Return the session's time zone, that of timestamps which name none."""
    return records.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"


# -- in the executors


def _decoded(inputs: Sequence[pa.Array], decoder: partial[Any], takes_nulls: bool, told: pa.StructType) -> pa.Array:
    """Return value and error for each value, which is the first input. Raises RegistryFailed."""
    decode = _made(decoder.func, *decoder.args, **decoder.keywords).decode
    rows: list[dict[str, Any]] = []
    for given in zip(*(each.to_pylist() for each in inputs), strict=True):
        row: dict[str, Any] = {_VALUE: None, _ERROR: None}
        try:
            if takes_nulls or given[0] is not None:
                row[_VALUE] = decode(*given)
        except BadValue as error:
            row[_ERROR] = str(error)
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
        return {_VALUE: None, _ERROR: f"the value does not fit the columns: {error}"}
    return row


@functools.lru_cache(maxsize=None, typed=True)
def _made(make: Any, *arguments: Any, **options: Any) -> Any:
    """Return this worker's decoder or encoder."""
    return make(*arguments, **options)
