"""The one exception of this package: a setting that is unknown, malformed, or in conflict with another.

Raised while a configuration is parsed; the command line prints it, the admin APIs answer INVALID_CONFIG with its text.
"""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(ValueError):
    """A configuration that cannot be used. `str()` is the whole message, `name` the setting (None: several)."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.name = name

    @classmethod
    def invalid(cls, name: str, value: object, reason: str) -> ConfigError:
        """A value that does not fit, in the words of Kafka's ConfigException."""
        return cls(f"Invalid value {_java_text(value)} for configuration {name}: {reason}", name)


class RequirementFailed(ConfigError):
    """Settings that are right each for itself and don't go together.

    Kafka checks these with Scala's `require`, which says so in front of the message when a client hears of it.
    """


class StepTooLarge(ConfigError):
    """A value that may be reached in several changes and not in this one.

    A rule for who asks: what was accepted after another change, and before that one was applied, holds all the same.
    """


class InvalidConfiguration(ConfigError):
    """Settings that don't make sense: a name that doesn't exist, or two that exclude each other.

    Kafka's InvalidConfigurationException, which reaches a client as it is; a ConfigException about one value is said
    to be of which resource (`metadata.config_admin`).
    """


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None if nothing is close."""
    import difflib  # noqa: PLC0415 only needed for an error; keeps start-up fast

    lowered = name.strip().lower().replace("_", ".")
    names = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(lowered, names, n=1, cutoff=0.75)
    return names[matches[0]] if matches else None


def _java_text(value: object) -> str:
    """A value as Java prints it in the same message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)
