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
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import barnabas
import hatch_build
from hatch_build import Host, why_plain
from tests.architecture.generic_lines import generic_lines, stored

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
COMPILED = os.environ.get("BARNABAS_TESTS_COMPILED") == "1"


def listed_modules() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return modules


def is_open(class_def: ast.ClassDef) -> bool:
    """Whether the compiler is told that interpreted classes inherit from a class."""
    return any("allow_interpreted_subclasses=True" in ast.unparse(mark) for mark in class_def.decorator_list)


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
    written = {path.relative_to(ROOT / "native"): path for path in (ROOT / "native" / "barnabas").rglob("*.py")}
    # Others are the compiled build's alone.
    twins = {place: path for place, path in written.items() if (SOURCES / place).exists()}
    assert twins
    assert {".".join(place.with_suffix("").parts) for place in twins} <= set(listed_modules())
    for place, path in twins.items():
        assert public_names(path) == public_names(SOURCES / place), place


def compiled_texts() -> list[Path]:
    """The texts that are listed, and those written for the compiler alone."""
    listed = [SOURCES.joinpath(*name.split(".")).with_suffix(".py") for name in listed_modules()]
    return [*listed, *(ROOT / "native" / "barnabas").rglob("*.py")]


def imported_packages(paths: Iterable[Path], *, at_run_time: bool = False) -> set[str]:
    """The packages that modules import, those of Python and of the project left out."""
    found: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text()) for path in paths]
    while nodes:
        match nodes.pop():
            case ast.Import(names=names):
                found.update(alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                found.add(module.partition(".")[0])
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse) if at_run_time:
                nodes += orelse
            case node:
                nodes += ast.iter_child_nodes(node)
    return found - set(sys.stdlib_module_names) - {"barnabas"}


def distribution_names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in requirements}


def test_an_isolated_build_installs_what_compiled_modules_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the types of one of them mypyc refuses the modules: `BARNABAS_COMPILE=1 pip wheel .` failed so."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(hatch_build.SWITCH, "0")
    assert hatch_build.get_requires_for_build_wheel() == []
    monkeypatch.setattr(hatch_build, "why_plain", lambda host: None)
    # mypy brings librt and the names of native integers along.
    wanted = [*hatch_build.get_requires_for_build_wheel(), *(importlib.metadata.requires("mypy") or ())]
    imported = imported_packages(compiled_texts())
    assert imported
    assert those_of_other_distributions(imported, wanted) == set()


def those_of_other_distributions(packages: set[str], requirements: Iterable[str]) -> set[str]:
    installed = distribution_names(requirements)
    found = importlib.metadata.packages_distributions()
    return {package for package in packages if installed.isdisjoint(distribution_names(found[package]))}


def test_an_editable_install_has_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(hatch_build.SWITCH, "1")
    assert distribution_names(hatch_build.get_requires_for_build_editable()) == {"editables"}


def test_a_compiled_wheel_alone_needs_the_compilers_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dependencies = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    compiled = imported_packages(compiled_texts(), at_run_time=True)
    assert "librt" in compiled
    assert those_of_other_distributions(compiled, [*dependencies, *hatch_build.RUN_TIME]) == set()
    plain = imported_packages((SOURCES / "barnabas").rglob("*.py"), at_run_time=True)
    assert plain.isdisjoint({"librt", "mypy_extensions"})


HOST = Host("", "cpython", (3, 12), False, "linux-x86_64", "/usr/bin/gcc", None)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (HOST, None),
        (HOST._replace(switch="1", version=(3, 14), platform="macosx-11.0-arm64"), None),
        (HOST._replace(switch="0"), "BARNABAS_COMPILE was 0"),
        (HOST._replace(version=(3, 14)), "for Python 3.14 on linux-x86_64 it is compiled only with BARNABAS_COMPILE=1"),
        (
            HOST._replace(platform="linux-riscv64"),
            "for Python 3.12 on linux-riscv64 it is compiled only with BARNABAS_COMPILE=1",
        ),
        (HOST._replace(compiler=None), "no C compiler was found"),
        (HOST._replace(switch="1", compiler=None), "no C compiler was found"),
        (HOST._replace(missing_header="/x/Python.h"), "Python's headers were not found (/x/Python.h)"),
        (
            HOST._replace(switch="1", free_threaded=True),
            "the compiled build is not offered for free-threaded Python",
        ),
        (HOST._replace(switch="1", implementation="pypy"), "mypyc does not compile for pypy"),
    ],
)
def test_what_is_built_where(host: Host, reason: str | None) -> None:
    assert why_plain(host) == reason


def test_another_value_of_the_switch_is_an_error() -> None:
    with pytest.raises(ValueError, match="BARNABAS_COMPILE is 0, 1 or not set, and not 'yes'"):
        why_plain(HOST._replace(switch="yes"))


def test_a_build_is_compiled_only_if_this_interpreter_imports_what_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "barnabas"
    (package / "records").mkdir(parents=True)
    monkeypatch.setattr(barnabas, "__file__", str(package / "__init__.py"))
    assert barnabas.build() == "plain Python: run from its sources"
    record = package / "build.txt"
    record.write_text("plain Python: no C compiler was found when it was built")
    assert barnabas.build() == "plain Python: no C compiler was found when it was built"
    record.write_text("compiled by mypyc 2.4.1 for Python 3.11\nbarnabas/apis\nbarnabas/records/crc")
    (package / "apis.cpython-27-x86_64-linux-gnu.so").touch()
    missing = "this interpreter imports nothing of what was compiled by mypyc 2.4.1 for Python 3.11"
    assert barnabas.build() == f"plain Python: {missing}"
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    (package / f"apis{suffix}").touch()
    assert barnabas.build() == "partly compiled by mypyc 2.4.1 for Python 3.11: 1 of 2 modules are missing"
    (package / "records" / f"crc{suffix}").touch()
    assert barnabas.build() == "compiled by mypyc 2.4.1 for Python 3.11"


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """It could not be made: "interpreted classes cannot inherit from compiled", unless those are marked."""
    modules = set(listed_modules())
    opened = {
        (name, node.name)
        for name in modules
        for node in ast.parse(SOURCES.joinpath(*name.split(".")).with_suffix(".py").read_text()).body
        if isinstance(node, ast.ClassDef) and is_open(node)
    }
    wrong = []
    for path in SOURCES.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        if module not in modules:
            tree = ast.parse(path.read_text())
            wrong += [
                f"{module}.{name} of {base}.{of}"
                for name, base, of in bases_in(tree)
                if base in modules and (base, of) not in opened
            ]
    assert wrong == []


def test_modules_are_compiled_where_they_should_be_and_nowhere_else() -> None:
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    compiled = [name for name in listed_modules() if str(importlib.import_module(name).__file__).endswith(suffixes)]
    assert compiled == (listed_modules() if COMPILED else [])
    assert barnabas.build().startswith("compiled by mypyc" if COMPILED else "plain Python: ")


@pytest.mark.skipif(not COMPILED, reason="asks the compiler, which takes 20 seconds: once a run")
def test_compiled_modules_have_no_more_generic_lines_than_before(tmp_path: Path) -> None:
    """`python -m tests.architecture.generic_lines` writes the table, and shows the lines of a module."""
    allowed = stored()
    found = {name: len(lines) for name, lines in generic_lines(tmp_path).items()}
    assert {name: count for name, count in found.items() if count > allowed.get(name, 0)} == {}
