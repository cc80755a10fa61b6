"""Reads and checks a pipeline file, as far as that is possible without Spark.

Called by `barnabas pipeline`, on the main thread; no state, no lock. Order: YAML, references, the JSON schema, then
what a schema cannot say: names that nothing has, files that do not exist, keys that do not go together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas_spark.pipeline.entry import Entry, as_text, texts
from barnabas_spark.pipeline.json_schema import SINK_KINDS, SOURCE_KINDS, check_schema, keys_of
from barnabas_spark.pipeline.marked_yaml import MarkedYaml, Parameters
from barnabas_spark.pipeline.pipeline_error import PipelineError, Problem
from barnabas_spark.pipeline.sinks.sink import Sink
from barnabas_spark.pipeline.sources import Source

AVAILABLE_NOW = "available-now"
CONTINUOUS = "continuous"

_TEXT_NOT_UTF8 = "not UTF-8"


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


def read_pipeline(path: str, given: Mapping[str, str], environment: Mapping[str, str]) -> Pipeline:
    """Return what a file says. `given`: parameters from the command line. Raises PipelineError, OSError."""
    marked = MarkedYaml(path, _read(path))
    parameters = _parameters(marked, given)
    values = marked.values(Parameters(parameters, environment).replaced)
    check_schema(values, marked)
    pipeline = _pipeline(values, marked)
    marked.raise_problems()
    return pipeline


def _read(path: str) -> str:
    """Return a file's text. Raises PipelineError, OSError."""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PipelineError(path, [Problem(line, f"{_TEXT_NOT_UTF8}: byte {raw[error.start]:#04x}")]) from None


def _parameters(marked: MarkedYaml, given: Mapping[str, str]) -> dict[str, str | None]:
    """Return the parameters with their values. Raises PipelineError for one that the file does not declare."""
    declared = marked.section("parameters")
    found: dict[str, str | None] = {}
    # A section of another type is told by the schema.
    for name, default in (declared if isinstance(declared, dict) else {}).items():
        found[name] = None if default is None else as_text(default)
    for name in sorted(given.keys() - found.keys()):
        marked.add_problem(("parameters",), f"--parameter {name}: the file does not declare it under 'parameters'")
    marked.raise_problems()
    return {**found, **given}


def _pipeline(values: dict[str, Any], marked: MarkedYaml) -> Pipeline:
    """Return what values say that agree with the schema. Problems are noted, so that all are told at once."""
    name, spark = values["name"], values.get("spark", {})
    directory = os.path.dirname(os.path.abspath(marked.path))
    sources = tuple(_source(entry) for entry in _entries("sources", values, marked))
    known = [source.name for source in sources]
    transforms = tuple(_transform(entry, known, marked) for entry in _entries("transforms", values, marked))
    sinks = tuple(_sink(entry, known) for entry in _entries("sinks", values, marked))
    _check_queries(sinks, marked)
    return Pipeline(
        path=marked.path,
        name=name,
        checkpoints=os.path.normpath(os.path.join(directory, values.get("checkpoints", "checkpoints"), name)),
        trigger=values.get("trigger", AVAILABLE_NOW),
        spark=SparkSettings(int(spark.get("cores", 2)), spark.get("memory", "1g"), texts(spark.get("settings", {}))),
        sources=sources,
        transforms=transforms,
        sinks=sinks,
    )


def _entries(section: str, values: dict[str, Any], marked: MarkedYaml) -> list[Entry]:
    return [Entry(marked, values, section, name) for name in values.get(section, {})]


def _transform(entry: Entry, above: list[str], marked: MarkedYaml) -> Transform:
    """Return a transform, and add its name to those above the next one."""
    keys, name = entry.keys, entry.name
    if name in entry.file["sources"]:
        entry.note(f"{name!r} is the name of a source already")
    text_path, text_line, sql = marked.path, marked.text_line(("transforms", name, "sql")), keys.get("sql")
    if "sql_file" in keys:
        text_path, text_line = entry.resolved(keys["sql_file"]), 1
        sql = _text_of(entry, text_path)
    module_path = function = None
    if "python" in keys:
        file_name, _, function = keys["python"].rpartition(":")
        module_path = entry.resolved(file_name)
        if not file_name or not function.isidentifier():
            entry.note(f"{keys['python']!r} must be FILE.py:FUNCTION", "python")
        elif not os.path.isfile(module_path):
            entry.note(f"there is no file {module_path}", "python")
        if "inputs" not in keys:
            entry.note(f"{entry.where} needs 'inputs', the names of what the function gets")
    elif "inputs" in keys:
        entry.note("'inputs' belong to a Python transform; SQL names its inputs itself", "inputs")
    for index, wanted in enumerate(keys.get("inputs", ())):
        _check_known(entry, wanted, above, "inputs", index)
    above.append(name)
    return Transform(
        name=name,
        line=entry.line(),
        text_line=text_line,
        text_path=text_path,
        sql=sql,
        function=function,
        module_path=module_path,
        inputs=tuple(keys.get("inputs", ())),
    )


def _source(entry: Entry) -> Source:
    kind = next(kind for kind in SOURCE_KINDS if entry.keys.keys() & {*kind.CHOICES})
    entry.refuse(f"of {kind.NOUN}", keys_of(SOURCE_KINDS).keys() - kind.KEYS.keys())
    return kind(entry)


def _sink(entry: Entry, known: list[str]) -> Sink:
    _check_known(entry, entry.keys["from"], known, "from")
    kind = next(kind for kind in SINK_KINDS if entry.keys.keys() & {*kind.CHOICES})
    for key in keys_of(SINK_KINDS).keys() - kind.KEYS.keys():
        nouns = [other.NOUN for other in SINK_KINDS if key in other.KEYS]
        entry.refuse(f"that writes {'no' if len(nouns) == 1 else 'neither'} {' nor '.join(nouns)}", (key,))
    return kind(entry)


def _check_queries(sinks: tuple[Sink, ...], marked: MarkedYaml) -> None:
    """Check that sinks of one query are given the same rows: one query has one plan and one output mode."""
    first_of: dict[str, Sink] = {}
    for sink in sinks:
        first = first_of.setdefault(sink.query, sink)
        for key, own, other in (("from", sink.reads, first.reads), ("mode", sink.mode, first.mode)):
            if own != other:
                marked.add_problem(
                    ("sinks", sink.name, key),
                    f"sinks.{sink.name} has {key!r} {own}, and sinks.{first.name} of the same query"
                    f" {sink.query!r} has {other}: they must be equal, or the queries two",
                )


def _check_known(entry: Entry, name: str, known: list[str], *below: str | int) -> None:
    if name not in known:
        entry.note(f"there is no source or transform {name!r} above; there are {', '.join(known)}", *below)


def _text_of(entry: Entry, path: str) -> str | None:
    """Return the SQL of a file; None if it cannot be read, which is noted."""
    try:
        return _read(path)
    except OSError as error:
        entry.note(f"{path}: {error.strerror or error}", "sql_file")
    except PipelineError as error:
        entry.note(str(error), "sql_file")
    return None
