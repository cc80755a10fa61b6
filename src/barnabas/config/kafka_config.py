"""The broker's configuration: one frozen snapshot of typed settings, parsed from a properties file.

Made by the command line (or a test) before the broker is built; the composition root hands each layer its own small
part. Immutable, so any thread reads it; a changed setting makes a new snapshot. Kafka: KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, PREFIXES_OF_PLUGINS, RENAMED
from barnabas.config.config_error import ConfigError, nearest_name
from barnabas.config.config_key import ConfigKey, ConfigValue
from barnabas.config.cross_checks import check_settings

LISTENER_PREFIX = "listener.name."

Strings = list[str]
"""An alias, because `KafkaConfig.list` hides the built-in name inside the class."""


class KafkaConfig:
    """Typed access by Kafka's names. A name that is not in the table is a programming error: KeyError."""

    __slots__ = ("_values", "originals", "source")

    def __init__(self, values: Mapping[str, ConfigValue], originals: Mapping[str, str], source: str) -> None:
        self._values = values
        self.originals: Mapping[str, str] = originals
        self.source = source

    @classmethod
    def parse(cls, properties: Mapping[str, str], source: str = "properties") -> KafkaConfig:
        """Parse and check everything; ConfigError names the setting, the value, and the nearest right name.

        `source` says in messages where the properties come from.
        """
        properties = dict(properties)
        for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):  # two names of one number
            if other in properties:
                properties.setdefault(name, properties[other])
        values: dict[str, ConfigValue] = {name: key.default for name, key in BROKER_CONFIG_KEYS.items()}
        for name, text in properties.items():
            if name.startswith(PREFIXES_OF_PLUGINS):
                continue  # only the plug-in knows what it means
            key = find_key(name)
            if key is None:
                raise ConfigError(_unknown(name, source), name)
            values[name] = key.parse(text, name)
        config = cls(values, properties, source)
        check_settings(config)
        return config

    def with_changes(self, changes: Mapping[str, str | None]) -> KafkaConfig:
        """A new snapshot; None takes a setting back to its default."""
        properties = dict(self.originals)
        for name, text in changes.items():
            if text is None:
                properties.pop(name, None)
            else:
                properties[name] = text
        return KafkaConfig.parse(properties, self.source)

    def value(self, name: str) -> ConfigValue:
        """The typed value, whatever its type."""
        return self._values[name]

    def integer(self, name: str) -> int:
        """An INT, SHORT or LONG that has a value."""
        value = self._values[name]
        if not isinstance(value, int):
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.', name)
        return value

    def optional_integer(self, name: str) -> int | None:
        """An INT, SHORT or LONG, or None."""
        return cast("int | None", self._values[name])

    def floating(self, name: str) -> float:
        """A DOUBLE."""
        return float(cast("float", self._values[name]))

    def boolean(self, name: str) -> bool:
        """A BOOLEAN."""
        return bool(self._values[name])

    def string(self, name: str) -> str:
        """A STRING, CLASS or PASSWORD that has a value."""
        value = self._values[name]
        if not isinstance(value, str):
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.', name)
        return value

    def optional_string(self, name: str) -> str | None:
        """A STRING, CLASS or PASSWORD, or None."""
        return cast("str | None", self._values[name])

    def list(self, name: str) -> Strings:
        """A LIST; empty if it has no value."""
        value = cast("tuple[str, ...] | None", self._values[name])
        return [*value] if value else []

    def is_set(self, name: str) -> bool:
        """Whether the setting was given, rather than left at its default."""
        return name in self.originals

    def text(self, name: str) -> str | None:
        """The value as a properties file would have it; None if there is none, or if it is a secret."""
        key = BROKER_CONFIG_KEYS[name]
        return None if key.is_sensitive else key.text(self._values[name])

    def for_listener(self, listener_name: str, name: str) -> ConfigValue:
        """The value of listener.name.<listener>.<name>, or else of <name>."""
        prefixed = f"{LISTENER_PREFIX}{listener_name.lower()}.{name}"
        return self._values[prefixed] if prefixed in self._values else self._values[name]

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
        return f"KafkaConfig({shown}, source={self.source!r})"


def find_key(name: str) -> ConfigKey | None:
    """The setting of this name, also behind listener.name.<listener>. and, after that, <SASL mechanism>. prefixes."""
    key = BROKER_CONFIG_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        _, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
        key = BROKER_CONFIG_KEYS.get(setting) or BROKER_CONFIG_KEYS.get(setting.partition(".")[2])
    return key


def _unknown(name: str, source: str) -> str:
    """What to say of a setting that does not exist. Kafka only warns, and the typing error stays unnoticed."""
    message = f"Unknown setting {name} in {source}"
    instead = RENAMED.get(name) or nearest_name(name, BROKER_CONFIG_KEYS)
    return f"{message}; did you mean {instead}?" if instead else message
