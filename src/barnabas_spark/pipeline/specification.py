"""What a pipeline file says, as values: sources, transforms, sinks, and how they run.

Made by `pipeline_file`, read by the rest of the package on the driver; immutable, no lock. Each part has the line of
the file that it comes from, for messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

AVAILABLE_NOW = "available-now"
CONTINUOUS = "continuous"

JSON_FORMAT, AVRO_FORMAT, PROTOBUF_FORMAT = "json", "avro", "protobuf"
CODED_FORMATS = (AVRO_FORMAT, PROTOBUF_FORMAT)
"""The formats whose values need a schema to be read."""
DEBEZIUM_FORMAT = "debezium"
"""Change events of Debezium, which are JSON or Avro."""


class RegistryAddress(NamedTuple):
    """A schema registry."""

    url: str
    login: str | None
    """`user:password`, for basic authentication."""


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


class ChangeEvents(NamedTuple):
    """How a source's change events are coded."""

    encoding: str
    """json or avro."""
    tombstones: str | None
    """drop or delete: what a tombstone is. None: it is dropped, and the topics must not be compacted."""


class Watermark(NamedTuple):
    """How late rows may be."""

    column: str
    delay: str


class Source(NamedTuple):
    """One input."""

    name: str
    line: int
    topic: str | None
    pattern: str | None
    parquet: str | None
    is_table: bool
    schema: str | None
    format: str
    """json, text, raw, avro, protobuf or debezium."""
    coding: ValueCoding | None
    """Avro, Protobuf, and JSON in a frame, alone have one."""
    events: ChangeEvents | None
    """Debezium alone has them."""
    is_strict: bool
    """Whether values that do not fit their columns are bad. Otherwise JSON is read as Spark's `from_json` does."""
    key_is_text: bool
    has_headers: bool
    watermark: Watermark | None
    dead_letters: str | None
    brokers: str
    options: Mapping[str, str]

    @property
    def is_topic(self) -> bool:
        """Whether topics are read, rather than files."""
        return self.parquet is None

    @property
    def what(self) -> str:
        """The input in words, which also tells one query's checkpoint from another's."""
        if self.parquet is not None:
            return f"files of {self.parquet}"
        return f"topics matching {self.pattern}" if self.topic is None else f"topic {self.topic}"


class Transform(NamedTuple):
    """One step: an SQL query, or a Python function over `inputs`."""

    name: str
    line: int
    text_line: int
    """The line on which the SQL text begins, in `text_path`."""
    text_path: str
    """The file that has the text: the pipeline file, or another."""
    sql: str | None
    function: str | None
    module_path: str | None
    inputs: tuple[str, ...]


class IcebergTarget(NamedTuple):
    """An Iceberg table."""

    table: str
    """NAMESPACE.TABLE."""
    catalog: Mapping[str, str]
    """The properties with which pyiceberg loads the catalog; they may have passwords."""
    directory: str | None
    """The absolute path of a local catalog. None: the catalog is elsewhere."""
    place: str
    """The catalog in words, without passwords."""
    key_columns: tuple[str, ...]
    """The columns by which rows replace earlier ones. Empty: rows are appended."""


class Sink(NamedTuple):
    """One output."""

    name: str
    query: str
    """The streaming query that writes it: by default one of the sink's name. Sinks of one query have the same rows."""
    line: int
    key_line: int
    """The line of the SQL expression for the key."""
    reads: str
    topic: str | None
    parquet: str | None
    iceberg: IcebergTarget | None
    console_rows: int | None
    format: str
    """json, text, raw, avro or protobuf."""
    coding: ValueCoding | None
    """Avro, Protobuf, and JSON in a frame, alone have one."""
    key: str | None
    delete_when: str | None
    """The SQL condition of rows that delete. None: those whose operation, if there is one, is a delete."""
    is_exactly_once: bool
    mode: str
    partition_by: tuple[str, ...]
    brokers: str
    options: Mapping[str, str]

    @property
    def upserts(self) -> bool:
        """Whether rows replace those of their key."""
        return self.iceberg is not None and bool(self.iceberg.key_columns)

    @property
    def what(self) -> str:
        """The output in words, which also tells one query's checkpoint from another's."""
        if self.topic is not None:
            return f"topic {self.topic}"
        if self.iceberg is not None:
            return f"the Iceberg table {self.iceberg.table} in {self.iceberg.place}"
        return "the console" if self.parquet is None else f"files of {self.parquet}"


class SparkSettings(NamedTuple):
    """The session that the pipeline gets."""

    cores: int
    memory: str
    settings: Mapping[str, str]


class Pipeline(NamedTuple):
    """A whole file."""

    path: str
    name: str
    checkpoints: str
    """The absolute path of the directory for this pipeline's checkpoints and state."""
    trigger: str
    """`available-now`, `continuous` or a duration."""
    spark: SparkSettings
    sources: tuple[Source, ...]
    transforms: tuple[Transform, ...]
    sinks: tuple[Sink, ...]

    @property
    def ends_by_itself(self) -> bool:
        """Whether a run ends when all that was there is read."""
        return self.trigger == AVAILABLE_NOW
