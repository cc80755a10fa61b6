"""The pages under docs/ that are made from code, by `make docs`; a test compares them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from unittest.mock import MagicMock

from barnabas.api.gates import CONTROLLER_APIS
from barnabas.api.late_families import LateFamilies
from barnabas.api.request import Handler
from barnabas.config.broker_config_keys import AREAS, BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey
from barnabas.config.kept_settings import KEPT_TOPIC_KEYS, documentation_of
from barnabas.config.keys.plugin_keys import AUTHORIZER_SETTINGS, PLUGIN_SETTINGS, PREFIXES_OF_PLUGINS
from barnabas.config.protection import PROMISES
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas_spark.pipeline.json_schema import PIPELINE_SCHEMA
from tests.architecture.client_settings import CLIENT, CONSUMER, PRODUCER, client_settings_page, keyword_module
from tests.architecture.command_line_page import command_line_page
from tests.architecture.controller_states_page import controller_states_page
from tests.architecture.declared_settings import CHECKED_BY_RULES, acted_on
from tests.architecture.group_states_page import group_states_page
from tests.architecture.member_states_page import member_states_page
from tests.architecture.source_tree import ROOT, modules
from tests.architecture.spark_page import spark_page
from tests.architecture.transaction_states_page import transaction_states_page

_FIRST_SENTENCE_END = re.compile(r"(?<=[a-z0-9)`\]\"'])\. (?=[A-Z`])")


def configuration_page() -> str:
    """docs/configuration.md."""
    lines = [
        "# Settings",
        "",
        "Made from the tables in `barnabas.config` by `make docs`. Names, types, bounds and defaults are those of",
        "Apache Kafka 3.9; a file written for it is read as it is. A name that is in no table is a warning in a file",
        "and an error in an option or a request, with the nearest right name. A setting that nothing acts on says why:",
        "it is checked, kept and shown all the same, and named in the log when a file sets it or a request changes it.",
        "A setting that promises protection which this version does not have stops the start when it is given, and is",
        "refused while the broker runs.",
        "",
        "Some settings may change while the broker runs (AlterConfigs, `kafka-configs --alter`): those that say",
        "per-broker for one broker by its id, those that say cluster-wide also for all brokers at once. A broker's own",
        "come first, then those of all brokers, then its file's, then the defaults. Behind `listener.name.<listener>.`",
        "a listener can have its own `num.network.threads`, `max.connections` and `max.connection.creation.rate`.",
        "A read-only setting changes with the file, at the next start. The last column names the class that declares",
        "the setting as a field, where the code that acts on it begins.",
        "",
    ]
    for title, keys in AREAS:
        lines += [f"## {title}", "", "| setting | type | default | values | may change | what it does | acted on by |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [_row(BROKER_CONFIG_KEYS[key.name]) for key in sorted(keys, key=lambda key: key.name)]
        lines.append("")
    lines += ["## Authorizer", "", "Read where `authorizer.class.name` selects the authorizer; docs/security.md.", ""]
    lines += ["| setting | what the authorizer does with it |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in sorted(AUTHORIZER_SETTINGS.items())]
    lines.append("")
    lines += ["## Plug-ins", "", "Read by Kafka's plug-ins, and kept only: there is no Java to load them.", ""]
    lines += ["| setting | what the plug-in does with it |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in sorted(PLUGIN_SETTINGS.items())]
    lines += [f"| `{prefix}*` | Settings of a plug-in's own. |" for prefix in PREFIXES_OF_PLUGINS]
    lines.append("")
    lines += ["## Topics", "", "Overrides of one topic; without one, the broker's setting counts.", ""]
    lines += ["| setting | type | the broker's setting | values | what it does |", "|---|---|---|---|---|"]
    for name, topic_key in sorted(TOPIC_CONFIG_KEYS.items()):
        key = topic_key.key
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in topic_key.synonyms)
        kept = KEPT_TOPIC_KEYS.get(name)
        what = key.documentation if kept is None else f"{key.documentation} Kept only: {kept}."
        lines.append(f"| `{name}` | {key.type.name.lower()} | {synonyms} | {_values(key)} | {what} |")
    return "\n".join(lines) + "\n"


def _row(key: ConfigKey) -> str:
    default = "1 or 3" if key.name == "num.network.threads" else _code(key.text(key.default))
    promise = PROMISES.get(key.name)
    what = documentation_of(key)
    if promise is not None:
        unless = f" as anything but {' or '.join(map(_code, promise.kept))}" if promise.kept else ""
        what = f"{what} Stops the start when given{unless}: {promise.missing}."
    readers = (acted_on() | CHECKED_BY_RULES).get(key.name, "")
    cells = [f"`{key.name}`", key.type.name.lower(), default, _values(key), key.scope.value, what, readers]
    return f"| {' | '.join(cells)} |"


def _values(key: ConfigKey) -> str:
    return "" if key.validator is None else _code(str(key.validator))


def _code(text: str | None) -> str:
    if text is None:
        return ""
    return f"`{text}`" if text else "empty"


def protocol_coverage_page() -> str:
    """docs/protocol-coverage.md."""
    from barnabas.broker.stages.api_table import build_registry

    lines = [
        "# Protocol coverage",
        "",
        "Made from the registry in `barnabas.broker.stages.api_table` by `make docs`. Versions are what is accepted;",
        "`broker.emulate.version` narrows them to those of one release of Apache Kafka (2.8 to 4.3).",
        "",
        "- **listed**: what ApiVersions says, where that differs. `no`: an API that is answered but not named, as",
        "  Kafka does where there is nothing that it could be used for.",
        "- **plane**: `control`: goes over `control.plane.listener.name` if there is one, and nothing else does.",
        "- **at once**: brief; may run on the network thread (`inline.requests.enable`), from that version on; but not",
        "  the first request of a family of handlers that is imported for it (`api.late_families`).",
        "- **charged for**: by client quotas; a client above its quota has its connection muted.",
        "",
        "| key | API | versions | listed | plane | at once | charged for |",
        "|---|---|---|---|---|---|---|",
        *(_api_row(_made(handler)) for handler in build_registry(MagicMock())),
    ]
    return "\n".join(lines) + "\n"


def _made(handler: Handler) -> Handler:
    """Return the line as it is once its family has been imported."""
    late = getattr(handler.handle, "__self__", None)
    if isinstance(late, LateFamilies):
        late.fill()
    return handler


def _api_row(handler: Handler) -> str:
    versions = f"{handler.min_version}-{handler.max_version}"
    listed = "no" if handler.listed is None else "{}-{}".format(*handler.listed)
    cells = [
        str(handler.api_key.value),
        handler.api_key.name,
        versions,
        "" if listed == versions else listed,
        "control" if handler.api_key in CONTROLLER_APIS else "",
        f"v{handler.brief_from}" if handler.brief_from <= handler.max_version else "",
        handler.throttled_by.value,
    ]
    return f"| {' | '.join(cells)} |"


def modules_page() -> str:
    """docs/modules.md."""
    lines = [
        "# Packages",
        "",
        "Made from the packages' docstrings by `make docs`. [architecture.md](architecture.md) has the layers, and the",
        "paths that lead through them. The docstring of a module says what it is, who calls it, which thread owns it,",
        "which lock guards it, and the Kafka class that plays the same role: `grep -rn GroupMetadataManager src` finds",
        "those that do that class's work.",
        "",
    ]
    for module in modules():
        if module.is_package:
            package = module.path.removesuffix("/__init__.py").replace("/", ".")
            paragraph = " ".join((ast.get_docstring(module.tree) or "").partition("\n\n")[0].split())
            lines.append(f"- `{package}`: {_FIRST_SENTENCE_END.split(paragraph)[0].rstrip('.')}.")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "docs/client-settings.md": client_settings_page,
    "docs/command-line.md": command_line_page,
    "docs/configuration.md": configuration_page,
    "docs/controller-states.md": controller_states_page,
    "docs/group-states.md": group_states_page,
    "docs/member-states.md": member_states_page,
    "docs/transaction-states.md": transaction_states_page,
    "docs/modules.md": modules_page,
    "docs/pipeline.schema.json": lambda: json.dumps(PIPELINE_SCHEMA, indent=2) + "\n",
    "docs/protocol-coverage.md": protocol_coverage_page,
    "docs/spark.md": spark_page,
    "src/barnabas/clients/consumer/consumer_settings.py": lambda: keyword_module(CONSUMER),
    "src/barnabas/clients/producer/producer_settings.py": lambda: keyword_module(PRODUCER),
    "src/barnabas/clients/settings/client_settings.py": lambda: keyword_module(CLIENT),
}
"""Path in the repository -> what it should say."""


def main() -> None:
    """Write the pages."""
    for path, text in PAGES.items():
        (ROOT / path).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
