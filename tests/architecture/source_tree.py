"""What the architecture tests look at: the source files, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


class Module(NamedTuple):
    """One source file."""

    path: str
    """Relative to `src`: barnabas/api/apis.py."""
    lines: int
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is an `__init__.py`."""
        return self.path.endswith("__init__.py")


class Function(NamedTuple):
    """One function, named as `path::Class.method`."""

    name: str
    lines: int


@cache
def modules() -> tuple[Module, ...]:
    """Every module under `src`, sorted by path."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        found.append(Module(file.relative_to(SOURCE).as_posix(), text.count("\n"), ast.parse(text)))
    return tuple(found)


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """What each module imports of ours, by path: at its top, in functions, and for type checkers."""
    paths = {_dotted(module.path): module.path for module in modules()}
    graph = {}
    for module in modules():
        found: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.update(
                    name if (name := f"{node.module}.{alias.name}") in paths else node.module for alias in node.names
                )
        graph[module.path] = frozenset(paths[name] for name in found if name in paths) - {module.path}
    return graph


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def functions(module: Module) -> Iterator[Function]:
    """Every function of a module, nested ones included, with its length from `def` to its last line."""

    def walk(node: ast.AST, prefix: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    yield Function(f"{module.path}::{name}", (child.end_lineno or child.lineno) - child.lineno + 1)
                yield from walk(child, f"{name}.")
            else:
                yield from walk(child, prefix)

    return walk(module.tree, "")


def string_literals(module: Module) -> Iterator[str]:
    """Every string constant of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
