"""Compares the values of a pipeline file with the JSON schema, and says what is wrong in sentences with lines.

Called by `pipeline_file`; no state, no lock.
"""

from __future__ import annotations

import difflib
from typing import Any, cast

import jsonschema

from barnabas_spark.pipeline.entry import NAME
from barnabas_spark.pipeline.json_schema import PIPELINE_SCHEMA
from barnabas_spark.pipeline.marked_yaml import MarkedYaml, Path

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
