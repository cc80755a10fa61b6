"""Reads the keys of a source or sink that describe the format of values.

Called by `pipeline_file`; no state, no lock.
"""

from __future__ import annotations

import os
from typing import Any

from barnabas_spark.pipeline.marked_yaml import MarkedYaml, Path
from barnabas_spark.pipeline.specification import ValueFormat

_WITH_SCHEMA = ("avro", "protobuf")
_KEYS = ("schema_file", "framing", "schema_id", "registry")


def read_format(entry: dict[str, Any], path: Path, directory: str, marked: MarkedYaml, *, is_sink: bool) -> ValueFormat:
    """Return the format that the entry at `path` names, JSON by default. Wrong keys are noted in `marked`."""
    name = entry.get("format", "json")
    if name not in _WITH_SCHEMA:
        for key in (*_KEYS, "message"):
            if key in entry and "parquet" not in entry and "console" not in entry:
                marked.add_problem((*path, key), f"{key!r} belongs to the formats avro and protobuf, not to {name}")
        return ValueFormat(name)
    schema_file = entry.get("schema_file")
    if schema_file is None:
        marked.add_problem(path, f"format {name} needs 'schema_file'")
    else:
        schema_file = os.path.normpath(os.path.join(directory, schema_file))
        if not os.path.isfile(schema_file):
            marked.add_problem((*path, "schema_file"), f"there is no file {schema_file}")
    if name == "protobuf" and "message" not in entry:
        marked.add_problem(path, "format protobuf needs 'message', the full name of the message")
    if name == "avro" and "message" in entry:
        marked.add_problem((*path, "message"), "'message' belongs to the format protobuf")
    is_framed = entry.get("framing", "confluent") == "confluent"
    if not is_framed:
        for key in ("schema_id", "registry"):
            if key in entry:
                marked.add_problem((*path, key), f"{key!r} has no meaning without framing: confluent")
    elif is_sink and "schema_id" not in entry and "registry" not in entry:
        marked.add_problem(
            path, "framing: confluent needs 'schema_id', or a 'registry' that gives one; or write framing: none"
        )
    return ValueFormat(
        name, schema_file, entry.get("message"), is_framed, entry.get("schema_id"), entry.get("registry")
    )
