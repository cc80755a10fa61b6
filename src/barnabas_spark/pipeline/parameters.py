"""Replaces `${name}` and `${env:NAME}` in the texts of a pipeline file.

Made by `marked_yaml` while a file is read; a pure value, no lock.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?P<inside>[^}]*)\}")
_ENVIRONMENT = "env:"
_DEFAULT = ":-"


class UnknownValue(Exception):
    """A reference to a parameter or a variable that has no value. The message says which."""


class Parameters:
    """The values that a file's references stand for.

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
        name, has_default, default = inside.partition(_DEFAULT)
        if name.startswith(_ENVIRONMENT):
            variable = name.removeprefix(_ENVIRONMENT)
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
