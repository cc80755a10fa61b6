"""The exceptions for a setting that is unknown, malformed, or in conflict with another, and the hint at a known name.

The exceptions are raised while a configuration is parsed. The command line prints their text; the admin APIs answer
INVALID_CONFIG or INVALID_REQUEST with it. The hint is made where a setting, an option or a choice is rejected: by the
settings of broker and clients, the command line, the test kit's faults and the Spark options. No state.

Kafka: ConfigException, InvalidConfigurationException.
"""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(ValueError):
    """The error for a configuration that cannot be used. name: the setting, or None when there are several."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name

    @classmethod
    def invalid(cls, name: str, value: object, reason: str) -> ConfigError:
        """Return the error for a value that does not fit, in the words of Kafka's ConfigException."""
        return cls(f"Invalid value {_java_text(value)} for configuration {name}: {reason}", name)


class RequirementFailed(ConfigError):
    """The error for settings that contradict one another, although each value is valid.

    Kafka checks such rules with Scala's `require`, which puts "requirement failed: " in front of the client's message.
    """


class StepTooLarge(ConfigError):
    """The error for a value that one change may not reach, but several smaller ones may.

    The rule holds for a request only. A change that was accepted before an earlier one was applied is applied too,
    even if the step has become too large by then.
    """


class InvalidConfiguration(ConfigError):
    """The error for a topic setting that does not exist, or for two that exclude each other.

    A client gets this text unchanged; before the text of any other error about a value, `metadata.config_admin` names
    the resource. Kafka makes the same difference between InvalidConfigurationException and ConfigException.
    """


def _java_text(value: object) -> str:
    """Return a value as Java prints it in the same message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


_SEPARATORS = str.maketrans("_-", "..")


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name most like `name`, or None if none is close.

    Upper and lower case are alike, and so are dots, underscores and hyphens. cutoff: the least likeness, from 0 to 1.
    """
    import difflib  # noqa: PLC0415 only needed for an error; keeps start-up fast

    names = {_plain(candidate): candidate for candidate in known}
    matches = difflib.get_close_matches(_plain(name.strip()), names, n=1, cutoff=cutoff)
    return names[matches[0]] if matches else None


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the nearest known name, or nothing if none is close."""
    nearest = nearest_name(name, known)
    return "" if nearest is None else f"; did you mean {nearest!r}?"


def _plain(name: str) -> str:
    return name.lower().translate(_SEPARATORS)
