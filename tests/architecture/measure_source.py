"""The shape of the source in figures: lengths, sizes, names, comments, circles. `make measure-source` prints them.

Run as `python -m tests.architecture.measure_source [path prefix]`: without a prefix it prints the table of the whole
source, with one (src/barnabas/replica, or barnabas/replica) that part of it, with a list under every figure that has
one. Nothing here is asserted; what must hold is in test_tidy.py. `-v` prints the lists for the whole source too.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.architecture.source_tree import SOURCE, Module, functions, imports, modules

MOST_PARAMETERS = 6
MOST_CONSTRUCTOR_PARAMETERS = 7
MOST_ATTRIBUTES = 12
MESSAGES = "barnabas/protocol/messages/"
_COUNTERPART = re.compile(r"Kafka: (?:the )?(?:[a-z]+\.)*[A-Z]\w")
"""How a docstring names the Kafka class that plays the same role."""


class Figure(NamedTuple):
    """One line of the table, and what is counted in it, where that can be named."""

    what: str
    value: str
    members: Sequence[str] = ()


class NamedNode(NamedTuple):
    """A class or a function with the name under which it is listed: `path::Class.method`."""

    name: str
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    owner: ast.ClassDef | None


def definitions(module: Module) -> Iterator[NamedNode]:
    """Yield every class and function of a module, nested ones included."""

    def walk(node: ast.AST, prefix: str, owner: ast.ClassDef | None) -> Iterator[NamedNode]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                yield NamedNode(f"{module.path}::{name}", child, owner)
                yield from walk(child, f"{name}.", child if isinstance(child, ast.ClassDef) else None)
            else:
                yield from walk(child, prefix, owner)

    return walk(module.tree, "", None)


# -- lengths and sizes


def spread(lengths: Iterable[int], *percents: int) -> str:
    """Return the median, the percentiles named and the maximum, as `median / p90 / max`."""
    ordered = sorted(lengths)
    if not ordered:
        return "-"
    picked = [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in percents]
    return " / ".join(f"{length:,}" for length in (int(statistics.median(ordered)), *picked, ordered[-1]))


def parameter_count(function: NamedNode) -> int:
    """Return how many parameters a caller gives: all kinds but `self` and `cls`."""
    assert not isinstance(function.node, ast.ClassDef)
    arguments = function.node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    has_owner = function.owner is not None and names[:1] in (["self"], ["cls"])
    return len(names) - has_owner + len(arguments.kwonlyargs) + bool(arguments.vararg) + bool(arguments.kwarg)


def attributes(definition: ast.ClassDef) -> set[str]:
    """Return the names that a class's methods assign on `self`, and its declared fields."""
    fields = {
        node.target.id
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return fields | {
        node.attr
        for method in definition.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def longest_first(counts: Iterable[tuple[int, str]]) -> list[str]:
    """Return the names with their counts in front, the highest count first."""
    return [f"{count:3} {name}" for count, name in sorted(counts, key=lambda pair: (-pair[0], pair[1]))]


def sizes(chosen: Sequence[Module]) -> Iterator[Figure]:
    """Yield the figures about files, functions and classes."""
    files = [(module.lines, module.path) for module in chosen if not module.is_package]
    yield Figure(
        "file length: median / p90 / max",
        spread((lines for lines, _ in files), 90),
        longest_first(file for file in files if file[0] > 400),
    )
    lengths = [(function.lines, function.name) for module in chosen for function in functions(module)]
    yield Figure(
        "function length: median / p90 / p99 / max",
        spread((lines for lines, _ in lengths), 90, 99),
        longest_first(function for function in lengths if function[0] > 40),
    )
    named = [definition for module in chosen for definition in definitions(module)]
    takers = [(parameter_count(each), each) for each in named if not isinstance(each.node, ast.ClassDef)]
    many = [
        (count, each.name)
        for count, each in takers
        if count > MOST_PARAMETERS and each.node.name != "__init__" and "/cli/" not in each.name
    ]
    yield Figure(
        f"functions outside cli/ with > {MOST_PARAMETERS} parameters",
        f"{len(many)} (max {max((count for count, _ in many), default=0)})",
        longest_first(many),
    )
    constructors = [(count, each.name) for count, each in takers if each.node.name == "__init__"]
    wide = [constructor for constructor in constructors if constructor[0] > MOST_CONSTRUCTOR_PARAMETERS]
    yield Figure(
        f"constructors with > {MOST_CONSTRUCTOR_PARAMETERS} parameters",
        f"{len(wide)} of {len(constructors)} (max {max((count for count, _ in constructors), default=0)})",
        longest_first(wide),
    )
    classes = [
        # The fields of a message are the protocol's and not ours.
        (0 if each.name.startswith(MESSAGES) else len(attributes(each.node)), each.name)
        for each in named
        if isinstance(each.node, ast.ClassDef)
    ]
    heavy = [definition for definition in classes if definition[0] > MOST_ATTRIBUTES]
    yield Figure(
        f"classes with > {MOST_ATTRIBUTES} attributes",
        f"{len(heavy)} of {len(classes)} (max {max((count for count, _ in classes), default=0)})",
        longest_first(heavy),
    )


# -- prose


class Lines(NamedTuple):
    """How many lines of a file are code, have a comment, and are docstrings."""

    code: int
    comments: int
    marks: int
    """Of the comments, those that explain nothing: section marks, and switches of linters and type checkers."""
    docstrings: int


def count_lines(module: Module) -> Lines:
    """Count the lines of a module by kind; blank lines are none of them, and a comment behind code counts in both."""
    docstrings: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    comments: list[str] = []
    no_code = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
    text = (SOURCE / module.path).read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token.string)
        elif token.type not in no_code:
            code.update(range(token.start[0], token.end[0] + 1))
    marks = sum(1 for comment in comments if re.match(r"# ?(--|noqa:|type:|pragma|fmt:|!)", comment))
    return Lines(len(code - docstrings), len(comments), marks, len(docstrings))


def raises(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether an error made here can leave the function.

    AssertionError is a defect and not a promise. A bare `raise` hands on what another function documents.
    """

    def leaves(node: ast.AST, caught: frozenset[str]) -> bool:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            return False
        if isinstance(node, ast.Raise):
            name = _error_name(node)
            return name is not None and name not in caught and name != "AssertionError"
        if isinstance(node, ast.Try):
            inside = caught | {name for handler in node.handlers for name in _names(handler.type)}
            rest = [*node.handlers, *node.orelse, *node.finalbody]
            return any(leaves(child, inside) for child in node.body) or any(leaves(child, caught) for child in rest)
        return any(leaves(child, caught) for child in ast.iter_child_nodes(node))

    return any(leaves(statement, frozenset()) for statement in function.body)


def _error_name(node: ast.Raise) -> str | None:
    error = node.exc
    if error is None:
        return None
    names = list(_names(error.func if isinstance(error, ast.Call) else error))
    return names[0] if names else "?"


def _names(node: ast.AST | None) -> Iterator[str]:
    if node is not None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                yield part.id


def prose(chosen: Sequence[Module]) -> Iterator[Figure]:
    """Yield the figures about comments and docstrings."""
    counted = [count_lines(module) for module in chosen]
    code = sum(lines.code for lines in counted) or 1
    comments = sum(lines.comments for lines in counted)
    marks = sum(lines.marks for lines in counted)
    yield Figure(
        "comments, % of code", f"{100 * comments / code:.1f} ({100 * (comments - marks) / code:.1f} without marks)"
    )
    yield Figure("docstring lines, % of code", f"{100 * sum(lines.docstrings for lines in counted) / code:.1f}")
    silent: list[str] = []
    bare: list[str] = []
    raising = 0
    for module in chosen:
        for each in definitions(module):
            if isinstance(each.node, ast.ClassDef) or not raises(each.node):
                continue
            name = each.node.name
            if name.startswith("__") and name != "__init__":
                continue  # __next__, __getattr__ ...: the language says what they raise
            raising += 1
            text = ast.get_docstring(each.node) or ""
            if name == "__init__" and each.owner is not None:
                text = f"{text} {ast.get_docstring(each.owner) or ''}"
            if not text.strip():
                bare.append(each.name)
            elif not re.search(r"\b[Rr]aises\b", text):
                silent.append(each.name)
    yield Figure("raising functions", f"{raising:,}")
    yield Figure("  ... whose docstring does not say Raises", str(len(silent)), silent)
    yield Figure("  ... that have no docstring (private ones)", str(len(bare)), bare)
    named = [module for module in chosen if not module.is_package]
    without = [
        module.path
        for module in named
        if not _COUNTERPART.search(" ".join((ast.get_docstring(module.tree) or "").split()))
    ]
    yield Figure("modules that name a Kafka counterpart", f"{len(named) - len(without)} of {len(named)}", without)


# -- names and circles


def double_names() -> dict[str, list[str]]:
    """Return the public class names that more than one module defines, with those modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def circles() -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not; those hide behind TYPE_CHECKING."""
    graph = imports()
    reached = {start: _reachable(graph, start) for start in graph}
    rest = set(graph)
    found = []
    for start in sorted(graph):
        if start in rest and start in reached[start]:
            group = sorted(other for other in reached[start] if start in reached[other])
            rest -= set(group)
            found.append(group)
    return found


def _reachable(graph: Mapping[str, Collection[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(graph[path])
    return seen


def names(prefix: str) -> Iterator[Figure]:
    """Yield the figures about the names and imports that touch the part under `prefix`."""
    double = {name: paths for name, paths in double_names().items() if any(path.startswith(prefix) for path in paths)}
    yield Figure(
        "public class names defined twice", str(len(double)), [f"{name}: {', '.join(double[name])}" for name in double]
    )
    hidden = [group for group in circles() if any(path.startswith(prefix) for path in group)]
    yield Figure("hidden circles of imports", str(len(hidden)), [" - ".join(group) for group in hidden])


# -- the table


def measure(prefix: str = "") -> list[Figure]:
    """Measure the modules whose path under `src` begins with `prefix`."""
    chosen = [module for module in modules() if module.path.startswith(prefix)]
    total = Figure("files, lines", f"{len(chosen)}, {sum(module.lines for module in chosen):,}")
    return [total, *sizes(chosen), *prose(chosen), *names(prefix)]


def main() -> None:
    """Print the table, with the lists where a part was asked for."""
    parser = argparse.ArgumentParser(description="The shape of the source in figures")
    parser.add_argument("prefix", nargs="?", default="", help="only this part: src/barnabas/replica")
    parser.add_argument("-v", "--verbose", action="store_true", help="list what is counted")
    arguments = parser.parse_args()
    prefix = arguments.prefix.removeprefix("src/")
    for figure in measure(prefix):
        print(f"{figure.what:48} {figure.value}")
        if prefix or arguments.verbose:
            for member in figure.members:
                print(f"    {member}")


if __name__ == "__main__":
    main()
