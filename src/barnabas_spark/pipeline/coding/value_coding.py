"""What a pipeline file says of the values of records: their format, where their schema is, the frame around each.

Made by `entry`, `sources` and `topic_sink`, read by `value_formats` on the driver and by the codecs in
the executors; immutable, no lock.
"""

from __future__ import annotations

from typing import NamedTuple

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


class ReadFormat(NamedTuple):
    """How the records of a source become columns."""

    name: str
    """json, text, raw, avro, protobuf or debezium."""
    schema: str | None
    """The columns of JSON."""
    coding: ValueCoding | None
    """Avro, Protobuf, and JSON in a frame, alone have one."""
    events: ChangeEvents | None
    """Debezium alone has them."""
    is_strict: bool
    """Whether values that do not fit their columns are bad. Otherwise JSON is read as Spark's `from_json` does."""
    key_is_text: bool
    has_headers: bool
    is_table: bool
    """Whether the records are the last ones of their keys."""
    sets_aside: bool
    """Whether bad records are left out. Otherwise they fail the query."""
