"""Avro schemas: parsed, and as columns of Spark.

Called on the driver and in the executors' Python workers; no state, no lock. Types of Avro that Spark has no match for
keep what is stored: times of day and durations their numbers or bytes, UUIDs their text.
"""

from __future__ import annotations

import json
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from pyspark.sql import types

from barnabas_spark.pipeline.coding.coding_errors import FormatError
from barnabas_spark.pipeline.coding.schema_text import SchemaText

_PLAIN: dict[str, types.DataType] = {
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
_LOGICAL: dict[str, types.DataType] = {
    "date": types.DateType(),
    "timestamp-millis": types.TimestampType(),
    "timestamp-micros": types.TimestampType(),
    "local-timestamp-millis": types.TimestampNTZType(),
    "local-timestamp-micros": types.TimestampNTZType(),
}
_DECIMAL = "decimal"
_LARGEST_PRECISION = 38


class AvroSchema:
    """A parsed schema, whose outermost type is a record. Raises FormatError."""

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

    def optional_fields(self) -> set[str]:
        """Return the fields that have a default, so that rows may lack them."""
        return {field["name"] for field in self.parsed["fields"] if "default" in field}

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
            if schema in _PLAIN:
                return _PLAIN[schema]
            return self._type(self._named[schema], above) if schema in self._named else self._refused(schema)
        kind = schema["type"]
        logical = schema.get("logicalType")
        if logical == _DECIMAL:
            return types.DecimalType(schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL:
            return _LOGICAL[logical]
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
        return _PLAIN[kind] if isinstance(kind, str) and kind in _PLAIN else self._type(kind, above)

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
    if logical is not None and not is_decimal and logical not in _LOGICAL:
        del read["logicalType"]
    return read
