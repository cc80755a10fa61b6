"""The columns of the source, which are those of Spark's Kafka source, and the choice among them.

Used by `source` and the readers on driver and executors; constants and pure functions, no lock.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas_spark.options.option_values import OptionError

HEADERS = "headers"
HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMN_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: HEADERS_TYPE,
}


def default_schema(include_headers: bool) -> StructType:
    """Return all columns, the headers only if they are included."""
    return StructType(
        [StructField(name, kind) for name, kind in COLUMN_TYPES.items() if include_headers or name != HEADERS]
    )


def checked_columns(schema: StructType) -> list[str]:
    """Return the names of the columns that a query reads. Raises OptionError for an unknown name or another type.

    Reading fewer columns gives up to twice the speed. Spark names them to a Python source only by an explicit schema.
    """
    for field in schema.fields:
        kind = COLUMN_TYPES.get(field.name)
        if kind is None:
            raise OptionError(f"the schema asks for column {field.name!r}; the source has {', '.join(COLUMN_TYPES)}")
        if field.dataType != kind:
            raise OptionError(
                f"the schema gives column {field.name!r} the type {field.dataType.simpleString()};"
                f" it is {kind.simpleString()}: read it so, and cast it afterwards"
            )
    return list(schema.fieldNames())
