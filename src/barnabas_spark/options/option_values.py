"""Reads options by name, in any case, with their defaults and checks, and names the right values when one is wrong.

Used by the modules that parse options of the sources and the sink, in each Python process that Spark makes; no state,
no lock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

from barnabas.config.config_error import nearest_name
from barnabas_spark.options.option_table import Option

_KAFKA = "kafka."
_MEANT = dict.fromkeys(("topic", "topics", "subscribe"), ("topic", "subscribe"))
"""What is meant by names of the other direction: a sink has a `topic`, a source subscribes."""


class OptionError(ValueError):
    """An invalid option. The message has its name, its value, and what would be right."""


class OptionValues:
    """The options of one `load()`, `save()` or `start()`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark's option names do not depend on case.
        self._values = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return the option's text, or None if it was not given."""
        return self._values.get(name.lower())

    def required(self, name: str, example: str) -> str:
        """Return an option that is required. Raises OptionError for a missing or empty one."""
        value = self.text(name)
        if value is None or not value.strip():
            raise OptionError(f"option {name!r} is missing: set it, for example .option({name!r}, {example!r})")
        return value.strip()

    def boolean(self, name: str, default: bool) -> bool:
        """Return an option that is true or false, in any case. Raises OptionError."""
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        return self.reject(name, "true or false")

    def integer(self, name: str, default: int | None, smallest: int = 1) -> int | None:
        """Return a whole number of at least `smallest`. Raises OptionError."""
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            self.reject(name, f"a whole number from {smallest} on")
        return number

    def fraction(self, name: str) -> float | None:
        """Return a number that may have decimals. Raises OptionError."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return float(value)
        except ValueError:
            return self.reject(name, "a number, such as 0.8")

    def choice(self, name: str, default: str, allowed: Collection[str]) -> str:
        """Return one of the allowed words, in any case. Raises OptionError."""
        value = (self.text(name) or default).strip().lower()
        if value not in allowed:
            self.reject(name, " or ".join(sorted(allowed)))
        return value

    def reject(self, name: str, right: str) -> NoReturn:
        """Reject the option's value. Raises OptionError, whose message names the `right` values."""
        raise OptionError(f"option {name!r} is {self.text(name)!r}; it must be {right}")

    def refuse(self, name: str, reason: str) -> None:
        """Reject an option that must not be given. Raises OptionError, with the reason, if it was."""
        if name in self:
            raise OptionError(f"option {name!r} (given: {self.text(name)!r}) {reason}")

    def check_names(self, known: Collection[str]) -> None:
        """Reject unknown options: ignoring a misspelt one would read or write other records. Raises OptionError."""
        spelling = {name.lower() for name in known}
        for name in self._values:
            if name not in spelling:
                # Kafka's own settings are too many to list.
                listed = ", ".join(sorted(each for each in known if not each.startswith("kafka.")))
                hint = _known_hint(name, known) or f"; known are {listed} and Kafka's settings"
                # Never the value: it may be a password under a misspelt name.
                raise OptionError(f"unknown option {name!r}{hint}")


def _known_hint(name: str, known: Collection[str]) -> str:
    """Return `; did you mean ...?` with the known option most like an unknown one, or nothing if none is close."""
    # What all settings of Kafka's begin with says nothing of likeness.
    bare = {option.removeprefix(_KAFKA): option for option in known if option.startswith(_KAFKA)}
    bare |= {option: option for option in known if not option.startswith(_KAFKA)}
    wanted = name.removeprefix(_KAFKA)
    meant = next((each for each in _MEANT.get(wanted, ()) if each in known), None)
    if meant is None:
        nearest = nearest_name(wanted, bare)
        meant = None if nearest is None else bare[nearest]
    return "" if meant is None else f"; did you mean {meant!r}?"


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
    """Options that are read as `option_table` declares them."""

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
