"""docs/spark.md names tests that are there, and messages that the code or Spark gives."""

from __future__ import annotations

import ast
import re

from tests.architecture.spark_page import PAGE
from tests.support.documented_code import ROOT

SPARKS_OWN = {
    "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: barnabas",
    "[JAVA_GATEWAY_EXITED] Java gateway process exited",
    "Java not found and JAVA_HOME environment variable is not set",
    "[PYTHON_VERSION_MISMATCH]",
    'Cannot run program "',
    '": error=2, No such file or directory',
    "class file version 61.0",
    "ModuleNotFoundError: No module named 'barnabas_spark'",
    "Python worker failed to connect back",
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
    "UnsupportedClassVersionError",
}
"""Messages of Spark, of Java and of Python."""
_TEST = re.compile(r"`(tests/[a-z_/]+\.py)(?:::(test_\w+))?`")


def texts_of_the_code() -> set[str]:
    """All texts in the sources, those of f-strings in the pieces between their values."""
    found = set()
    for package in ("barnabas_spark", "barnabas/clients", "barnabas/config"):
        for path in (ROOT / "src" / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return found


def test_the_tests_that_hold_a_guarantee_are_there() -> None:
    named = _TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 10
    for path, name in named:
        assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), (path, name)


def test_the_messages_of_troubleshooting_are_given() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## Troubleshooting\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:]
    said = [piece.strip(" `") for row in rows for text in re.findall("`([^`]+)`", row) for piece in text.split("…")]
    assert len(said) > 30
    texts = "\n".join(texts_of_the_code())
    # Short pieces are names of options and commands.
    missing = [piece for piece in said if len(piece) > 8 and piece not in texts and piece not in SPARKS_OWN]
    assert not missing
