"""The codecs of JSON: `strict_json` decodes it, and a frame of Confluent's may be around it, with a JSON schema's id.

Made by `json_format` on the driver, which registers the schema; the decoders and encoders are made in the executors'
Python workers, once for a column. No lock. The schema of what Spark writes is closed, and each column may be null: so a
column that is added later is a change that registries take for compatible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, types

from barnabas_spark.pipeline.formats.schemas import (
    JSON,
    SchemaRegistry,
    SchemaText,
    framed,
    json_file,
    registry_of,
    unframed,
    with_id,
)
from barnabas_spark.pipeline.formats.strict_json import StrictJsonDecoder
from barnabas_spark.pipeline.formats.value_format import ValueCoding
from barnabas_spark.pipeline.pipeline_error import FormatError

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


class JsonFrames(NamedTuple):
    """What takes frames away. With a registry, the schema of each frame must be one of JSON's."""

    registry: SchemaRegistry | None

    def body(self, value: bytes) -> bytes:
        """Return the JSON in a value. Raises BadValue, RegistryFailed."""
        schema_id, body = unframed(value)
        if self.registry is not None:
            self.registry.by_id(schema_id, JSON)
        return body


def frames_of(coding: ValueCoding | None) -> JsonFrames | None:
    """Return what takes frames away, if there are any."""
    return None if coding is None else JsonFrames(registry_of(coding))


class JsonDecoder:
    """A reader of JSON values, which are in frames if there are any. Raises FormatError."""

    def __init__(self, columns: types.StructType, zone: str, frames: JsonFrames | None) -> None:
        self._decoder = StrictJsonDecoder(columns, zone)
        self._frames = frames

    def decode(self, value: bytes | None) -> dict[str, Any] | None:
        """Return a value's columns. Raises BadValue, RegistryFailed."""
        if value is None:
            self._decoder.check_null()
            return None
        return self._decoder.decode(value if self._frames is None else self._frames.body(value))


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


def framed_json_encoder(
    coding: ValueCoding, rows: DataFrame, names: Sequence[str], title: str
) -> partial[FramedJsonEncoder]:
    """Return what makes the encoder of the schema to write by. Raises FormatError, RegistryFailed.

    title: that of the schema which is made of the columns of these names, if no file has one.
    """
    if coding.schema_file is None:
        schema = SchemaText(json_schema(types.StructType([rows.schema[name] for name in names]), title))
    else:
        schema = json_file(coding.schema_file)
        validator(schema.text)
    return partial(FramedJsonEncoder, with_id(schema, coding, JSON), validates=coding.schema_file is not None)


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
