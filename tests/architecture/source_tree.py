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
def importers_of_modules() -> Mapping[str, frozenset[str]]:
    """By path, the paths of the modules that import each module, anywhere in their code."""
    paths = {
        module.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module.path for module in modules()
    }
    importers: dict[str, set[str]] = {path: set() for path in paths.values()}
    for module in modules():
        for node in ast.walk(module.tree):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                # `from package import module` names the module second.
                names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for path in {paths[name] for name in names if name in paths} - {module.path}:
                importers[path].add(module.path)
    return {path: frozenset(found) for path, found in importers.items()}


def _module_name(path: str) -> str:
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
