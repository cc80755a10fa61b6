"""Reads the options of `option_table` with their defaults and checks.

Made by `source_options`, `position_options` and `kafka_options` in each Python process that Spark makes; no state, no
lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas_spark.option_table import Option
from barnabas_spark.option_values import OptionValues

_DURATION = re.compile("([0-9]+) *(us|ms|s|m|min|h|d)?")
_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


class DeclaredOptions(OptionValues):
    """The options of one `load()`, read as the table declares them."""

    def is_true(self, option: Option) -> bool:
        """Return an option that is true or false, in any case. Raises OptionError."""
        return self.boolean(option.name, default=option.default == "true")

    def optional_number(self, option: Option) -> int | None:
        """Return a whole number of at least `option.smallest`, or None without it and a default. Raises OptionError."""
        default = None if option.default is None else int(option.default)
        return self.integer(option.name, default, option.smallest)

    def number(self, option: Option) -> int:
        """Return a whole number, or the default, which the option has. Raises OptionError."""
        number = self.optional_number(option)
        assert number is not None, option.name
        return number

    def duration_ms(self, option: Option) -> int:
        """Return a duration in milliseconds, as Spark reads it: a number with a unit or none. Raises OptionError."""
        match = _DURATION.fullmatch((self.text(option.name) or option.default or "").strip().lower())
        if match is None:
            self.reject(option.name, "a duration such as 500ms, 30s, 15m or 1h")
        return int(match[1]) * _MICROSECONDS[match[2] or "ms"] // 1000

    def word(self, option: Option) -> str:
        """Return one of the option's words, in any case. Raises OptionError."""
        return self.choice(option.name, option.default or "", option.choices)

    def given(self, options: Iterable[Option]) -> list[str]:
        """Return the names of those options that are given, in their order."""
        return [option.name for option in options if option.name in self]
