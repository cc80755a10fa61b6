"""Decodes and encodes Avro values, framed or not.

Made in the executors' Python workers, by `coded_columns`, once for a column; used by the worker's one thread, no lock.
"""

from __future__ import annotations

import io
from typing import Any

import fastavro

from barnabas_spark.pipeline.coding.avro_schema import AvroSchema
from barnabas_spark.pipeline.coding.coding_errors import BadValue, FormatError
from barnabas_spark.pipeline.coding.confluent_frame import framed, unframed
from barnabas_spark.pipeline.coding.schema_registry import AVRO, SchemaRegistry
from barnabas_spark.pipeline.coding.schema_text import SchemaText
from barnabas_spark.pipeline.coding.writer_schemas import WriterSchemas


class AvroDecoder:
    """A reader of values. Those of other versions of the schema are resolved by Avro's rules, if there is a registry.

    Without a registry every value is taken as one of the reader's schema.
    """

    def __init__(self, reader: SchemaText, registry: SchemaRegistry | None, *, is_framed: bool) -> None:
        self._reader = AvroSchema(reader).parsed
        self._is_framed = is_framed
        self._writers = WriterSchemas(self._reader, registry, AVRO, lambda text: AvroSchema(text).parsed)

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return a value's fields. Raises BadValue, RegistryFailed."""
        writer = self._reader
        body = value
        if self._is_framed:
            schema_id, body = unframed(value)
            writer = self._writers.of(schema_id)
        stream = io.BytesIO(body)
        try:
            decoded = fastavro.schemaless_reader(stream, writer, self._reader)
        except Exception as error:
            raise BadValue(f"the value is no Avro of the schema: {type(error).__name__} {error}".rstrip()) from error
        if stream.tell() != len(body):
            raise BadValue(f"the value is no Avro of the schema: {len(body) - stream.tell()} bytes are left")
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
