"""The exceptions of this package: a setting that is unknown, malformed, or in conflict with another.

Raised while a configuration is parsed. The command line prints the text; the admin APIs answer INVALID_CONFIG or
INVALID_REQUEST with it. Kafka: ConfigException, InvalidConfigurationException.
"""

from __future__ import annotations


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
