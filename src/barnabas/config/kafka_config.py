"""The broker's configuration: one frozen snapshot of typed settings, parsed from a properties file.

Made by the command line (or a test) before the broker is built; every layer reads its declared part (`setting`).
Immutable, so any thread reads it; a changed setting makes a new snapshot. Kafka: kafka.server.KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, PREFIXES_OF_PLUGINS, RENAMED, find_key
from barnabas.config.config_error import ConfigError, nearest_name
from barnabas.config.config_key import ConfigValue
from barnabas.config.config_values import ConfigValues
from barnabas.config.cross_checks import check_settings

_SAME_NUMBER = (("broker.id", "node.id"), ("node.id", "broker.id"))


class KafkaConfig(ConfigValues):
    """Values that were parsed, and that agree with one another.

    unknown: the names that no table has and that were kept all the same, each with a sentence about it.
    """

    __slots__ = ("unknown",)

    def __init__(
        self,
        values: Mapping[str, ConfigValue],
        originals: Mapping[str, str],
        source: str,
        unknown: Mapping[str, str],
    ) -> None:
        super().__init__(values, originals, source)
        self.unknown = unknown

    @classmethod
    def parse(
        cls, properties: Mapping[str, str], source: str = "properties", *, tolerated: Collection[str] = ()
    ) -> KafkaConfig:
        """Parse the properties and check the rules between them.

        source: where they come from, for messages. tolerated: names that may be unknown, because they come from a file,
        which may hold settings of other programs and releases. An unknown name among them is kept without a meaning.

        Raises ConfigError: a name is unknown (the message has the nearest right one), a value does not fit its type or
        bounds, settings contradict one another, or one of them promises protection that this version does not have.
        """
        properties = dict(properties)
        for name, other in _SAME_NUMBER:
            if other in properties:
                properties.setdefault(name, properties[other])
        values: dict[str, ConfigValue] = {name: key.default for name, key in BROKER_CONFIG_KEYS.items()}
        unknown: dict[str, str] = {}
        for name, text in properties.items():
            if name.startswith(PREFIXES_OF_PLUGINS):
                continue  # only the plug-in knows what it means
            key = find_key(name)
            if key is not None:
                values[name] = key.parse(text, name)
            elif name in tolerated:
                unknown[name] = _unknown(name, source)
            else:
                raise ConfigError(_unknown(name, source), name)
        config = cls(values, properties, source, unknown)
        check_settings(config)
        return config


def _unknown(name: str, source: str) -> str:
    """Return what to say about a setting that does not exist."""
    message = f"Unknown setting {name} in {source}"
    instead = RENAMED.get(name) or nearest_name(name, BROKER_CONFIG_KEYS)
    return f"{message}; did you mean {instead}?" if instead else message
