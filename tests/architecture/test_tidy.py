"""House rules that no linter states: docstrings, sizes, names, and documents that agree with the code.

A size is an alarm, not a law: an exception stands here with its reason, and goes when it is needed no more.
"""

import ast
import re
from collections import Counter
from unittest.mock import MagicMock

import pytest

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from tests.architecture import generated_docs
from tests.architecture.source_tree import ROOT, Module, functions, imports, modules
from tests.wire.random_messages import all_versions

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70

LONG_FILES: dict[str, str] = {}
"""Path under src -> why it is longer than MAX_FILE_LINES."""

LONG_FUNCTIONS: dict[str, str] = {
    "barnabas/clients/consumer/fetch/batch_records.py::BatchRecords._decode": (
        "the loop over a consumer's records: a call for each field would double the time of a record"
    ),
    "barnabas/storage/log/unified_log.py::UnifiedLog.append_as_leader": (
        "every produced batch goes through it, and a call costs as much as one of its sections"
    ),
}
"""path::Class.function -> why it is longer than MAX_FUNCTION_LINES."""

LEAST_FILE_LINES = 40

SHORT_FILES: dict[str, str] = {
    "barnabas/__main__.py": "what `python -m barnabas` runs",
    "barnabas/api/handlers/telemetry.py": "no handler family imports another, and this one is imported late",
    "barnabas/cli/perf/perf.py": "a group of commands; the table of commands names its module",
    "barnabas/cli/perf/perf_rebalance_times.py": "its base class brings the consumer, which `--help` does without",
    "barnabas/clients/consumer/group/make_coordinator.py": "the choice between two packages, neither of which knows it",
    "barnabas/security/sasl/client/plain_client.py": "a side of a mechanism, whose module the table of them names",
    "pyspark_barnabas.py": "the name by which Spark finds the source",
    "pyspark_barnabas_log.py": "the name by which Spark finds the log source",
}
"""Path under src -> why it is a file of its own although it has fewer than LEAST_FILE_LINES and one importer."""

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "types", "core", "manager"}

PACKAGES_USERS_IMPORT_FROM = {
    "barnabas/__init__.py",  # the version
    "barnabas/testing/__init__.py",
    "barnabas_spark/__init__.py",
}
"""Besides barnabas.clients: the only packages whose `__init__` holds more than a docstring."""

CONFIG_READERS = {"integer", "optional_integer", "floating", "boolean", "string", "optional_string", "list", "value"}


def test_every_module_says_what_it_is() -> None:
    silent = [module.path for module in modules() if not ast.get_docstring(module.tree)]
    assert not silent


def test_files_are_short() -> None:
    long = {module.path: module.lines for module in modules() if module.lines > MAX_FILE_LINES}
    assert long.keys() == LONG_FILES.keys(), long


def test_short_files_are_part_of_their_importer() -> None:
    importers = Counter(imported for found in imports().values() for imported in found)
    short = {
        module.path
        for module in modules()
        if module.lines < LEAST_FILE_LINES and not module.is_package and importers[module.path] <= 1
    }
    assert short == SHORT_FILES.keys()


def test_functions_are_short() -> None:
    long = {
        function.name: function.lines
        for module in modules()
        for function in functions(module)
        if function.lines > MAX_FUNCTION_LINES
    }
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_section_marks_have_one_form() -> None:
    """`# -- reading`: no line of dashes before or behind it."""
    another_form = re.compile(r"^ *# (?:-- .*)?-{3,} *$", re.MULTILINE)
    files = [file for top in ("src", "tests", "benchmarks", "examples") for file in (ROOT / top).rglob("*.py")]
    others = {str(file): found for file in files if (found := another_form.findall(file.read_text()))}
    assert not others


def test_names_say_something() -> None:
    vague = [module.path for module in modules() if set(module.path[:-3].split("/")) & VAGUE_NAMES]
    assert not vague


def test_no_module_imports_from_a_test_module() -> None:
    """What two test modules use lies in `tests/support`, or in a module beside them that holds no test."""
    imported = re.compile(
        r"^ *(?:from|import) tests\.(?:\w+\.)*test_\w+.*|^ *from tests\b.* import test_.*", re.MULTILINE
    )
    files = [file for top in ("tests", "benchmarks") for file in (ROOT / top).rglob("*.py")]
    assert not {str(file): found for file in files if (found := imported.findall(file.read_text()))}


def test_packages_only_describe_themselves() -> None:
    """Imports name the module that has the thing: no re-exports but where users import."""
    talkative = [
        module.path
        for module in modules()
        if module.is_package
        and module.path not in PACKAGES_USERS_IMPORT_FROM
        and not module.path.startswith("barnabas/clients/")
        and len(module.tree.body) > 1
    ]
    assert not talkative


def test_nothing_is_left_for_later() -> None:
    marks = re.compile("Not[I]mplementedError|TO[D]O|FIX[M]E|XX[X]")  # brackets: this line is none of them
    unfinished = [module.path for module in modules() if marks.search((ROOT / "src" / module.path).read_text())]
    assert not unfinished


def test_every_api_has_a_wire_test() -> None:
    """The differential tests of tests/wire know each version that the registry offers."""
    from barnabas.broker.stages.api_table import build_registry

    tested = {(message.__name__, version) for message, version in all_versions()}
    registry = build_registry(MagicMock())
    names = {message.api_key: message.__name__ for message, _ in all_versions() if message.__name__.endswith("Request")}
    untested = [
        (handler.api_key.name, version)
        for handler in registry
        for version in range(handler.min_version, handler.max_version + 1)
        if (names[handler.api_key], version) not in tested
    ]
    assert not untested


def _settings_read_in(module: Module) -> set[str]:
    return {
        node.args[0].value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CONFIG_READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and "." in node.args[0].value
    }


def test_settings_that_are_read_exist() -> None:
    """A wrong name would raise KeyError only on the path that reads it."""
    known = BROKER_CONFIG_KEYS.keys() | TOPIC_CONFIG_KEYS.keys()
    broker = [module for module in modules() if module.path.startswith("barnabas/")]
    unknown = {module.path: _settings_read_in(module) - known for module in broker}
    assert not {path: names for path, names in unknown.items() if names}


def test_no_module_binds_a_name_twice() -> None:
    """As a module does whose parts were two modules: the later constant, class or function replaces the other one."""
    twice = {}
    for module in modules():
        names = Counter(name for node in module.tree.body for name in _names_bound_by(node))
        twice[module.path] = [name for name, count in names.items() if count > 1]
    assert not {path: names for path, names in twice.items() if names}


def _names_bound_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


@pytest.mark.parametrize("page", generated_docs.PAGES)
def test_generated_pages_are_current(page: str) -> None:
    """Every setting and every API is documented: the pages are made from the tables."""
    written = (ROOT / page).read_text(encoding="utf-8")
    assert written == generated_docs.PAGES[page](), f"{page} is out of date: run `make docs`"
