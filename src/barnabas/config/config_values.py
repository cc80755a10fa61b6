"""Settings by name: the typed values of one configuration, and the texts in which they were given.

The base of `KafkaConfig`, apart from it so that the rules between settings (`cross_checks`, `listeners`, `protection`)
read values without knowing how they are parsed. Immutable, so any thread reads it. The layers above do not read by
name: they declare their fields (`setting`). Kafka: org.apache.kafka.common.config.AbstractConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, LISTENER_PREFIX, find_key
from barnabas.config.config_error import ConfigError
from barnabas.config.config_key import ConfigValue

Strings = list[str]
"""An alias, because `ConfigValues.list` hides the built-in name inside the class."""


class ConfigValues:
    """Typed access by Kafka's names. A name that is not in the table is a programming error: KeyError.

    originals: the settings that were given, as text. source: where they come from, for messages.
    """

    __slots__ = ("_values", "originals", "source")

    def __init__(self, values: Mapping[str, ConfigValue], originals: Mapping[str, str], source: str) -> None:
        self._values = values
        self.originals: Mapping[str, str] = originals
        self.source = source

    def names(self) -> Iterable[str]:
        """Return the names of all settings that have a value here."""
        return self._values.keys()

    def value(self, name: str) -> ConfigValue:
        """Return the typed value, whatever its type."""
        return self._values[name]

    def integer(self, name: str) -> int:
        """Return an INT, SHORT or LONG. Raises ConfigError: it has no value."""
        value = self._values[name]
        if not isinstance(value, int):
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.', name)
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return an INT, SHORT or LONG, or None if it has no value."""
        return cast("int | None", self._values[name])

    def floating(self, name: str) -> float:
        """Return a DOUBLE."""
        return float(cast("float", self._values[name]))

    def boolean(self, name: str) -> bool:
        """Return a BOOLEAN."""
        return bool(self._values[name])

    def string(self, name: str) -> str:
        """Return a STRING, CLASS or PASSWORD. Raises ConfigError: it has no value."""
        value = self._values[name]
        if not isinstance(value, str):
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.', name)
        return value

    def optional_string(self, name: str) -> str | None:
        """Return a STRING, CLASS or PASSWORD, or None if it has no value."""
        return cast("str | None", self._values[name])

    def list(self, name: str) -> Strings:
        """Return a LIST, which is empty if it has no value."""
        value = cast("tuple[str, ...] | None", self._values[name])
        return [*value] if value else []

    def is_set(self, name: str) -> bool:
        """Tell whether the setting was given, rather than left at its default."""
        return name in self.originals

    def text(self, name: str) -> str | None:
        """Return the value as a properties file would have it; None if there is none, or if it is a secret."""
        key = BROKER_CONFIG_KEYS[name]
        return None if key.is_sensitive else key.text(self._values[name])

    def of_listener(self, listener_name: str) -> ConfigValues:
        """Return the settings of one listener: a setting behind the listener's prefix overrides the one without.

        `listener.name.external.max.connections=5` is `max.connections=5` of the listener EXTERNAL, and of no other.
        """
        # Kafka writes the listener's name in lower case here and compares names in upper case everywhere else.
        return _behind(self, f"{LISTENER_PREFIX}{listener_name.lower()}.")

    def of_mechanism(self, listener_name: str, mechanism: str) -> ConfigValues:
        """Return the settings of a SASL mechanism of a listener: those behind both prefixes override the others."""
        of_listener = self.of_listener(listener_name)
        return _behind(of_listener, f"{LISTENER_PREFIX}{listener_name.lower()}.{mechanism.lower()}.")

    @property
    def log_dirs(self) -> Strings:
        """The data directories: log.dirs, or else log.dir."""
        text = self.optional_string("log.dirs") or self.string("log.dir")
        return [directory.strip() for directory in text.split(",") if directory.strip()]

    def __repr__(self) -> str:
        shown = {}
        for name, text in sorted(self.originals.items()):
            key = find_key(name)
            shown[name] = text if key is not None and not key.is_sensitive else "[hidden]"
        return f"{type(self).__name__}({shown}, source={self.source!r})"


DEFAULTS = ConfigValues({name: key.default for name, key in BROKER_CONFIG_KEYS.items()}, {}, "the defaults")
"""The configuration of an empty file."""


def _behind(config: ConfigValues, prefix: str) -> ConfigValues:
    """Return the settings, where one behind the prefix overrides the one without."""
    given = {
        setting: name
        for name in config.originals
        if (setting := name.removeprefix(prefix)) != name and setting in BROKER_CONFIG_KEYS
    }
    values = {name: config.value(given.get(name, name)) for name in config.names()}
    originals = {**config.originals, **{setting: config.originals[name] for setting, name in given.items()}}
    return ConfigValues(values, originals, config.source)
