"""docs/spark.md: its tables of options, made from the tables in `barnabas_spark`; the text around them is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.clients.settings.notation import Setting
from barnabas_spark.options.connection_security import (
    NOT_OFFERED,
    SECURITY_OPTION_NAMES,
    SECURITY_SETTINGS,
    as_option_names,
)
from barnabas_spark.options.kafka_options import WITHOUT_EFFECT_ON_SINK, WITHOUT_EFFECT_ON_SOURCE
from barnabas_spark.options.option_table import (
    KAFKA_OPTIONS_OF_SINK,
    KAFKA_OPTIONS_OF_SOURCE,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    Option,
    Queries,
)
from tests.support.documented_code import ROOT

PAGE = ROOT / "docs" / "spark.md"
_PART = re.compile(r"(?<=<!-- made: )(?P<name>[a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_QUERIES = {Queries.BATCH: "batch", Queries.STREAM: "stream", Queries.BOTH: "both"}


def spark_page() -> str:
    """Return docs/spark.md with its made parts as they should be. Raises KeyError for a part that is not known."""
    parts = {
        "source": _table(SOURCE_OPTIONS, with_queries=True),
        "source-kafka": _table(KAFKA_OPTIONS_OF_SOURCE, with_queries=False),
        "sink": _table(SINK_OPTIONS, with_queries=True),
        "sink-kafka": _table(KAFKA_OPTIONS_OF_SINK, with_queries=False),
        "security": _security(),
        "rejected": f"{_names(NOT_OFFERED)}.\n",
        "without-effect": (
            f"- By the source: {_names(WITHOUT_EFFECT_ON_SOURCE)}.\n- By the sink: {_names(WITHOUT_EFFECT_ON_SINK)}.\n"
        ),
    }
    return _PART.sub(lambda part: f"{part['name']}{part[2]}{parts[part['name']]}", PAGE.read_text(encoding="utf-8"))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(options: Iterable[Option], *, with_queries: bool) -> str:
    columns = ["option", "type", "default", *(["queries"] if with_queries else []), "meaning", "connector"]
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"{_row(option, with_queries=with_queries)}\n" for option in options)


def _row(option: Option, *, with_queries: bool) -> str:
    kind = " or ".join(option.choices) or option.kind.value
    if option.kind.value == "integer":
        kind = f"integer from {option.smallest} on"
    default = "" if option.default is None else f"`{option.default}`"
    cells = [f"`{option.name}`", kind, default, *([_QUERIES[option.queries]] if with_queries else [])]
    connector = "" if option.connector == "same" else option.connector
    return f"| {' | '.join([*cells, option.meaning, connector])} |"


def _security() -> str:
    rows = map(_security_row, SECURITY_OPTION_NAMES, SECURITY_SETTINGS)
    return "| option | type | default | meaning |\n|---|---|---|---|\n" + "".join(f"{row}\n" for row in rows)


def _security_row(name: str, setting: Setting) -> str:
    kind = " or ".join(filter(None, setting.bound.choices)) or ("boolean" if setting.type == "bool" else "text")
    default = setting.default
    if isinstance(default, tuple):
        default = ",".join(default)
    elif isinstance(default, bool):
        default = str(default).lower()
    # Python's clients have None, and functions that return tokens; options are texts.
    meaning = setting.bound.documentation.replace("None:", "By default")
    meaning = as_option_names(re.sub(r", or a function[^.]*", "", meaning))
    return f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {meaning} |"
