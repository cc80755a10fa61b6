"""What the values of a topic's records are: a format makes columns of them, or values of columns; raw and text.

A format is a subclass, with a line in `table.FORMATS`. It is made of an entry while a file is read, and asked for
columns on the driver's main thread while a pipeline is planned. What it returns runs in the executors. No lock. Spark
is imported where it is used, because a file is read in a third of the time without.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from barnabas_spark.pipeline.entry import Entry, Keys, RegistryAddress, choice, text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECODED, ERROR = "_barnabas_decoded", "_barnabas_error"
"""The columns that `read` adds to records: a struct of the value's columns, and why there is none."""
OPERATION = "_operation"
"""The column that says what happened to a row."""
DELETE = "delete"
OPERATIONS = {"c": "create", "u": "update", "d": DELETE, "r": "read"}
"""What it says, by the codes of change events."""

CODED_KEYS: Keys = {
    "schema_file": text(
        "Avro: an .avsc file. Protobuf: a descriptor set of protoc's. Without it the registry's newest schema is taken."
        " JSON that is written in a frame: a JSON schema; without it one is made of the columns."
    ),
    "message": text("Protobuf: the full name of the message. The default is the first of the file."),
    "subject": text("The schema's name in the registry. The default is TOPIC-value."),
    "framing": choice(
        ("confluent", "none"),
        "confluent (the default of Avro and Protobuf) has a zero byte and the schema's id before each value; none (the"
        " default of JSON) has the bare value.",
    ),
}
"""The keys of the formats whose values may have schemas and frames."""
CODED_SINK_KEYS: Keys = {
    "schema_id": {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**31 - 1,
        "description": "The schema's id to write, if there is a schema_file and no registry.",
    },
}


class ValueCoding(NamedTuple):
    """Where the schema of values is, and whether a frame with its id precedes each value."""

    schema_file: str | None
    message: str | None
    """Protobuf: the full name of the message. None: the first of the file."""
    subject: str | None
    """The registry's name for the schema. None: that of the topic's values."""
    registry: RegistryAddress | None
    is_framed: bool
    schema_id: int | None
    """A sink without a registry: the id to write."""


class ValueFormat(ABC):
    """The format of a source's or a sink's values. The constructor notes what is wrong with the keys."""

    NAME: ClassVar[str]
    ABOUT: ClassVar[str] = ""
    """What the JSON schema says of it."""
    KEYS: ClassVar[Keys] = {}
    """The keys that not every format has. A key that is here may still be refused, for a reason of the format's own."""
    SOURCE_KEYS: ClassVar[Keys] = {}
    SINK_KEYS: ClassVar[Keys] = {}
    """Further keys, of sources and of sinks."""
    is_one_column: ClassVar[bool] = False
    """Whether there is one column, `value`. Otherwise the fields of DECODED are the columns."""
    has_operations: ClassVar[bool] = False
    """Whether rows have an operation, the field behind the columns, and so may say that others are deleted."""

    coding: ValueCoding | None = None
    """Avro, Protobuf, and JSON in a frame, alone have one."""
    tombstones: str | None = None
    """Change events: drop or delete. None: tombstones are dropped, and the topics must not be compacted."""
    is_strict = True
    """Whether values that do not fit their columns are bad, and keys that are no text."""
    fields_behind = 0
    """How many fields of DECODED are behind the columns, and are none."""
    keys_are_text = True
    """Whether keys are texts, unless the file says so."""

    def __init__(self, entry: Entry) -> None:  # noqa: B027 - not every format has keys
        """Take what the entry says of values, and note what is wrong."""

    @classmethod
    def keys(cls, section: str) -> Keys:
        """Return the keys of sources or of sinks."""
        return {**cls.KEYS, **(cls.SOURCE_KEYS if section == "sources" else cls.SINK_KEYS)}

    @abstractmethod
    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with DECODED and ERROR. Raises FormatError, RegistryFailed, Spark's errors."""


class WrittenFormat(ValueFormat):
    """A format that sinks can have too."""

    @abstractmethod
    def write(self, rows: DataFrame, names: Sequence[str], deleted: Column | None) -> Column:
        """Return the values of these columns; those of rows that are deleted do not count.

        Raises FormatError: the columns do not fit the schema. RegistryFailed.
        """


class TextFormat(WrittenFormat):
    """Texts in UTF-8."""

    NAME = "text"
    ABOUT = "raw and text have one column, value."
    is_one_column = True

    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with their values as texts."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

        value = sql.col("value")
        found = sql.try_validate_utf8(value.cast("string"))
        told = sql.when(value.isNotNull() & found.isNull(), sql.lit("the value is not UTF-8"))
        return records.select("*", found.alias(DECODED), told.alias(ERROR))

    def write(self, rows: DataFrame, names: Sequence[str], deleted: Column | None) -> Column:
        """Return the column `value` as texts."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

        return sql.col("value").cast("string")


class RawFormat(WrittenFormat):
    """Bytes."""

    NAME = "raw"
    is_one_column = True

    def read(self, records: DataFrame) -> DataFrame:
        """Return the records with their values as they are."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

        return records.select("*", sql.col("value").alias(DECODED), sql.lit(None).cast("string").alias(ERROR))

    def write(self, rows: DataFrame, names: Sequence[str], deleted: Column | None) -> Column:
        """Return the column `value`."""
        from pyspark.sql import functions as sql  # noqa: PLC0415 - see above

        return sql.col("value")


def subject_of(entry: Entry) -> str | None:
    """Return the schema's name in the registry, or None: it is not given, and there are several topics."""
    topic: str | None = entry.keys.get("topic")
    default = None if topic is None or "," in topic else f"{topic}-value"
    subject: str | None = entry.keys.get("subject", default)
    return subject


def schema_file_of(entry: Entry) -> str | None:
    """Return the path of a schema, which must be there, or None."""
    if "schema_file" not in entry.keys:
        return None
    file = entry.resolved(entry.keys["schema_file"])
    if not os.path.isfile(file):
        entry.note(f"there is no file {file}", "schema_file")
    return file
