"""The settings that are checked, kept and shown, but that no part acts on, each with the reason.

The rows of the settings have the reasons (`ConfigKey.kept`). docs/configuration.md shows them, a broker logs at start
and at every change which of these settings were given, and a test proves that a config class declares every other
setting. A change that makes a part act on a setting removes the reason from its row. Immutable. Kafka: no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey
from barnabas.config.dynamic_settings import base_name
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.plugin_keys import AUTHORIZER_SETTINGS, is_of_plugin
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS

_NO_PLUGINS: Final = "there is no Java to load plug-ins"

KEPT_KEYS: Final[Mapping[str, str]] = {name: key.kept for name, key in BROKER_CONFIG_KEYS.items() if key.kept}
"""Name of a broker's setting -> why nothing acts on it."""

KEPT_TOPIC_KEYS: Final[Mapping[str, str]] = {
    name: topic_key.key.kept for name, topic_key in sorted(TOPIC_CONFIG_KEYS.items()) if topic_key.key.kept
}
"""Name of a topic's setting -> why nothing acts on it."""


def why_nothing_acts(name: str) -> str | None:
    """Return why nothing acts on a broker's setting, also behind a listener's prefix; None if some part does."""
    if name in AUTHORIZER_SETTINGS:
        return None
    if is_of_plugin(name):
        return _NO_PLUGINS
    return KEPT_KEYS.get(base_name(name))


def documentation_of(key: ConfigKey) -> str:
    """Return the description of a broker's setting, which also says when nothing acts on it."""
    why = why_nothing_acts(key.name)
    return key.documentation if why is None else f"{key.documentation} Kept only: {why}."


def kept_settings(config: KafkaConfig) -> dict[str, str]:
    """Return the settings that were given, that change a default, and that nothing acts on: name -> why."""
    return {
        name: why
        for name, text in sorted(config.originals.items())
        if (why := why_nothing_acts(name)) is not None
        # A default that is written out changes nothing, and so misleads no reader; a plug-in's default is not known.
        and (is_of_plugin(name) or config.value(name) != BROKER_CONFIG_KEYS[base_name(name)].default)
        and SERVER_DEFAULTS.get(name) != text
    }


def by_reason(kept: Mapping[str, str]) -> str:
    """Return the text for a message about such settings: name, name (why); name (why)."""
    names_of: dict[str, list[str]] = {}
    for name, why in kept.items():
        names_of.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in names_of.items())
