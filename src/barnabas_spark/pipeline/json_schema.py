"""The JSON schema of pipeline files, published as docs/pipeline.schema.json.

Read by `schema_check` and by the generator of that file; constants only, no lock. What it cannot say - that a sink's
source exists, that a format has its schema - `pipeline_file` checks. Editors complete and check files by it: the first
line `# yaml-language-server: $schema=pipeline.schema.json` names it.
"""

from __future__ import annotations

from typing import Any

FORMATS = ("json", "text", "raw", "avro", "protobuf")
SOURCE_FORMATS = (*FORMATS, "debezium")

NAME = "^[A-Za-z][A-Za-z0-9_]*$"
TOPIC = "^[a-zA-Z0-9._-]{1,249}$"
_SCALAR = {"type": ["string", "number", "boolean"]}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "description": description, **more}


def _named(description: str, entry: dict[str, Any], *, required: bool) -> dict[str, Any]:
    more = {"minProperties": 1} if required else {}
    return {
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": NAME},
        "additionalProperties": entry,
        **more,
    }


def _entry(properties: dict[str, Any], required: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(required),
        "oneOf": [{"required": [kind]} for kind in kinds],
    }


_OPTIONS = {
    "type": "object",
    "description": "Options of format('barnabas'), such as maxOffsetsPerTrigger, or of Spark's Parquet files; the"
    " properties of an Iceberg table that is made.",
    "additionalProperties": _SCALAR,
}

_FORMAT = {
    "format": {
        "enum": list(FORMATS),
        "description": "The format of the records' values. raw and text have one column, value.",
    },
    "schema_file": _text(
        "Avro: an .avsc file. Protobuf: a descriptor set of protoc's. Without it the registry's newest schema is taken."
        " JSON that is written in a frame: a JSON schema; without it one is made of the columns."
    ),
    "message": _text("Protobuf: the full name of the message. The default is the first of the file."),
    "subject": _text("The schema's name in the registry. The default is TOPIC-value."),
    "framing": {
        "enum": ["confluent", "none"],
        "description": "confluent (the default of Avro and Protobuf) has a zero byte and the schema's id before each"
        " value; none (the default of JSON) has the bare value.",
    },
}

_SOURCE = _entry(
    {
        "topic": _text("A topic, or several, separated by commas."),
        "pattern": _text("A regular expression that a part of a topic's name has to match."),
        "parquet": _text("A directory of Parquet files."),
        "read": {
            "enum": ["stream", "table"],
            "description": "stream (the default): every record, as they come. table: the last record of each key, as"
            " the topic stands when the run begins; for joins.",
        },
        "schema": _text("The columns, as in SQL: 'id BIGINT, time TIMESTAMP'. JSON, and streams of Parquet."),
        **_FORMAT,
        "format": {
            "enum": list(SOURCE_FORMATS),
            "description": "The format of the records' values. raw and text have one column, value. debezium has the"
            " rows of change events, and what happened to each in the column _operation.",
        },
        "encoding": {
            "enum": ["json", "avro"],
            "description": "Debezium: what the change events are written in. json (the default) needs a schema.",
        },
        "tombstones": {
            "enum": ["drop", "delete"],
            "description": "Debezium: whether a record without a value is dropped, because a delete event stands before"
            " it, or deletes its key. delete is for topics that are compacted, where the delete event may be gone.",
        },
        "strict": {
            "type": "boolean",
            "description": "JSON: whether values that do not fit their columns without a loss are bad records (the"
            " default). false reads them as Spark's from_json does.",
        },
        "key": {"enum": ["binary", "string"], "description": "The type of the column _key. The default is string."},
        "headers": {"type": "boolean", "description": "Whether there is a column _headers."},
        "watermark": {
            "type": "object",
            "description": "How late rows may be: state that is older is dropped, with its late rows.",
            "additionalProperties": False,
            "properties": {
                "column": _text("A timestamp column, such as _timestamp."),
                "delay": _text("A duration, such as '10 minutes'."),
            },
            "required": ["column", "delay"],
        },
        "dead_letters": _text(
            "A topic for records that cannot be decoded. Without it, such a record fails the run.", pattern=TOPIC
        ),
        "brokers": _text("host:port, separated by commas, if others than the pipeline's."),
        "options": _OPTIONS,
    },
    (),
    ("topic", "pattern", "parquet"),
)

_TRANSFORM = _entry(
    {
        "sql": _text("A query over the sources and the transforms above."),
        "sql_file": _text("A file with such a query."),
        "python": _text("FILE.py:FUNCTION. The function gets the inputs as DataFrames, and returns one."),
        "inputs": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "Python: the sources and transforms that the function gets, in order.",
        },
    },
    (),
    ("sql", "sql_file", "python"),
)

_SINK = _entry(
    {
        "from": _text("The source or transform whose rows are written."),
        "query": _text(
            "The streaming query that writes this sink. The default is one of the sink's own name. Sinks of one query"
            " share what it reads and computes, and have the same 'from' and 'mode'.",
            pattern=NAME,
        ),
        "topic": _text("The topic to write to.", pattern=TOPIC),
        "parquet": _text("The directory to write Parquet files to."),
        "iceberg": _text("The Iceberg table to write to: NAMESPACE.TABLE. It is made if it is missing."),
        "catalog": {
            "type": ["string", "object"],
            "minLength": 1,
            "additionalProperties": _SCALAR,
            "description": "Iceberg: a directory, for a local catalog with its tables, or the properties with which"
            " pyiceberg loads a catalog, such as type, uri and warehouse.",
        },
        "upsert_by": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "Iceberg: the columns of the key. A row replaces the earlier one with its key.",
        },
        "console": {"type": "integer", "minimum": 1, "description": "Rows to print of every micro-batch."},
        **_FORMAT,
        "schema_id": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2**31 - 1,
            "description": "The schema's id to write, if there is a schema_file and no registry.",
        },
        "key": _text("An SQL expression for the records' keys."),
        "delete_when": _text(
            "An SQL condition: rows for which it is true delete. A topic gets a tombstone, Iceberg with upsert_by loses"
            " the row of the key, mode complete leaves it out. The default is _operation = 'delete', if there is such a"
            " column."
        ),
        "delivery": {
            "enum": ["exactly-once", "at-least-once"],
            "description": "Topics: exactly-once (the default) writes each micro-batch in one transaction, by one"
            " task. at-least-once writes in parallel, and may repeat rows after a crash.",
        },
        "mode": {
            "enum": ["append", "update", "complete"],
            "description": "Which rows of an aggregation are written: finished ones (the default), changed ones, all.",
        },
        "partition_by": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "Parquet: columns that name directories. Iceberg: columns by whose values a table that is"
            " made is partitioned.",
        },
        "brokers": _text("host:port, separated by commas, if others than the pipeline's."),
        "options": _OPTIONS,
    },
    ("from",),
    ("topic", "parquet", "iceberg", "console"),
)

PIPELINE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Barnabas pipeline",
    "description": "A file for `barnabas pipeline`. docs/pipelines.md explains it.",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": _text(
            "The pipeline's name, which its checkpoints are kept under.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$"
        ),
        "description": {"type": "string"},
        "parameters": {
            "type": "object",
            "description": "Names for ${name}, with defaults; null for one that has to be given.",
            "propertyNames": {"pattern": NAME},
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        "brokers": _text("host:port, separated by commas."),
        "connection": {
            "type": "object",
            "description": "Options of every source and sink of topics at these brokers, such as"
            " kafka.security.protocol. Those of a source or a sink win over them.",
            "propertyNames": {"pattern": r"^kafka\."},
            "additionalProperties": _SCALAR,
        },
        "registry": {
            "type": "object",
            "description": "The schema registry for Avro, Protobuf and JSON.",
            "additionalProperties": False,
            "properties": {
                "url": _text("http://host:port, or https://."),
                "login": {"type": "string", "description": "user:password; best ${env:NAME:-}. Empty: no login."},
            },
            "required": ["url"],
        },
        "checkpoints": _text("The directory for checkpoints. The default is 'checkpoints', beside the file."),
        "trigger": _text(
            "available-now (the default): read what is there, and end. continuous: go on until stopped. A duration,"
            " such as '10 seconds': the same, a micro-batch at each interval."
        ),
        "spark": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cores": {"type": "integer", "minimum": 1, "description": "The default is 2."},
                "memory": _text("The memory of the driver. The default is 1g."),
                "settings": {"type": "object", "additionalProperties": _SCALAR},
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
