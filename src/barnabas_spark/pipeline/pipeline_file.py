"""Reads and checks a pipeline file, as far as that is possible without Spark.

Called by `barnabas pipeline`, on the main thread; no state, no lock. Order: YAML, references, the JSON schema, then
what a schema cannot say: names that nothing has, files that do not exist, keys that do not go together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from barnabas_spark.pipeline.marked_yaml import MarkedYaml, Parameters, Path
from barnabas_spark.pipeline.pipeline_error import PipelineError, Problem
from barnabas_spark.pipeline.schema_check import check_schema
from barnabas_spark.pipeline.specification import (
    AVAILABLE_NOW,
    CODED_FORMATS,
    DEBEZIUM_FORMAT,
    JSON_FORMAT,
    PROTOBUF_FORMAT,
    ChangeEvents,
    IcebergTarget,
    Pipeline,
    RegistryAddress,
    Sink,
    Source,
    SparkSettings,
    Transform,
    ValueCoding,
    Watermark,
)

_CODING_KEYS = ("schema_file", "message", "subject", "framing", "schema_id")
_EVENT_KEYS = ("encoding", "tombstones")
_TEXT_NOT_UTF8 = "not UTF-8"


def read_pipeline(path: str, given: Mapping[str, str], environment: Mapping[str, str]) -> Pipeline:
    """Return what a file says. `given`: parameters from the command line. Raises PipelineError, OSError."""
    marked = MarkedYaml(path, _read(path))
    parameters = _parameters(marked, given)
    values = marked.values(Parameters(parameters, environment).replaced)
    check_schema(values, marked)
    pipeline = _Reading(path, values, marked).pipeline()
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
        found[name] = None if default is None else _as_text(default)
    for name in sorted(given.keys() - found.keys()):
        marked.add_problem(("parameters",), f"--parameter {name}: the file does not declare it under 'parameters'")
    marked.raise_problems()
    return {**found, **given}


class _Reading:
    """One pass over values that agree with the schema. Problems are noted, so that all are told at once."""

    def __init__(self, path: str, values: dict[str, Any], marked: MarkedYaml) -> None:
        self._path = path
        self._directory = os.path.dirname(os.path.abspath(path))
        self._values = values
        self._marked = marked

    def pipeline(self) -> Pipeline:
        """Return the pipeline; wrong parts are noted and left as they are."""
        values, name = self._values, self._values["name"]
        spark = values.get("spark", {})
        checkpoints = os.path.join(self._directory, values.get("checkpoints", "checkpoints"), name)
        sources = tuple(self._source(key, entry) for key, entry in values["sources"].items())
        transforms = self._transforms([source.name for source in sources])
        known = [*(source.name for source in sources), *(transform.name for transform in transforms)]
        sinks = tuple(self._sink(key, entry, known) for key, entry in values["sinks"].items())
        self._check_queries(sinks)
        return Pipeline(
            path=self._path,
            name=name,
            checkpoints=os.path.normpath(checkpoints),
            trigger=values.get("trigger", AVAILABLE_NOW),
            spark=SparkSettings(
                int(spark.get("cores", 2)), spark.get("memory", "1g"), _texts(spark.get("settings", {}))
            ),
            sources=sources,
            transforms=transforms,
            sinks=sinks,
        )

    def _source(self, name: str, entry: dict[str, Any]) -> Source:
        path: Path = ("sources", name)
        is_topic = "parquet" not in entry
        is_table = entry.get("read") == "table"
        if not is_topic:
            self._refuse(
                path, entry, "of files",
                ("format", "strict", "key", "headers", "dead_letters", "brokers", *_EVENT_KEYS, *_CODING_KEYS),
            )  # fmt: skip
            if not is_table and "schema" not in entry:
                self._note(path, f"sources.{name} needs 'schema': a stream of files has no other")
        else:
            self._check_values(path, entry)
        if is_table:
            self._refuse(path, entry, "with read: table", ("watermark", "dead_letters", "tombstones"))
        coding = self._coding(entry, path) if is_topic else None
        events = None
        if is_topic and entry.get("format") == DEBEZIUM_FORMAT:
            events = ChangeEvents(_encoding(entry), entry.get("tombstones"))
        # Keys in Avro are no texts.
        key = "string" if events is None or events.encoding == JSON_FORMAT else "binary"
        watermark = entry.get("watermark")
        return Source(
            name=name,
            line=self._marked.line(path),
            topic=entry.get("topic"),
            pattern=entry.get("pattern"),
            parquet=self._resolved(entry.get("parquet")),
            is_table=is_table,
            schema=entry.get("schema"),
            format=entry.get("format", "json"),
            coding=coding,
            events=events,
            is_strict=entry.get("strict", True),
            key_is_text=entry.get("key", key) == "string",
            has_headers=entry.get("headers", False),
            watermark=None if watermark is None else Watermark(watermark["column"], watermark["delay"]),
            dead_letters=entry.get("dead_letters"),
            brokers=self._brokers(entry, path) if is_topic else "",
            options=self._options(entry) if is_topic else _texts(entry.get("options", {})),
        )

    def _check_values(self, path: Path, entry: dict[str, Any]) -> None:
        """Check what a source of topics says of its values."""
        name = entry.get("format", JSON_FORMAT)
        if name == DEBEZIUM_FORMAT:
            self._refuse(path, entry, "of format debezium, which is always strict", ("strict",))
            if _encoding(entry) != JSON_FORMAT:
                self._refuse(path, entry, "of Avro, whose schema has the columns", ("schema",))
        else:
            self._refuse(path, entry, f"of format {name}", _EVENT_KEYS)
            if name != JSON_FORMAT:
                self._refuse(path, entry, f"of format {name}", ("schema", "strict"))
        if _encoding(entry) == JSON_FORMAT and "schema" not in entry:
            where = ".".join(map(str, path))
            what = "JSON" if name == JSON_FORMAT else "rows"
            self._note(path, f"{where} needs 'schema', the columns of its {what}, such as 'id BIGINT, at TIMESTAMP'")

    def _transforms(self, known: list[str]) -> tuple[Transform, ...]:
        found = []
        above = list(known)
        for name, entry in self._values.get("transforms", {}).items():
            if name in known:
                self._note(("transforms", name), f"{name!r} is the name of a source already")
            found.append(self._transform(name, entry, above))
            above.append(name)
        return tuple(found)

    def _transform(self, name: str, entry: dict[str, Any], above: list[str]) -> Transform:
        path: Path = ("transforms", name)
        text_path, text_line, sql = self._path, self._marked.text_line((*path, "sql")), entry.get("sql")
        if "sql_file" in entry:
            text_path, text_line = self._resolved(entry["sql_file"]) or "", 1
            sql = self._file(text_path, (*path, "sql_file"))
        module_path = function = None
        if "python" in entry:
            file_name, _, function = entry["python"].rpartition(":")
            module_path = self._resolved(file_name)
            if not file_name or not function.isidentifier():
                self._note((*path, "python"), f"{entry['python']!r} must be FILE.py:FUNCTION")
            elif not os.path.isfile(module_path or ""):
                self._note((*path, "python"), f"there is no file {module_path}")
            if "inputs" not in entry:
                self._note(path, f"transforms.{name} needs 'inputs', the names of what the function gets")
        elif "inputs" in entry:
            self._note((*path, "inputs"), "'inputs' belong to a Python transform; SQL names its inputs itself")
        for index, wanted in enumerate(entry.get("inputs", ())):
            self._check_known(wanted, (*path, "inputs", index), above)
        return Transform(
            name=name,
            line=self._marked.line(path),
            text_line=text_line,
            text_path=text_path,
            sql=sql,
            function=function,
            module_path=module_path,
            inputs=tuple(entry.get("inputs", ())),
        )

    def _sink(self, name: str, entry: dict[str, Any], known: list[str]) -> Sink:
        path: Path = ("sinks", name)
        is_topic = "topic" in entry
        self._check_known(entry["from"], (*path, "from"), known)
        if not is_topic:
            self._refuse(
                path, entry, "that writes no topic",
                ("format", "key", "delivery", "brokers", *_CODING_KEYS),
            )  # fmt: skip
        if "delete_when" in entry:
            self._check_deletes(path, entry)
        if "parquet" not in entry and "iceberg" not in entry:
            self._refuse(path, entry, "that writes neither Parquet nor Iceberg", ("partition_by",))
        elif "parquet" in entry and entry.get("mode") == "update":
            self._note((*path, "mode"), "files cannot be updated: use append or complete")
        if "console" in entry:
            self._refuse(path, entry, "that prints", ("options",))
        coding = self._coding(entry, path) if is_topic else None
        if coding is not None and coding.is_framed and coding.registry is None and coding.schema_id is None:
            self._note(path, f"sinks.{name} needs 'registry' at the top, 'schema_id', or 'framing: none'")
        return Sink(
            name=name,
            query=entry.get("query", name),
            line=self._marked.line(path),
            key_line=self._marked.line((*path, "key")),
            reads=entry["from"],
            topic=entry.get("topic"),
            parquet=self._resolved(entry.get("parquet")),
            iceberg=self._iceberg(entry, path),
            console_rows=entry.get("console"),
            format=entry.get("format", "json"),
            coding=coding,
            key=entry.get("key"),
            delete_when=entry.get("delete_when"),
            is_exactly_once=entry.get("delivery", "exactly-once") == "exactly-once",
            mode=entry.get("mode", "append"),
            partition_by=tuple(entry.get("partition_by", ())),
            brokers=self._brokers(entry, path) if is_topic else "",
            options=self._options(entry) if is_topic else _texts(entry.get("options", {})),
        )

    def _check_queries(self, sinks: tuple[Sink, ...]) -> None:
        """Check that sinks of one query are given the same rows: one query has one plan and one output mode."""
        first_of: dict[str, Sink] = {}
        for sink in sinks:
            first = first_of.setdefault(sink.query, sink)
            for key, own, other in (("from", sink.reads, first.reads), ("mode", sink.mode, first.mode)):
                if own != other:
                    self._note(
                        ("sinks", sink.name, key),
                        f"sinks.{sink.name} has {key!r} {own}, and sinks.{first.name} of the same query"
                        f" {sink.query!r} has {other}: they must be equal, or the queries two",
                    )

    def _check_deletes(self, path: Path, entry: dict[str, Any]) -> None:
        """Check that a sink can delete."""
        if "topic" in entry and "key" not in entry:
            self._note((*path, "delete_when"), "a row that deletes is a tombstone, which needs a 'key'")
        elif "topic" not in entry and "upsert_by" not in entry and entry.get("mode") != "complete":
            self._refuse(path, entry, "that cannot delete: of Iceberg, 'upsert_by' can", ("delete_when",))

    # -- parts

    def _coding(self, entry: dict[str, Any], path: Path) -> ValueCoding | None:
        """Return how values are coded by a schema; None for other formats."""
        name, where = _encoding(entry), ".".join(map(str, path))
        if name == JSON_FORMAT:
            return self._json_coding(entry, path)
        if name not in CODED_FORMATS:
            self._refuse(path, entry, f"of format {name}", _CODING_KEYS)
            return None
        is_framed = entry.get("framing", "confluent") == "confluent"
        registry = self._registry() if is_framed else None
        file = self._schema_file(entry, path)
        if name != PROTOBUF_FORMAT:
            self._refuse(path, entry, f"of format {name}", ("message",))
        if registry is None:
            told = "without a registry" if is_framed else "with framing: none"
            self._refuse(path, entry, told, ("subject",) if is_framed else ("subject", "schema_id"))
            if file is None:
                self._note(path, f"{where} needs 'schema_file', or 'registry' at the top")
        else:
            self._refuse(path, entry, "with a registry, which gives the id", ("schema_id",))
        topic, subject = entry.get("topic"), entry.get("subject")
        if subject is None and topic is not None and "," not in topic:
            subject = f"{topic}-value"
        if registry is not None and file is None and subject is None:
            self._note(path, f"{where} needs 'subject', the schema's name in the registry: there are several topics")
        return ValueCoding(file, entry.get("message"), subject, registry, is_framed, entry.get("schema_id"))

    def _json_coding(self, entry: dict[str, Any], path: Path) -> ValueCoding | None:
        """Return how JSON is framed; None for bare JSON."""
        if entry.get("framing", "none") == "none":
            keys = tuple(key for key in _CODING_KEYS if key != "framing")
            self._refuse(path, entry, "of format json without 'framing: confluent'", keys)
            return None
        registry = self._registry()
        self._refuse(path, entry, "of format json", ("message",))
        if path[0] == "sources":
            self._refuse(path, entry, "of format json, whose columns are in 'schema'", ("schema_file", "subject"))
            if not entry.get("strict", True):
                self._note((*path, "strict"), "JSON in a frame is always read strictly")
            return ValueCoding(None, None, None, registry, True, None)
        if registry is None:
            self._refuse(path, entry, "without a registry", ("subject",))
        else:
            self._refuse(path, entry, "with a registry, which gives the id", ("schema_id",))
        file = self._schema_file(entry, path)
        subject = entry.get("subject", f"{entry['topic']}-value")
        return ValueCoding(file, None, subject, registry, True, entry.get("schema_id"))

    def _schema_file(self, entry: dict[str, Any], path: Path) -> str | None:
        """Return the path of a schema, which must be there, or None."""
        file = self._resolved(entry.get("schema_file"))
        if file is not None and not os.path.isfile(file):
            self._note((*path, "schema_file"), f"there is no file {file}")
        return file

    def _iceberg(self, entry: dict[str, Any], path: Path) -> IcebergTarget | None:
        """Return the Iceberg table of a sink; None for other sinks."""
        if "iceberg" not in entry:
            self._refuse(path, entry, "that writes no Iceberg", ("catalog", "upsert_by"))
            return None
        if not all(entry["iceberg"].split(".")) or "." not in entry["iceberg"]:
            self._note((*path, "iceberg"), f"{entry['iceberg']!r} must be NAMESPACE.TABLE")
        if "catalog" not in entry:
            self._note(
                path, f"sinks.{path[1]} needs 'catalog': a directory, or the properties of a catalog of pyiceberg"
            )
        if entry.get("mode") == "update" and "upsert_by" not in entry:
            self._note((*path, "mode"), "changed rows of an Iceberg table need 'upsert_by', the columns of its key")
        if entry.get("mode") == "complete":
            self._refuse(path, entry, "of mode complete, which replaces all rows", ("upsert_by",))
        catalog = entry.get("catalog", "")
        given = (self._resolved(catalog) or "") if isinstance(catalog, str) else _texts(catalog)
        return iceberg_target(entry["iceberg"], given, tuple(entry.get("upsert_by", ())))

    def _registry(self) -> RegistryAddress | None:
        entry = self._values.get("registry")
        if entry is None:
            return None
        if not entry["url"].startswith(("http://", "https://")):
            self._note(("registry", "url"), f"{entry['url']!r} must begin with http:// or https://")
        return RegistryAddress(entry["url"], entry.get("login") or None)

    def _brokers(self, entry: dict[str, Any], path: Path) -> str:
        brokers: str | None = entry.get("brokers", self._values.get("brokers"))
        if brokers is None:
            self._note(path, f"{'.'.join(map(str, path))} needs 'brokers', here or at the top: host:port")
        return brokers or ""

    def _options(self, entry: dict[str, Any]) -> dict[str, str]:
        """Return the options of a source or a sink of topics, those of the pipeline's connection among them."""
        # Brokers of another cluster are not to see this one's passwords.
        shared = {} if "brokers" in entry else self._values.get("connection", {})
        return _texts({**shared, **entry.get("options", {})})

    def _check_known(self, name: str, path: Path, known: list[str]) -> None:
        if name not in known:
            self._note(path, f"there is no source or transform {name!r} above; there are {', '.join(known)}")

    def _refuse(self, path: Path, entry: dict[str, Any], what: str, keys: tuple[str, ...]) -> None:
        for key in keys:
            if key in entry:
                self._note((*path, key), f"{key!r} has no meaning for a {path[0][:-1]} {what}")  # type: ignore[index]

    def _file(self, path: str, marked_path: Path) -> str | None:
        try:
            return _read(path)
        except OSError as error:
            self._note(marked_path, f"{path}: {error.strerror or error}")
        except PipelineError as error:
            self._note(marked_path, str(error))
        return None

    def _resolved(self, path: str | None) -> str | None:
        """Return a path of the file's as an absolute one; URIs stay as they are."""
        return path if path is None or "://" in path else os.path.normpath(os.path.join(self._directory, path))

    def _note(self, path: Path, message: str) -> None:
        self._marked.add_problem(path, message)


def _encoding(entry: Mapping[str, Any]) -> str:
    """Return what the values of a source or a sink are written in."""
    name: str = entry.get("format", JSON_FORMAT)
    return entry.get("encoding", JSON_FORMAT) if name == DEBEZIUM_FORMAT else name


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: _as_text(value) for name, value in options.items()}


def _as_text(value: object) -> str:
    """Return a value as Spark and its options write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- Iceberg


def iceberg_target(table: str, catalog: str | Mapping[str, str], key_columns: tuple[str, ...]) -> IcebergTarget:
    """Return a table. catalog: the absolute path of a directory, or the properties of any catalog of pyiceberg's."""
    if isinstance(catalog, str):
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{os.path.join(catalog, 'catalog.db')}",
            "warehouse": f"file://{catalog}",
        }
        return IcebergTarget(table, properties, catalog, catalog, key_columns)
    return IcebergTarget(table, dict(catalog), None, _place(catalog), key_columns)


def _place(catalog: Mapping[str, str]) -> str:
    """Return a catalog in words, without the password that an address may have."""
    parts = urlsplit(catalog.get("uri", ""))
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else parts.path
    return f"the catalog {address or catalog.get('type') or catalog.get('warehouse', '')}"
