"""The table of the formats of values, and the keys by which an entry of a pipeline file says one.

Read by `sources` and `topic_sink`; constants and pure functions, no lock.
"""

from __future__ import annotations

from barnabas_spark.pipeline.entry import Entry, Keys, choice
from barnabas_spark.pipeline.formats.debezium_format import DebeziumFormat
from barnabas_spark.pipeline.formats.json_format import JsonFormat
from barnabas_spark.pipeline.formats.schema_formats import AvroFormat, ProtobufFormat
from barnabas_spark.pipeline.formats.value_format import RawFormat, TextFormat, ValueFormat, WrittenFormat

FORMATS: tuple[type[ValueFormat], ...] = (
    JsonFormat, TextFormat, RawFormat, AvroFormat, ProtobufFormat, DebeziumFormat,
)  # fmt: skip
"""The first is the default."""


def format_keys(section: str) -> Keys:
    """Return the keys of all formats that sources, or sinks, can have, `format` among them."""
    kinds = [kind for kind in FORMATS if section == "sources" or issubclass(kind, WrittenFormat)]
    told = ["The format of the records' values.", *(kind.ABOUT for kind in kinds if kind.ABOUT)]
    keys = {key: schema for kind in kinds for key, schema in kind.keys(section).items()}
    return {"format": choice([kind.NAME for kind in kinds], " ".join(told)), **keys}


def format_of(entry: Entry) -> ValueFormat:
    """Return the format of a source or a sink of topics. Wrong keys are noted."""
    name = entry.keys.get("format", FORMATS[0].NAME)
    kind = next(kind for kind in FORMATS if name == kind.NAME)
    known = kind.keys(entry.section)
    entry.refuse(f"of format {name}", [key for key in format_keys(entry.section) if key not in {"format", *known}])
    return kind(entry)
