"""The JSON schema of pipeline files, published as docs/pipeline.schema.json.

Read by `schema_check`, `pipeline_file` and the generator of that file; constants and pure functions, no lock. The kinds
of sources and sinks say what their keys are, and check what a schema cannot say. Editors complete and check files by
it: the first line `# yaml-language-server: $schema=pipeline.schema.json` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas_spark.pipeline.entry import NAME, SCALAR, Keys, Part, listed, text
from barnabas_spark.pipeline.sinks.iceberg_sink import IcebergSink
from barnabas_spark.pipeline.sinks.parquet_sink import ParquetSink
from barnabas_spark.pipeline.sinks.sink import SINK_KEYS, ConsoleSink, Sink
from barnabas_spark.pipeline.sinks.topic_sink import TopicSink
from barnabas_spark.pipeline.sources import SOURCE_KEYS, FileSource, Source, TopicSource

SOURCE_KINDS: tuple[type[Source], ...] = (TopicSource, FileSource)
SINK_KINDS: tuple[type[Sink], ...] = (TopicSink, ParquetSink, IcebergSink, ConsoleSink)


def keys_of(kinds: Sequence[type[Part]]) -> Keys:
    """Return the keys that some kinds have, and others not."""
    return {key: schema for kind in kinds for key, schema in kind.KEYS.items()}


def _named(description: str, entry: dict[str, Any], *, required: bool) -> dict[str, Any]:
    more = {"minProperties": 1} if required else {}
    return {
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": NAME},
        "additionalProperties": entry,
        **more,
    }


def _entry(properties: Keys, choices: Iterable[str], required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema of an entry. choices: the keys of which it has one."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": [*required],
        "oneOf": [{"required": [choice]} for choice in choices],
    }


def _choices(kinds: Sequence[type[Part]]) -> list[str]:
    return [choice for kind in kinds for choice in kind.CHOICES]


_TRANSFORM = _entry(
    {
        "sql": text("A query over the sources and the transforms above."),
        "sql_file": text("A file with such a query."),
        "python": text("FILE.py:FUNCTION. The function gets the inputs as DataFrames, and returns one."),
        "inputs": listed("Python: the sources and transforms that the function gets, in order."),
    },
    ("sql", "sql_file", "python"),
)
_SOURCE = _entry({**SOURCE_KEYS, **keys_of(SOURCE_KINDS)}, _choices(SOURCE_KINDS))
_SINK = _entry({**SINK_KEYS, **keys_of(SINK_KINDS)}, _choices(SINK_KINDS), ["from"])

PIPELINE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Barnabas pipeline",
    "description": "A file for `barnabas pipeline`. docs/pipelines.md explains it.",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": text(
            "The pipeline's name, which its checkpoints are kept under.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$"
        ),
        "description": {"type": "string"},
        "parameters": {
            "type": "object",
            "description": "Names for ${name}, with defaults; null for one that has to be given.",
            "propertyNames": {"pattern": NAME},
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        "brokers": text("host:port, separated by commas."),
        "connection": {
            "type": "object",
            "description": "Options of every source and sink of topics at these brokers, such as"
            " kafka.security.protocol. Those of a source or a sink win over them.",
            "propertyNames": {"pattern": r"^kafka\."},
            "additionalProperties": SCALAR,
        },
        "registry": {
            "type": "object",
            "description": "The schema registry for Avro, Protobuf and JSON.",
            "additionalProperties": False,
            "properties": {
                "url": text("http://host:port, or https://."),
                "login": {"type": "string", "description": "user:password; best ${env:NAME:-}. Empty: no login."},
            },
            "required": ["url"],
        },
        "checkpoints": text("The directory for checkpoints. The default is 'checkpoints', beside the file."),
        "trigger": text(
            "available-now (the default): read what is there, and end. continuous: go on until stopped. A duration,"
            " such as '10 seconds': the same, a micro-batch at each interval."
        ),
        "spark": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cores": {"type": "integer", "minimum": 1, "description": "The default is 2."},
                "memory": text("The memory of the driver. The default is 1g."),
                "settings": {"type": "object", "additionalProperties": SCALAR},
            },
        },
        "sources": _named("What is read, by name.", _SOURCE, required=True),
        "transforms": _named(
            "Queries and functions, by name, each over what stands above it.", _TRANSFORM, required=False
        ),
        "sinks": _named(
            "What is written, by name. Each sink is a streaming query, unless several name one query.",
            _SINK,
            required=True,
        ),
    },
    "required": ["name", "sources", "sinks"],
}
