"""The broker's configuration: one frozen snapshot of typed settings, parsed from a properties file.

Made by the command line (or a test) before the broker is built; every layer reads its declared part (`setting`).
Immutable, so any thread reads it; a changed setting makes a new snapshot. Kafka: kafka.server.KafkaConfig.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, RENAMED, find_key
from barnabas.config.config_error import ConfigError, nearest_name
from barnabas.config.config_key import ConfigValue
from barnabas.config.config_values import ConfigValues
from barnabas.config.cross_checks import check_settings
from barnabas.config.keys.plugin_keys import AUTHORIZER_SETTINGS, PLUGIN_SETTINGS, is_of_plugin

# ${provider:path:key} or ${provider:key}, the forms that Kafka's ConfigTransformer fills in.
_REFERENCE = re.compile(r"\$\{([^}]*?):")
# Each of the two names fills in the other; where both are given they must agree (`cross_checks`).
_SAME_NUMBER = (("broker.id", "node.id"), ("node.id", "broker.id"))
_MISSPELT = 0.75
"""How like a known name an unknown one must be for a hint: most are settings of plug-ins, and not misspelt."""


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
            if is_of_plugin(name):
                continue  # its type and bounds are known to the plug-in only
            _check_no_reference(name, text, properties.get("config.providers", ""))
            key = find_key(name)
            if key is not None:
                values[name] = key.parse(text, name)
            elif name in tolerated:
                unknown[name] = unknown_setting_message(name, source)
            else:
                raise ConfigError(unknown_setting_message(name, source), name)
        # The rules come last: a value that does not fit its own type is the clearer message.
        config = cls(values, properties, source, unknown)
        check_settings(config)
        return config


def _check_no_reference(name: str, text: str, providers: str) -> None:
    """Check that no configuration provider would have to fill in a value: taken literally, it would be wrong.

    Raises ConfigError: the value names one of the providers.
    """
    if not providers:
        return
    known = [provider.strip() for provider in providers.split(",")]
    for reference in _REFERENCE.finditer(text):
        if reference[1] in known:
            raise ConfigError(
                f"{name} refers to the configuration provider {reference[1]}, a Java class that cannot be loaded here: "
                "write the value itself",
                name,
            )


def is_known(name: str) -> bool:
    """Tell whether a table has the setting, or a plug-in may have it."""
    return is_of_plugin(name) or find_key(name) is not None


def unknown_setting_message(name: str, source: str) -> str:
    """Return what to say about a setting that does not exist."""
    message = f"Unknown setting {name} in {source}"
    instead = RENAMED.get(name) or nearest_name(
        name, (*BROKER_CONFIG_KEYS, *AUTHORIZER_SETTINGS, *PLUGIN_SETTINGS), cutoff=_MISSPELT
    )
    return f"{message}; did you mean {instead}?" if instead else message
