"""One entry of a pipeline file: what the JSON schema says of its keys, and what the keys of a given one say.

An Entry is made by `pipeline_file` on the main thread, and read by the constructors of sources and sinks (for dead
letters also while a pipeline is planned, when notes are told no more); no lock. The schema of an entry is made of
parts, which the kinds of sources and sinks have for their keys; `json_schema` joins them.
"""

from __future__ import annotations

import copy
import os
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from barnabas_spark.pipeline.marked_yaml import MarkedYaml

Keys = Mapping[str, Mapping[str, Any]]
"""Keys of an entry, each with the JSON schema of its value."""

NAME = "^[A-Za-z][A-Za-z0-9_]*$"
TOPIC = "^[a-zA-Z0-9._-]{1,249}$"
SCALAR = {"type": ["string", "number", "boolean"]}


def text(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a text that is not empty."""
    return {"type": "string", "minLength": 1, "description": description, **more}


def listed(description: str) -> dict[str, Any]:
    """Return the schema of a list of texts that is not empty."""
    return {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": description}


def choice(values: Sequence[str], description: str) -> dict[str, Any]:
    """Return the schema of one of some words."""
    return {"enum": [*values], "description": description}


BROKERS = text("host:port, separated by commas, if others than the pipeline's.")
OPTIONS = {
    "type": "object",
    "description": "Options of format('barnabas'), such as maxOffsetsPerTrigger, or of Spark's Parquet files; the"
    " properties of an Iceberg table that is made.",
    "additionalProperties": SCALAR,
}
PARTITION_BY = listed(
    "Parquet: columns that name directories. Iceberg: columns by whose values a table that is made is partitioned."
)
SCHEMA = text("The columns, as in SQL: 'id BIGINT, time TIMESTAMP'. JSON, and streams of Parquet.")


class RegistryAddress(NamedTuple):
    """A schema registry."""

    url: str
    login: str | None
    """`user:password`, for basic authentication."""


class Entry:
    """An entry of a section, which agrees with the JSON schema.

    Problems are noted, so that all are told at once; wrong parts are left as they are.
    """

    def __init__(self, marked: MarkedYaml, file: Mapping[str, Any], section: str, name: str) -> None:
        self._marked = marked
        self.file = file
        self._path = (section, name)
        self.section = section
        self.name = name
        self.keys: Mapping[str, Any] = file[section][name]

    @property
    def where(self) -> str:
        """The entry as messages name it."""
        return f"{self.section}.{self.name}"

    def beside(self, name: str, keys: Mapping[str, Any]) -> Entry:
        """Return an entry with other keys, which this one brings with it: its lines are those of this one."""
        entry = copy.copy(self)
        entry.name, entry.keys = name, keys
        return entry

    def line(self, *below: str | int) -> int:
        """Return the line of the entry, or of a value below it."""
        return self._marked.line((*self._path, *below))

    def note(self, message: str, *below: str | int) -> None:
        """Note that the entry is wrong, or a value below it."""
        self._marked.add_problem((*self._path, *below), message)

    def refuse(self, what: str, keys: Iterable[str]) -> None:
        """Note each of these keys that the entry has, without a meaning for a source or a sink of which that is so."""
        for key in keys:
            if key in self.keys:
                self.note(f"{key!r} has no meaning for a {self.section[:-1]} {what}", key)

    def resolved(self, path: str) -> str:
        """Return a path of the file's as an absolute one; URIs stay as they are."""
        directory = os.path.dirname(os.path.abspath(self._marked.path))
        return path if "://" in path else os.path.normpath(os.path.join(directory, path))

    # -- of topics

    def brokers(self) -> str:
        """Return the brokers, of the entry or of the file."""
        brokers: str | None = self.keys.get("brokers", self.file.get("brokers"))
        if brokers is None:
            self.note(f"{self.where} needs 'brokers', here or at the top: host:port")
        return brokers or ""

    def topic_options(self) -> dict[str, str]:
        """Return the options, those of the pipeline's connection among them."""
        # Brokers of another cluster are not to see this one's passwords.
        shared = {} if "brokers" in self.keys else self.file.get("connection", {})
        return texts({**shared, **self.keys.get("options", {})})

    def registry(self) -> RegistryAddress | None:
        """Return the schema registry of the file."""
        found = self.file.get("registry")
        if found is None:
            return None
        if not found["url"].startswith(("http://", "https://")):
            self._marked.add_problem(("registry", "url"), f"{found['url']!r} must begin with http:// or https://")
        return RegistryAddress(found["url"], found.get("login") or None)


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as Spark gets them."""
    return {name: as_text(value) for name, value in options.items()}


def as_text(value: object) -> str:
    """Return a value as Spark and its options write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Part(ABC):
    """A source or a sink. The constructor of its kind notes what is wrong with the keys, and sets `what`."""

    CHOICES: ClassVar[tuple[str, ...]]
    """The keys of which an entry of this kind has one."""
    KEYS: ClassVar[Keys]
    """The keys that not every kind has, those of CHOICES among them."""
    NOUN: ClassVar[str]
    """What is read or written, for messages about keys that the kind does not have."""

    what: str
    """The input or output in words, which also tells one query's checkpoint from another's."""
    topics: Sequence[str] = ()
    """The topics that have to be there."""
    brokers = ""
    """Those of the topics. Empty: the part has no topics."""

    def __init__(self, entry: Entry) -> None:
        self.name, self.line = entry.name, entry.line()
        self.options = texts(entry.keys.get("options", {}))
