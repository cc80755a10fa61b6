"""docs/modules.md: every module by package, with the first sentence of its docstring and its Kafka counterpart."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.architecture.source_tree import Module, modules

INTRODUCTION = """\
# Modules

Made by `make docs` from the modules' docstrings. A line is the first sentence of one; the whole docstring says who
calls the module, which thread owns it and which lock guards it. In brackets: the Kafka class that plays the same role.
[architecture.md](architecture.md) has the paths that lead through them.
"""

_KAFKA_NAME = r"(?:[a-z]+\.)*[A-Z][\w.$]+"
_COUNTERPART = re.compile(rf"Kafka: (?:the )?({_KAFKA_NAME}(?:, {_KAFKA_NAME})*)")


def modules_page() -> str:
    """docs/modules.md."""
    packages: dict[str, list[Module]] = defaultdict(list)
    descriptions: dict[str, str] = {}
    for module in modules():
        package = module.path.rpartition("/")[0]
        if module.is_package:
            descriptions[package] = first_sentence(ast.get_docstring(module.tree) or "")
        else:
            packages[package].append(module)
    lines = [INTRODUCTION]
    for package, members in sorted(packages.items()):
        lines += [f"## {package.replace('/', '.') or 'On top'}", ""]
        if descriptions.get(package):
            lines += [f"{descriptions[package]}.", ""]
        lines += [_line(module) for module in members]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _line(module: Module) -> str:
    name = module.path.rpartition("/")[2]
    counterpart = counterpart_of(module)
    return f"- `{name}` — {first_sentence(ast.get_docstring(module.tree) or '')}" + (
        f" ({counterpart})" if counterpart else ""
    )


def counterpart_of(module: Module) -> str:
    """Return the Kafka classes that the docstring names as the module's counterparts, without packages, or nothing."""
    found = _COUNTERPART.search(" ".join((ast.get_docstring(module.tree) or "").split()))
    return re.sub(r"\b(?:[a-z]+\.)+(?=[A-Z])", "", found.group(1)).rstrip(".") if found else ""


def first_sentence(docstring: str) -> str:
    """The first sentence, on one line, without its full stop."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z0-9)`\]\"'])\. (?=[A-Z`])", paragraph)[0]
    return sentence.rstrip(".")
