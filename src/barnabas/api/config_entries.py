"""Settings as the API shows them: value, where it comes from, and what else would apply.

Called by the configs and topics handlers. Pure functions over the tables of `barnabas.config`.
Kafka: ConfigHelper.createTopicConfigEntry, createBrokerConfigEntry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey, Scope
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.log_config import topic_values
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.protocol.config_codes import ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A setting that gives, or would give, the value: the first of a list is the one in force."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic or broker. value: None when it has none, or when it is a secret."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]


def topic_entries(
    broker: KafkaConfig, overrides: Mapping[str, str], wanted: Callable[[str], bool] = lambda _: True
) -> list[ConfigEntry]:
    """Every wanted setting of a topic with these overrides."""
    values = topic_values(broker, overrides)
    entries = []
    for name, topic_key in TOPIC_CONFIG_KEYS.items():
        if wanted(name):
            value = topic_key.key.text(values[name])
            own = (ConfigSynonym(name, value, ConfigSource.TOPIC),) if name in overrides else ()
            synonyms = own + _synonyms(broker, [synonym.name for synonym in topic_key.synonyms])
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            entries.append(ConfigEntry(topic_key.key, value, source, False, synonyms))
    return entries


def broker_entries(broker: KafkaConfig, wanted: Callable[[str], bool] = lambda _: True) -> list[ConfigEntry]:
    """Every wanted setting of this broker."""
    entries = []
    for name, key in BROKER_CONFIG_KEYS.items():
        if wanted(name):
            synonyms = _synonyms(broker, _FALLBACKS.get(name, [name]))
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            entries.append(ConfigEntry(key, broker.text(name), source, key.scope is Scope.READ_ONLY, synonyms))
    return entries


_FALLBACKS = {
    synonym.name: [fallback.name for fallback in key.synonyms[number:]]
    for key in TOPIC_CONFIG_KEYS.values()
    for number, synonym in enumerate(key.synonyms)
}
"""A broker setting that gives topics a default -> itself, then those that count when it is not set."""


def _synonyms(broker: KafkaConfig, names: Sequence[str]) -> tuple[ConfigSynonym, ...]:
    """What gives, or would give, the value of the broker setting that is the first of `names`.

    What the file sets comes before any default, whichever of the names it uses. As in Kafka nothing before the first
    name is shown: `log.retention.hours` is told of only together with a `log.retention.ms`.
    """
    static = [
        ConfigSynonym(name, broker.text(name), ConfigSource.STATIC_BROKER) for name in names if broker.is_set(name)
    ]
    defaults = [
        ConfigSynonym(name, None if key.is_sensitive else key.text(key.default), ConfigSource.DEFAULT)
        for name in names
        if (key := BROKER_CONFIG_KEYS[name]).default is not None
    ]
    synonyms = static + defaults
    first = next((place for place, synonym in enumerate(synonyms) if synonym.name == names[0]), len(synonyms))
    return tuple(synonyms[first:])
