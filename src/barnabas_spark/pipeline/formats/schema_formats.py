"""The formats whose values cannot be read without a schema: Avro and Protobuf. `avro` and `protobuf` have the codecs.

Threads: see `value_format`; no lock.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas_spark.pipeline.entry import Entry
from barnabas_spark.pipeline.formats.schemas import SchemaText, json_file, registry_of, with_id
from barnabas_spark.pipeline.formats.value_format import (
    CODED_KEYS,
    CODED_SINK_KEYS,
    ValueCoding,
    WrittenFormat,
    schema_file_of,
    subject_of,
)
from barnabas_spark.pipeline.pipeline_error import FormatError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from barnabas_spark.pipeline.formats.coded_columns import SchemaCodec


class SchemaFormat(WrittenFormat):
    """A format with a schema, which a file or the registry has."""

    KEYS, SINK_KEYS = CODED_KEYS, CODED_SINK_KEYS

    coding: ValueCoding

    def __init__(self, entry: Entry) -> None:
        keys = entry.keys
        is_framed = keys.get("framing", "confluent") == "confluent"
        registry = entry.registry() if is_framed else None
        file, subject = schema_file_of(entry), subject_of(entry)
        if registry is None:
            told = "without a registry" if is_framed else "with framing: none"
            entry.refuse(told, ("subject",) if is_framed else ("subject", "schema_id"))
            if file is None:
                entry.note(f"{entry.where} needs 'schema_file', or 'registry' at the top")
        else:
            entry.refuse("with a registry, which gives the id", ("schema_id",))
            if file is None and subject is None:
                entry.note(
                    f"{entry.where} needs 'subject', the schema's name in the registry: there are several topics"
                )
        self.coding = ValueCoding(file, keys.get("message"), subject, registry, is_framed, keys.get("schema_id"))

    @abstractmethod
    def file_schema(self, path: str) -> SchemaText:
        """Return the schema of a file. Raises FormatError."""

    @abstractmethod
    def codec(self, schema: SchemaText) -> SchemaCodec:
        """Return how values of the schema are read and written. Raises FormatError."""

    def reader_schema(self) -> SchemaText:
        """Return the schema whose fields are the columns. Raises FormatError, RegistryFailed."""
        coding = self.coding
        if coding.schema_file is not None:
            return self.file_schema(coding.schema_file)
        registry = registry_of(coding)
        assert registry is not None
        assert coding.subject is not None
        return registry.latest(coding.subject, self.NAME.upper())

    def _writer_schema(self) -> SchemaText:
        """Return the schema to write by, with its id if values are framed. Raises FormatError, RegistryFailed."""
        schema, coding = self.reader_schema(), self.coding
        if coding.schema_file is None:
            return schema
        if coding.registry is not None:
            if schema.references:
                raise FormatError(
                    f"{coding.schema_file} imports files: register them yourself, and leave 'schema_file' out, so that"
                    " the registry's newest schema is taken"
                )
            # Wrong schemas are told before they are registered for good.
            self.codec(schema)
        return with_id(schema, coding, self.NAME.upper())

    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with the fields of the schema."""
        from barnabas_spark.pipeline.formats.coded_columns import decoded  # noqa: PLC0415 - needs Spark

        codec = self.codec(self.reader_schema())
        return decoded(records, codec.columns, codec.decoder)

    def write(self, rows: DataFrame, names: Sequence[str], deleted: Column | None) -> Column:
        """Return the values, NULL for rows that are deleted."""
        from barnabas_spark.pipeline.formats.coded_columns import encoded_rows  # noqa: PLC0415 - needs Spark

        return encoded_rows(rows, names, self.codec(self._writer_schema()), deleted)


class AvroFormat(SchemaFormat):
    """Avro."""

    NAME = "avro"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        entry.refuse("of format avro", ("message",))

    def file_schema(self, path: str) -> SchemaText:
        """Return the schema of an .avsc file."""
        return json_file(path)

    def codec(self, schema: SchemaText) -> SchemaCodec:
        """Return how the fields of a record are read and written."""
        from barnabas_spark.pipeline.formats.avro import avro_codec  # noqa: PLC0415 - needs Spark and fastavro

        return avro_codec(schema, self.coding)


class ProtobufFormat(SchemaFormat):
    """Protobuf."""

    NAME = "protobuf"

    def file_schema(self, path: str) -> SchemaText:
        """Return the file of a descriptor set that has the message."""
        from barnabas_spark.pipeline.formats.protobuf import protobuf_file  # noqa: PLC0415 - needs Spark and protobuf

        return protobuf_file(path, self.coding.message)

    def codec(self, schema: SchemaText) -> SchemaCodec:
        """Return how the fields of the message are read and written."""
        from barnabas_spark.pipeline.formats.protobuf import protobuf_codec  # noqa: PLC0415 - as above

        return protobuf_codec(schema, self.coding)
