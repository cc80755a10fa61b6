"""JSON values in the frame of Confluent's serializers: a zero byte, the id of a JSON schema, and the JSON.

`json_schema` is called by `coded_columns` on the driver, which registers what it returns; the classes are made in the
executors' Python workers, once for a column. No lock. The schema of what Spark writes is closed, and each column may be
null: so a column that is added later is a change that registries take for compatible.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import types

from barnabas_spark.pipeline.coding.confluent_frame import framed, unframed
from barnabas_spark.pipeline.coding.schema_registry import JSON, SchemaRegistry
from barnabas_spark.pipeline.coding.schema_text import FormatError, SchemaText

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PLAIN: dict[type[types.DataType], dict[str, Any]] = {
    types.BooleanType: {"type": "boolean"},
    types.ByteType: {"type": "integer"},
    types.ShortType: {"type": "integer"},
    types.IntegerType: {"type": "integer"},
    types.LongType: {"type": "integer"},
    types.DecimalType: {"type": "number"},
    types.StringType: {"type": "string"},
    types.BinaryType: {"type": "string", "contentEncoding": "base64"},
    types.DateType: {"type": "string", "format": "date"},
    types.TimestampType: {"type": "string", "format": "date-time"},
    types.TimestampNTZType: {"type": "string"},
}
_FLOAT = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
"""What Spark writes for a FLOAT or DOUBLE."""


class JsonFrames:
    """What takes frames away. With a registry, the schema of each frame must be one of JSON's."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry

    def body(self, value: bytes) -> bytes:
        """Return the JSON in a value. Raises BadValue, RegistryFailed."""
        schema_id, body = unframed(value)
        if self._registry is not None:
            self._registry.by_id(schema_id, JSON)
        return body


class FramedJsonEncoder:
    """A writer of frames around JSON texts. validates: whether the texts may not be of the schema."""

    def __init__(self, schema: SchemaText, *, validates: bool) -> None:
        assert schema.schema_id is not None
        self._schema_id = schema.schema_id
        self._validator = validator(schema.text) if validates else None

    def encode(self, text: str) -> bytes:
        """Return a value. Raises FormatError: the JSON is not of the schema."""
        if self._validator is not None:
            error = next(self._validator.iter_errors(json.loads(text)), None)
            if error is not None:
                raise FormatError(f"a row cannot be written as JSON of the schema: {error.json_path}: {error.message}")
        return framed(self._schema_id, text.encode())


def validator(text: str) -> Any:
    """Return what checks values by a JSON schema, of the draft that it names. Raises FormatError: it is none."""
    import jsonschema  # noqa: PLC0415 - workers seldom need it

    try:
        schema = json.loads(text)
        found = jsonschema.validators.validator_for(schema, jsonschema.Draft7Validator)
        found.check_schema(schema)
    except (ValueError, TypeError, AttributeError, jsonschema.SchemaError) as error:
        told = error.message if isinstance(error, jsonschema.SchemaError) else error
        raise FormatError(f"the JSON schema is wrong: {told}") from error
    return found(schema)


def json_schema(columns: types.StructType, title: str) -> str:
    """Return the JSON schema of the objects that Spark writes for these columns."""
    return json.dumps({"$schema": _DRAFT, "title": title, **_object(columns)})


def _object(columns: types.StructType) -> dict[str, Any]:
    properties = {field.name: _nullable(field.dataType) for field in columns.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _nullable(kind: types.DataType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _schema(kind)]}


def _schema(kind: types.DataType) -> dict[str, Any]:
    """Return the schema of values that are not null."""
    if isinstance(kind, types.StructType):
        return _object(kind)
    if isinstance(kind, types.ArrayType):
        return {"type": "array", "items": _nullable(kind.elementType)}
    if isinstance(kind, types.MapType):
        return {"type": "object", "additionalProperties": _nullable(kind.valueType)}
    if isinstance(kind, (types.FloatType, types.DoubleType)):
        return _FLOAT
    # Anything but null, for types such as VARIANT.
    return _PLAIN.get(type(kind), {"not": {"type": "null"}})
