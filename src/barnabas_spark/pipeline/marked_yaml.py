"""Reads a YAML file into plain values, keeps the line of each, and replaces the references in its texts.

Called by `pipeline_file`, on any thread; no state is shared, no lock. YAML's safe subset is read: plain values, lists
and maps. Tags, merge keys and keys that stand twice are errors, because such a file does not say what it seems to say.
A few aliases of aliases can stand for billions of values: how many, and how deep, is bounded.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from barnabas_spark.pipeline.pipeline_error import PipelineError, Problem

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_MOST_CHARACTERS = 4_000_000
_MOST_VALUES = 20_000
_DEEPEST = 50
"""A pipeline file nests five levels."""
_TEXT_TAG = "tag:yaml.org,2002:str"
_TOO_DEEP = f"lists and maps are nested deeper than {_DEEPEST} levels"
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "timestamp")
_MERGE_TAG = "tag:yaml.org,2002:merge"


class UnknownValue(Exception):
    """A reference to a parameter or a variable that has no value. The message says which."""


class MarkedYaml:
    """A file's values, and the line of each.

    Raises PipelineError: for a file that is no YAML or no map.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._lines: dict[Path, int] = {(): 1}
        self._text_lines: dict[Path, int] = {}
        self._problems: list[Problem] = []
        self._values_left = 2 * _MOST_VALUES
        """Each value is read once for the parameters at most, and once for all."""
        if len(text) > _MOST_CHARACTERS:
            raise PipelineError(path, [Problem(1, f"the file has more than {_MOST_CHARACTERS:,} characters")])
        self._loader = yaml.SafeLoader(text)
        try:
            root = self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = error.problem or error.context or "not valid"
            raise PipelineError(path, [Problem(1 if mark is None else mark.line + 1, f"not YAML: {what}")]) from None
        except yaml.YAMLError as error:
            raise PipelineError(path, [Problem(1, f"not YAML: {error}")]) from None
        except RecursionError:
            line = self._loader.get_mark().line + 1
            raise PipelineError(path, [Problem(line, _TOO_DEEP)]) from None
        if not isinstance(root, MappingNode):
            raise PipelineError(path, [Problem(1, "a pipeline file is a map: name, sources, transforms, sinks")])
        self._root = root

    def section(self, key: str) -> Any:
        """Return the values below a key of the top level as they stand in the file, or None. Raises PipelineError."""
        for name, value in self._root.value:
            if isinstance(name, ScalarNode) and name.value == key:
                section = self._value(value, (key,), lambda text: text, frozenset())
                self.raise_problems()
                return section
        return None

    def values(self, replace: Callable[[str], str]) -> dict[str, Any]:
        """Return all values. `replace` gets each text, and raises UnknownValue. Raises PipelineError."""
        found = self._value(self._root, (), replace, frozenset())
        self.raise_problems()
        assert isinstance(found, dict)
        return found

    def line(self, path: Path) -> int:
        """Return the line of a value's key, or that of the nearest value around it."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def text_line(self, path: Path) -> int:
        """Return the line on which the first line of a text stands."""
        return self._text_lines.get(path, self.line(path))

    def add_problem(self, path: Path, message: str) -> None:
        """Note that a value is wrong."""
        self._problems.append(Problem(self.line(path), message))

    def raise_problems(self) -> None:
        """Raise what was noted. Raises PipelineError."""
        if self._problems:
            raise PipelineError(self.path, self._problems)

    def error(self, path: Path, message: str) -> PipelineError:
        """Return the error that a value is wrong."""
        return PipelineError(self.path, [Problem(self.line(path), message)])

    def _value(self, node: Node, path: Path, replace: Callable[[str], str], around: frozenset[int]) -> Any:
        """Return what a node stands for; `around` are the nodes that it is in.

        Raises PipelineError: it stands for too much.
        """
        self._values_left -= 1
        if self._values_left < 0:
            raise self.error(path, f"aliases make more than {_MOST_VALUES:,} values of this file: write fewer of them")
        if len(path) > _DEEPEST:
            raise self.error(path, _TOO_DEEP)
        self._lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in around:
            self.add_problem(path, "an alias stands for a value that contains it")
            return None
        around |= {id(node)}
        if isinstance(node, MappingNode):
            return self._map(node, path, replace, around)
        if isinstance(node, SequenceNode):
            return [self._value(each, (*path, index), replace, around) for index, each in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        # The text of a block scalar begins below its mark.
        self._text_lines[path] = node.start_mark.line + (2 if node.style in ("|", ">") else 1)
        return self._scalar(node, path, replace)

    def _map(
        self, node: MappingNode, path: Path, replace: Callable[[str], str], around: frozenset[int]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode) or key_node.tag == _MERGE_TAG:
                self._problems.append(Problem(key_node.start_mark.line + 1, "a key must be a plain text"))
                continue
            key = key_node.value
            below = (*path, key)
            if key in found:
                self._problems.append(
                    Problem(key_node.start_mark.line + 1, f"{key!r} stands here and in line {self._lines[below]}")
                )
                continue
            self._lines[below] = key_node.start_mark.line + 1
            found[key] = self._value(value_node, below, replace, around)
        return found

    def _scalar(self, node: ScalarNode, path: Path, replace: Callable[[str], str]) -> Any:
        try:
            text = replace(node.value)
        except UnknownValue as error:
            self.add_problem(path, str(error))
            return node.value
        tag = node.tag
        if text != node.value and node.style is None:
            # A plain `${rows}` that stands for 20 is a number, as a plain 20 is.
            tag = self._loader.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        if tag.rpartition(":")[2] not in _PLAIN_TAGS:
            self.add_problem(path, f"{tag} is not read: only plain values, lists and maps are")
            return text
        if tag.endswith(":timestamp"):
            # A date is a text for Spark, which has types of its own.
            tag = _TEXT_TAG
        try:
            return self._loader.construct_object(ScalarNode(tag, text, node.start_mark, node.end_mark))
        except (ValueError, yaml.YAMLError) as error:
            self.add_problem(path, f"{text!r} cannot be read: {error}")
            return text


_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?P<inside>[^}]*)\}")
_ENVIRONMENT_PREFIX = "env:"
_DEFAULT_SEPARATOR = ":-"


class Parameters:
    """The values that a file's references, `${name}` and `${env:NAME}`, stand for. Immutable.

    `given`: values by name, from the command line or the file's defaults; None: declared, and has no value.
    """

    def __init__(self, given: Mapping[str, str | None], environment: Mapping[str, str]) -> None:
        self._given = given
        self._environment = environment

    def replaced(self, text: str) -> str:
        """Return the text with every reference replaced; `$${` stands for `${`. Raises UnknownValue."""
        return _REFERENCE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        """Return what one reference stands for. Raises UnknownValue."""
        inside = match["inside"].strip()
        if match["escaped"]:
            return "${" + match["inside"] + "}"
        name, has_default, default = inside.partition(_DEFAULT_SEPARATOR)
        if name.startswith(_ENVIRONMENT_PREFIX):
            variable = name.removeprefix(_ENVIRONMENT_PREFIX)
            value = self._environment.get(variable)
            # As in a shell, an empty variable counts as none where there is a default.
            if value is None or (has_default and not value):
                if not has_default:
                    raise UnknownValue(
                        f"the environment variable {variable!r} is not set: set it, or write"
                        f" ${{env:{variable}:-DEFAULT}}"
                    )
                return default
            return value
        if name not in self._given:
            near = difflib.get_close_matches(name, self._given, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ": declare it under 'parameters'"
            raise UnknownValue(f"parameter {name!r} is not declared{hint} (a literal ${{ is written $${{)")
        value = self._given[name]
        if value is None:
            if has_default:
                return default
            raise UnknownValue(f"parameter {name!r} has no value: give it with --parameter {name}=VALUE")
        return value
