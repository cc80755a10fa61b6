"""The columns of a query as Iceberg's, and whether they fit a table that is there.

Called by `iceberg_table` on the driver; no state, no lock. Promotions are those of the Iceberg specification.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyspark.sql import types as spark

from barnabas_spark.pipeline.pipeline_error import IcebergError

_PLAIN: dict[type[spark.DataType], iceberg.IcebergType] = {
    spark.BooleanType: iceberg.BooleanType(),
    spark.ByteType: iceberg.IntegerType(),
    spark.ShortType: iceberg.IntegerType(),
    spark.IntegerType: iceberg.IntegerType(),
    spark.LongType: iceberg.LongType(),
    spark.FloatType: iceberg.FloatType(),
    spark.DoubleType: iceberg.DoubleType(),
    spark.StringType: iceberg.StringType(),
    spark.BinaryType: iceberg.BinaryType(),
    spark.DateType: iceberg.DateType(),
    spark.TimestampType: iceberg.TimestamptzType(),
    spark.TimestampNTZType: iceberg.TimestampType(),
}
_PROMOTIONS = {("int", "long"), ("float", "double")}


def iceberg_schema(columns: spark.StructType) -> Schema:
    """Return the schema of a table for these columns, all optional. Raises IcebergError for a type without a like."""
    return Schema(*_fields(columns, "", itertools.count(1)))


def misfits(columns: Schema, table: Schema) -> list[str]:
    """Return in words why rows of these columns cannot be written to a table; an empty list if they can."""
    return list(_misfits(columns.as_struct(), table.as_struct(), ""))


def _fields(columns: spark.StructType, above: str, ids: Iterator[int]) -> list[iceberg.NestedField]:
    return [
        iceberg.NestedField(next(ids), field.name, _type(field.dataType, f"{above}{field.name}", ids), required=False)
        for field in columns.fields
    ]


def _type(found: spark.DataType, path: str, ids: Iterator[int]) -> iceberg.IcebergType:
    if isinstance(found, spark.StructType):
        return iceberg.StructType(*_fields(found, f"{path}.", ids))
    if isinstance(found, spark.ArrayType):
        element = _type(found.elementType, f"{path}.element", ids)
        return iceberg.ListType(next(ids), element, element_required=False)
    if isinstance(found, spark.MapType):
        key, value = _type(found.keyType, f"{path}.key", ids), _type(found.valueType, f"{path}.value", ids)
        return iceberg.MapType(next(ids), key, next(ids), value, value_required=False)
    if isinstance(found, spark.DecimalType):
        return iceberg.DecimalType(found.precision, found.scale)
    plain = _PLAIN.get(type(found))
    if plain is None:
        raise IcebergError(f"column {path!r} is {found.simpleString()}, which Iceberg tables cannot have: cast it")
    return plain


def _misfits(rows: iceberg.StructType, table: iceberg.StructType, above: str) -> Iterator[str]:
    there = {field.name: field for field in table.fields}
    given = {field.name: field for field in rows.fields}
    for name, field in given.items():
        if name not in there:
            yield f"the table has no column {above + name!r}"
        else:
            yield from _type_misfits(field.field_type, there[name].field_type, above + name)
    for name, field in there.items():
        if field.required and name not in given:
            yield f"the table's column {above + name!r} must have a value, and the rows do not have it"


def _type_misfits(rows: iceberg.IcebergType, table: iceberg.IcebergType, path: str) -> Iterator[str]:
    if isinstance(rows, iceberg.StructType) and isinstance(table, iceberg.StructType):
        yield from _misfits(rows, table, f"{path}.")
    elif isinstance(rows, iceberg.ListType) and isinstance(table, iceberg.ListType):
        yield from _type_misfits(rows.element_type, table.element_type, f"{path}.element")
    elif isinstance(rows, iceberg.MapType) and isinstance(table, iceberg.MapType):
        yield from _type_misfits(rows.key_type, table.key_type, f"{path}.key")
        yield from _type_misfits(rows.value_type, table.value_type, f"{path}.value")
    elif isinstance(rows, iceberg.DecimalType) and isinstance(table, iceberg.DecimalType):
        if rows.scale != table.scale or rows.precision > table.precision:
            yield f"column {path!r} is {table} in the table, and {rows} in the rows"
    elif rows != table and (str(rows), str(table)) not in _PROMOTIONS:
        yield f"column {path!r} is {table} in the table, and {rows} in the rows"
