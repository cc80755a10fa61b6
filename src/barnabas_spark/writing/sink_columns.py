"""Checks that a DataFrame can be written to topics, before any task runs. Pure; called by the writers on the driver."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, DataType, IntegerType, NullType, StringType, StructType

from barnabas_spark.columns import HEADERS, HEADERS_TYPE
from barnabas_spark.options.option_values import OptionError
from barnabas_spark.options.sink_options import SinkOptions

_TEXT_OR_BYTES: tuple[type[DataType], ...] = (StringType, BinaryType)


def check_sink_schema(schema: StructType, options: SinkOptions) -> None:
    """Check names and types. Columns that the sink does not know are not written. Raises OptionError."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise OptionError(f"column 'value' is missing; the columns are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise OptionError("no topic: set option 'topic', or give the rows a column 'topic' of type string")
    _check(types, "key", (*_TEXT_OR_BYTES, NullType), "string or binary")
    _check(types, "value", (*_TEXT_OR_BYTES, NullType), "string or binary")
    _check(types, "partition", (IntegerType,), "int")
    if options.topic is None:
        _check(types, "topic", (StringType,), "string")
    if HEADERS in types and options.include_headers and not _is_headers(types[HEADERS]):
        raise OptionError(
            f"column 'headers' is {types[HEADERS].simpleString()}; it must be {HEADERS_TYPE.simpleString()}"
        )


def _check(types: dict[str, DataType], name: str, allowed: tuple[type[DataType], ...], right: str) -> None:
    """Check one column. Raises OptionError."""
    if name in types and not isinstance(types[name], allowed):
        raise OptionError(f"column {name!r} is {types[name].simpleString()}; it must be {right}: cast it")


def _is_headers(kind: DataType) -> bool:
    # The texts are compared, because they have the names and types but not whether parts may be NULL.
    return bool(kind.simpleString() == HEADERS_TYPE.simpleString())
