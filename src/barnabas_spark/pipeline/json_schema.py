"""The JSON schema of pipeline files, published as docs/pipeline.schema.json, and the check of a file by it.

Used by `pipeline_file` and the generator of that file; constants and pure functions, no lock. The kinds of sources and
sinks say what their keys are, and check what a schema cannot say. Editors complete and check files by
it: the first line `# yaml-language-server: $schema=pipeline.schema.json` names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, cast

import jsonschema

from barnabas_spark.pipeline.entry import NAME, SCALAR, Keys, Part, listed, text
from barnabas_spark.pipeline.marked_yaml import MarkedYaml, Path
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


# -- the check of a file

_NAME_IN_WORDS = "letters, digits and _, a letter first"
_REFUSED = {
    "delta": "Delta tables are not written: Spark needs a jar for them. Write Parquet, or Iceberg",
}
"""Keys that are asked for, and what to say of them."""


def check_schema(values: dict[str, Any], marked: MarkedYaml) -> None:
    """Check names and types of all values. Raises PipelineError with everything that is wrong."""
    for error in jsonschema.Draft202012Validator(PIPELINE_SCHEMA).iter_errors(values):
        _note(error, marked)
    marked.raise_problems()


def _note(error: jsonschema.ValidationError, marked: MarkedYaml) -> None:
    path: Path = tuple(error.absolute_path)
    where = ".".join(map(str, path)) or "the file"
    value: Any = error.instance
    rule, schema = error.validator, cast("dict[str, Any]", error.schema)
    wanted: Any = error.validator_value
    if rule == "additionalProperties" and wanted is False:
        known = schema["properties"]
        for key in value.keys() - known.keys():
            marked.add_problem((*path, key), _unknown(key, where, sorted(known)))
    elif "propertyNames" in error.absolute_schema_path:
        # jsonschema reports the parent's path: the name itself is the value.
        marked.add_problem((*path, value), f"{value!r} is no name: {_NAME_IN_WORDS}")
    elif rule == "required" and error.parent is None:
        for key in wanted:
            if key not in value:
                marked.add_problem(path, f"{key!r} is missing in {where}")
    elif rule == "oneOf":
        kinds = [choice["required"][0] for choice in wanted]
        given = [kind for kind in kinds if kind in value]
        # An unknown key is told by another error, and is probably the misspelt kind.
        if given or not value.keys() - schema["properties"].keys():
            told = f"has {' and '.join(given)}" if given else "has none"
            marked.add_problem(path, f"{where} needs exactly one of {', '.join(kinds)}; it {told}")
    elif rule == "enum":
        near = difflib.get_close_matches(str(value), map(str, wanted), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        marked.add_problem(path, f"{where} is {value!r}; it must be {_listed(wanted)}{hint}")
    elif rule == "type":
        types = wanted if isinstance(wanted, list) else [wanted]
        shown = "empty" if value is None else repr(value)
        marked.add_problem(path, f"{where} is {shown}; it must be {_listed([_WORDS.get(one, one) for one in types])}")
    elif rule == "pattern":
        told = _NAME_IN_WORDS if wanted == NAME else "letters, digits, '.', '_' and '-'"
        marked.add_problem(path, f"{where} is {value!r}; it must be {told}")
    elif rule in ("minLength", "minProperties", "minItems"):
        marked.add_problem(path, f"{where} is empty")
    else:
        marked.add_problem(path, f"{where}: {error.message}")


_WORDS = {"object": "a map", "array": "a list", "string": "a text", "integer": "a whole number", "null": "empty"}


def _unknown(key: str, where: str, known: list[str]) -> str:
    if key in _REFUSED:
        return _REFUSED[key]
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
    return f"{where} has no key {key!r}; {hint}"


def _listed(choices: list[Any]) -> str:
    return " or ".join(map(str, choices))
