"""What is listed is compiled where it should be, and nothing stands in its way (decisions/0009-compiled-build.md).

`make test-compiled` sets BARNABAS_TESTS_COMPILED and puts the compiled wheel on the path; everywhere else every module
must be what its source says.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hatchling.build import get_requires_for_build_wheel

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
SWITCH = "BARNABAS_COMPILE"
COMPILED = os.environ.get("BARNABAS_TESTS_COMPILED") == "1"


def listed_modules() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return modules


def bases_in(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Class, and the module and name of each of its bases that was imported."""
    origins = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                name = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(name, ast.Name) and name.id in origins:
                    yield node.name, *origins[name.id]


def test_the_list_is_sorted_and_names_modules() -> None:
    modules = listed_modules()
    assert modules == sorted(set(modules))
    assert [name for name in modules if not SOURCES.joinpath(*name.split(".")).with_suffix(".py").exists()] == []


def test_the_sample_of_tests_has_the_packages_with_compiled_modules() -> None:
    (line,) = re.findall(r"^COMPILED_PACKAGES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line.split() == sorted({name.split(".")[1] for name in listed_modules()})


def public_names(path: Path) -> set[str]:
    """The names that a module defines or lists for others."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.update(ast.literal_eval(node.value) if node.targets[0].id == "__all__" else [node.targets[0].id])
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if not name.startswith("_")}


def test_what_is_written_anew_for_the_compiler_is_listed_and_has_the_same_names() -> None:
    twins = {path.relative_to(ROOT / "native"): path for path in (ROOT / "native").rglob("*.py")}
    assert twins
    assert {".".join(place.with_suffix("").parts) for place in twins} <= set(listed_modules())
    for place, path in twins.items():
        assert public_names(path) == public_names(SOURCES / place), place


def imported_packages() -> set[str]:
    """The packages that compiled modules import, those of Python and of the project left out."""
    found: set[str] = set()
    for name in listed_modules():
        for node in ast.walk(ast.parse(SOURCES.joinpath(*name.split(".")).with_suffix(".py").read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"barnabas"}


def test_an_isolated_build_installs_what_compiled_modules_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the types of one of them mypyc refuses the modules: `BARNABAS_COMPILE=1 pip wheel .` failed so."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv(SWITCH, raising=False)
    assert get_requires_for_build_wheel() == []
    monkeypatch.setenv(SWITCH, "1")
    # mypy brings the names of native integers along.
    wanted = [*get_requires_for_build_wheel(), *(importlib.metadata.requires("mypy") or ())]
    installed = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in wanted}
    distributions = importlib.metadata.packages_distributions()
    imported = imported_packages()
    assert imported
    assert {package for package in imported if installed.isdisjoint(_names(distributions, package))} == set()


def _names(distributions: Mapping[str, list[str]], package: str) -> set[str]:
    return {name.lower().replace("_", "-") for name in distributions[package]}


def marked_classes(module: str) -> set[str]:
    """The classes of a module that interpreted classes may inherit from."""
    tree = ast.parse(SOURCES.joinpath(*module.split(".")).with_suffix(".py").read_text())
    mark = "mypyc_attr(allow_interpreted_subclasses=True)"
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name for node in classes if mark in map(ast.unparse, node.decorator_list)}


def test_no_interpreted_class_inherits_from_a_compiled_one_without_the_mark() -> None:
    """It could not be made: "interpreted classes cannot inherit from compiled"."""
    modules = set(listed_modules())
    wrong = []
    for path in SOURCES.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        if module not in modules:
            tree = ast.parse(path.read_text())
            wrong += [
                f"{module}.{name} of {base}.{of}"
                for name, base, of in bases_in(tree)
                if base in modules and of not in marked_classes(base)
            ]
    assert wrong == []


def test_modules_are_compiled_where_they_should_be_and_nowhere_else() -> None:
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    compiled = [name for name in listed_modules() if str(importlib.import_module(name).__file__).endswith(suffixes)]
    assert compiled == (listed_modules() if COMPILED else [])
