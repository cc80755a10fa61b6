"""JSON, bare or in Confluent's frame: read strictly, or as Spark's `from_json` does. `framed_json` has the codecs.

Threads: see `value_format`; no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas_spark.pipeline.entry import SCHEMA, Entry, Keys
from barnabas_spark.pipeline.formats.value_format import (
    CODED_KEYS,
    CODED_SINK_KEYS,
    DECODED,
    ERROR,
    ValueCoding,
    WrittenFormat,
    schema_file_of,
    subject_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, types

_CORRUPT = "_barnabas_corrupt"
_WRITTEN = {
    "ignoreNullFields": "false",
    # Spark's own patterns end with milliseconds. Three X are the zone, with a colon.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS" + 3 * "X",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class JsonFormat(WrittenFormat):
    """JSON."""

    NAME = "json"
    KEYS, SINK_KEYS = CODED_KEYS, CODED_SINK_KEYS
    SOURCE_KEYS: ClassVar[Keys] = {
        "schema": SCHEMA,
        "strict": {
            "type": "boolean",
            "description": "JSON: whether values that do not fit their columns without a loss are bad records (the"
            " default). false reads them as Spark's from_json does.",
        },
    }

    def __init__(self, entry: Entry, what: str = "JSON") -> None:
        keys = entry.keys
        self.schema: str = keys.get("schema", "")
        self.is_strict = keys.get("strict", True)
        # Spark's own `from_json` has one field more.
        self.fields_behind = 0 if self.is_strict else 1
        self.title: str = keys.get("topic", "")
        """The title of the JSON schema that is made if no file has one."""
        if entry.section == "sources" and not self.schema:
            entry.note(f"{entry.where} needs 'schema', the columns of its {what}, such as 'id BIGINT, at TIMESTAMP'")
        if keys.get("framing", "none") == "none":
            entry.refuse("of format json without 'framing: confluent'", {*CODED_KEYS, *CODED_SINK_KEYS} - {"framing"})
        else:
            self.coding = self._framed(entry)

    @staticmethod
    def _framed(entry: Entry) -> ValueCoding:
        keys, registry = entry.keys, entry.registry()
        entry.refuse("of format json", ("message",))
        if entry.section == "sources":
            entry.refuse("of format json, whose columns are in 'schema'", ("schema_file", "subject"))
            if not keys.get("strict", True):
                entry.note("JSON in a frame is always read strictly", "strict")
            return ValueCoding(None, None, None, registry, True, None)
        if registry is None:
            entry.refuse("without a registry", ("subject",))
        else:
            entry.refuse("with a registry, which gives the id", ("schema_id",))
        return ValueCoding(schema_file_of(entry), None, subject_of(entry), registry, True, keys.get("schema_id"))

    def columns(self) -> types.StructType:
        """Return a source's columns. Raises Spark's ParseException."""
        from pyspark.sql import types  # noqa: PLC0415 - see `value_format`

        # One column more, as for `from_json`: a lone type such as INT is no list of columns.
        parsed: Any = types.DataType.fromDDL(f"{self.schema}, {_CORRUPT} STRING")
        return types.StructType(parsed.fields[:-1])

    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with the columns of the file's schema."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see `value_format`

        if self.is_strict:
            from barnabas_spark.pipeline.formats.coded_columns import decoded, zone_of  # noqa: PLC0415 - needs Spark
            from barnabas_spark.pipeline.formats.framed_json import JsonDecoder, frames_of  # noqa: PLC0415 - needs Spark

            columns = self.columns()
            decoder = partial(JsonDecoder, columns, zone_of(records), frames_of(self.coding))
            return decoded(records, columns, decoder, takes_nulls=True)
        value = sql.col("value")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        found = sql.from_json(value.cast("string"), f"{self.schema}, {_CORRUPT} STRING", options)
        # A NULL value, a tombstone, is no error here.
        is_bad = value.isNotNull() & (sql.col(DECODED).isNull() | sql.col(f"{DECODED}.{_CORRUPT}").isNotNull())
        told = sql.when(is_bad, sql.lit("the value is no JSON of the schema"))
        return records.select("*", found.alias(DECODED)).select("*", told.alias(ERROR))

    def write(self, rows: DataFrame, names: Sequence[str], deleted: Column | None) -> Column:
        """Return JSON objects; those in a frame are NULL for rows that are deleted."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see `value_format`

        value = sql.to_json(sql.struct(*[sql.col(f"`{name}`") for name in names]), _WRITTEN)
        if self.coding is None:
            return value
        from barnabas_spark.pipeline.formats.coded_columns import encoded  # noqa: PLC0415 - needs Spark
        from barnabas_spark.pipeline.formats.framed_json import framed_json_encoder  # noqa: PLC0415 - needs Spark

        return encoded(value, framed_json_encoder(self.coding, rows, names, self.title), deleted)
