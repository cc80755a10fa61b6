"""Change events of Debezium, in JSON or in Avro, which sources alone have. `debezium` has the codec.

Threads: see `value_format`; no lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from barnabas_spark.pipeline.entry import Entry, Keys, choice
from barnabas_spark.pipeline.formats.json_format import JsonFormat
from barnabas_spark.pipeline.formats.schema_formats import AvroFormat
from barnabas_spark.pipeline.formats.value_format import ValueFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DebeziumFormat(ValueFormat):
    """Change events. Rows have what happened to them in the column OPERATION."""

    NAME = "debezium"
    ABOUT = "debezium has the rows of change events, and what happened to each in the column _operation."
    KEYS = JsonFormat.KEYS
    SOURCE_KEYS: ClassVar[Keys] = {
        **JsonFormat.SOURCE_KEYS,
        "encoding": choice(
            ("json", "avro"), "Debezium: what the change events are written in. json (the default) needs a schema."
        ),
        "tombstones": choice(
            ("drop", "delete"),
            "Debezium: whether a record without a value is dropped, because a delete event stands before it, or deletes"
            " its key. delete is for topics that are compacted, where the delete event may be gone.",
        ),
    }
    has_operations = True
    fields_behind = 1

    def __init__(self, entry: Entry) -> None:
        entry.refuse("of format debezium, which is always strict", ("strict",))
        self.events: JsonFormat | AvroFormat
        """What the events are written in."""
        if entry.keys.get("encoding", JsonFormat.NAME) == JsonFormat.NAME:
            self.events = JsonFormat(entry, "rows")
        else:
            entry.refuse("of Avro, whose schema has the columns", ("schema",))
            self.events = AvroFormat(entry)
            # Keys in Avro are no texts.
            self.keys_are_text = False
        self.coding = self.events.coding
        self.tombstones = entry.keys.get("tombstones")

    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with the columns of the rows, and the operation.

        DECODED and ERROR are both NULL for a tombstone, unless it deletes.
        """
        from barnabas_spark.pipeline.formats.coded_columns import decoded, zone_of  # noqa: PLC0415 - Spark
        from barnabas_spark.pipeline.formats.debezium import (  # noqa: PLC0415 - needs Spark
            debezium_decoder,
            envelope_columns,
            with_operation,
        )

        if isinstance(self.events, JsonFormat):
            schema, columns = None, self.events.columns()
        else:
            schema = self.events.reader_schema()
            columns = envelope_columns(schema)
        takes_tombstones = self.tombstones == "delete"
        decoder = partial(debezium_decoder, columns, zone_of(records), self.coding, schema, takes_tombstones)
        return decoded(records, with_operation(columns), decoder, ("value", "key"), takes_nulls=True)
